"""One run of a job in virtual time: failures come as they are drawn, and the planner decides what becomes of it.

Time goes from one event to the next: a failure, a replica that begins to train, the end of the training, or the time at
which the planner wants to be asked again. At each of them it is given a snapshot, and what its plan says is done at
once.
"""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta

from trainshed.api.actions import CreateDependent, CreatePod, CreateService, DeletePod, Plan, Snapshot
from trainshed.api.framework import JobDefaults
from trainshed.api.objects import Dependent, Service
from trainshed.api.status import BACKOFF_LIMIT, DEADLINE, STARTUP_DEADLINE, ConditionType, Status
from trainshed.plan import plan

from .assumptions import PATIENCE, Assumptions, RunEnding, RunResult
from .subject import VirtualJob
from .training_work import TrainingWork
from .virtual_pods import VirtualPods

#: When each run begins: any time.
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
#: A run is given up after so many plans.
MOST_PLANS = 200_000
#: Plans at one time, after which a second passes: the planner is not asked without end.
MOST_AT_ONCE = 50
LIMITS = {
    BACKOFF_LIMIT: RunEnding.BACKOFF_LIMIT,
    DEADLINE: RunEnding.DEADLINE,
    STARTUP_DEADLINE: RunEnding.STARTUP_DEADLINE,
}


def time_at(seconds: float) -> datetime:
    """Return the time this many seconds after the beginning."""
    return BEGIN + timedelta(seconds=seconds)


class VirtualRun:
    """A run; `number` and `seed` say which failures it meets. `now` is in seconds after its beginning."""

    def __init__(self, subject: VirtualJob, assumed: Assumptions, seed: int, number: int) -> None:
        self.subject = subject
        self.assumed = assumed
        self.now = 0.0
        self.status = Status()
        self.plans = 0
        self._chance = random.Random(f"{seed}/{number}")  # noqa: S311 - no secret
        self._requeue = math.inf
        self._failure = self._next_failure()
        self._failures = {"node": 0, "program": 0}
        self._services: list[Service] = []
        self._dependents: list[Dependent] = []
        self.pods = VirtualPods(subject, assumed)
        self.work = TrainingWork(subject, assumed)

    def result(self) -> RunResult:
        """Return how the run ends."""
        longest = PATIENCE * max(1.0, self.assumed.undisturbed)
        self._reconcile()
        while not self.status.over and self.now < longest and self.plans < MOST_PLANS:
            self._step()
        self._stop()
        return RunResult(
            ending=self._ending(),
            seconds=self.now,
            node_failures=self._failures["node"],
            program_failures=self._failures["program"],
            counted_restarts=self.status.retries.total,
            used={use: tuple(amounts) for use, amounts in self.work.used.items()},
        )

    def _ending(self) -> RunEnding:
        if self.status.true(ConditionType.SUCCEEDED):
            return RunEnding.SUCCEEDED
        if not self.status.over:
            return RunEnding.UNFINISHED
        return LIMITS.get(self.status.limit_exceeded, RunEnding.NOT_RETRIED)

    def _step(self) -> None:
        """Let the next thing happen."""
        moved, done = self.pods.next_move, self.work.end
        self.now = max(self.now, min(self._failure, self._requeue, moved, done))
        if self.now >= done:
            self._stop()
            self.pods.succeed(self.subject.goal, time_at(self.now))
            self._reconcile()
            if not self.status.over:
                self.pods.succeed("", time_at(self.now))
        elif self.now >= moved:
            self._move()
        elif self.now >= self._failure and not self._fail():
            return
        self._reconcile()

    def _move(self) -> None:
        """Let replicas get their nodes, and begin to train."""
        self._note()
        if not self.pods.move(self.now, time_at(self.now)):
            return
        if self.work.trains(self.now):  # those that went on without the others begin again with them
            self.work.delay_until(self.now + self.assumed.restart_cost)
        self.work.stop(self.now)

    def _fail(self) -> bool:
        """Let a node or a program fail; return whether that is of any consequence."""
        self._failure += self._next_failure()
        slot = self._chance.randrange(self.assumed.nodes)
        is_program = self._chance.random() < self.assumed.program_failures
        if self.now < self.pods.slots[slot].ready:
            return False
        if is_program:
            running = self.pods.running_on(slot)
            if not running:
                return False
            self._failures["program"] += 1
            self._stop()
            self.pods.end(self._chance.choice(running), self.now, time_at(math.floor(self.now)))
        else:
            affected = self.pods.on(slot)
            if affected:
                self._failures["node"] += 1
                self._stop()
            self.pods.lose(slot, self.now, time_at(self.now))
            if not affected:
                return False
        self.work.delay_until(self.now + self.assumed.restart_cost)
        return True

    def _next_failure(self) -> float:
        return self._chance.expovariate(1 / self.assumed.mean_time_between)

    def _note(self) -> None:
        self.work.note(self.now, self.pods.held)

    def _stop(self) -> None:
        self._note()
        self.work.stop(self.now)

    def _reconcile(self) -> None:
        """Do what the planner says, until it has no more to say for now."""
        for _ in range(MOST_AT_ONCE):
            found = self._plan()
            self.status = found.status
            changed = self._execute(found)
            self._requeue = (found.requeue_at - BEGIN).total_seconds() if found.requeue_at else math.inf
            if self.status.over or not (changed or self._requeue <= self.now):
                break
        self._requeue = max(self._requeue, self.now + 1) if self._requeue <= self.now else self._requeue
        if not self.status.over:
            self.work.resume(self.now, self.pods.trainers)

    def _plan(self) -> Plan:
        self.plans += 1
        return plan(
            Snapshot(
                job=self.subject.job,
                framework=self.subject.framework,
                job_defaults=JobDefaults(),
                status=self.status,
                pods=self.pods.all,
                services=tuple(self._services),
                now=time_at(self.now),
                dependents=tuple(self._dependents),
            )
        )

    def _execute(self, found: Plan) -> bool:
        """Carry out the actions about pods, Services and other objects; return whether any pod has changed."""
        created = [action for action in found.actions if isinstance(action, CreatePod)]
        deleted = [action.name for action in found.actions if isinstance(action, DeletePod)]
        deleted += self.pods.leaving
        if created or deleted:
            self._note()
        if self.pods.remove(deleted):
            self.work.stop(self.now)
        for creation in created:
            wait = self.assumed.restart_cost if self.work.has_begun else self.assumed.start_up
            self.pods.create(creation.name, creation.attempt, (self.now, time_at(self.now)), wait)
        job, uid = self.subject.job, self.subject.job.uid
        for action in found.actions:
            name = getattr(action, "name", "")
            if isinstance(action, CreateService):
                at = self.subject.replicas.get(name)
                role, index = (at.role.lower(), at.index) if at else ("", -1)
                self._services.append(Service(name, name, "1", uid, job.namespace, job.name, role, index))
            elif isinstance(action, CreateDependent):
                made = Dependent(action.resource, name, name, "1", uid, job.namespace, job.name, action.body)
                self._dependents.append(made)
        return bool(created or deleted)
