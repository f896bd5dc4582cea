"""Plays a schedule from its first step until nothing happens any more, before the eyes of the auditor."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterator
from http import HTTPStatus
from random import Random
from typing import Any

from support.audit import words
from support.audit.auditor import Auditor
from support.audit.change import OPERATOR, Change, Request, Violation
from support.audit.ending import Ending
from trainshed.frameworks import served

from . import lives
from .drawing import PROMPT
from .fault_injector import Skies
from .gang_scheduler import GangScheduler
from .kubelets import Kubelets
from .loop import Endless
from .machine import Machine
from .mishaps import Mishaps
from .orders import KEEP
from .report import Report
from .schedule import Schedule
from .stage import NAMESPACE, Stage
from .users import Users

#: Seconds without a change after which all is quiet, if no time is due: longer than after any error the operator waits
#: before it tries again, and after a no of the server.
QUIET, REFUSED = 10.0, 24.0
#: The longest that this may take in all, and how long a fresh look takes at the end.
LONGEST, FRESH = 4000.0, 5.0
#: Seconds from an operator's now beyond which no back-off reaches; one that does was stored by a clock far ahead of it.
FARTHEST = 375.0
#: Seconds after which the counts of a job that has failed are right, at the latest.
COUNTED = 61.0
#: Seconds of virtual time by which it is told how soon all was quiet, once nothing was due and nobody deaf any more.
BOUNDS = (1, 5, 10, 30, math.inf)
#: Seconds from what the operator has read to what it does, where nothing delays a request.
AT_ONCE = 1.0
#: What the server says no with.
NO = (403, 409, 422)
#: Seconds that those who tidy up wait before they look again.
SETTLING = 4.0
#: Steps of the loop that a schedule may take: some hundred thousand are many.
MOST = 2_000_000

Object = dict[str, Any]


def play(schedule: Schedule) -> Report:
    """Play it."""
    logging.disable(logging.CRITICAL)
    try:
        return Play(schedule).run()
    finally:
        logging.disable(logging.NOTSET)


class Play:
    """One play of a schedule."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        orders = [step.how for step in schedule.steps if step.what == "create"]
        kinds = {order.kind for order in orders}
        self._keeps = any((KEEP, "true") in order.annotations for order in orders)
        leaps = [abs(step.how) for step in schedule.steps if step.what == "leap"]
        self._skies = Skies(Random(schedule.seed), self._kill)
        kinds_served = served(schedule.mpi, kinds or ("TFJob",))
        self._stage = Stage(schedule.seed, schedule.operators, self._skies, kinds_served, schedule.mpi)
        self._stage.loop.most = MOST
        self._skies.time = self._stage.loop.time
        self._skies.version = lambda: self._stage.server.storage.version
        self._kubelets = Kubelets(self._stage, Random(schedule.seed + 1))
        if schedule.gang:
            GangScheduler(self._stage, Random(schedule.seed + 2))
        self._users = Users(self._stage)
        self._mishaps = Mishaps(self._stage, self._skies, self._kubelets)
        self._lag = max(leaps, default=0.0)
        calm = schedule.operators == 1 and all(step.what in PROMPT for step in schedule.steps)
        late = {"under_way": AT_ONCE} if calm else {}
        self._auditor = Auditor(skew=self._lag, gang=bool(schedule.gang), **late)
        self._heard: list[Change] = []
        self._asked: list[Request] = []
        self._last = self._refused = self._took = 0.0
        self._counts: Counter[str] = Counter()
        self._stage.server.changes.append(self._hear)
        self._stage.server.requests.append(self._ask)

    def run(self) -> Report:
        """Play it, lift all faults, let all end as it will, and ask for the auditor's last word."""
        try:
            self._live()
        except Endless as endless:
            self._auditor.violations.append(Violation("V8", "the cluster", self._stage.now(), str(endless)))
        for error in self._stage.loop.errors:
            told = f"{error.get('message')}: {error.get('exception')!r}"
            self._auditor.violations.append(Violation("V10", "the operator", self._stage.now(), told))
        self._stage.loop.errors.clear()
        self._stage.close()
        self._counts.update({f"faults/{name}": count for name, count in self._skies.done.items()})
        self._counts[f"quiet/within {next(bound for bound in BOUNDS if self._took <= bound)} s"] = 1
        self._counts["requests"] = len(self._asked)
        self._counts["changes"] = len(self._heard)
        self._counts["loop steps"] = self._stage.loop.steps
        found = tuple(dict.fromkeys(self._auditor.violations))
        return Report(found, self._counts, tuple(self._heard), tuple(self._asked))

    def _live(self) -> None:
        deeds = self._users.deeds | self._mishaps.deeds
        for machine in self._stage.machines:
            machine.settings["leader_elect"] = self._schedule.operators > 1
            machine.settings["track_results"] = self._keeps
            machine.settings["gang_scheduler"] = self._schedule.gang
            machine.start()
        for step in self._schedule.steps:
            self._stage.loop.run_for(step.after)
            deeds[step.what](step)
            self._auditor.ledger.deaf = self._mishaps.deaf
            self._counts[f"steps/{step.what}"] += 1
        self._mishaps.heal()
        self._users.lift_quota()
        for _ in range(2):  # what is orphaned in the end is nobody's only when the garbage collector has seen to it
            self._users.leave()
            self._users.make_namespace()
            self._stage.loop.run_for(SETTLING)
        self._rest(self._stage.now() + self._mishaps.patience)
        if self._schedule.finish:
            self._finish()
            self._rest(self._stage.now())
        self._look_afresh()
        faults = sum(self._skies.done.values()) + len(self._schedule.steps)
        lives = sum(machine.lives for machine in self._stage.machines)
        known = {"faults": faults, "lives": lives, "lifted": 0.0, "quiet": self._took}
        self._auditor.close(Ending(at=self._stage.now(), **known))

    def _rest(self, since: float) -> None:
        """Let all go on until nothing changes any more, and no time is due."""
        end, latest = since + LONGEST, since
        while self._stage.now() < end:
            due = max(self._due(), default=0.0)
            latest = max(latest, due)
            quiet = max(max(self._last, since, due) + QUIET, self._refused + REFUSED)
            if self._stage.now() >= quiet:
                self._took = max(self._took, self._last - latest)
                return
            self._stage.loop.run_for(quiet - self._stage.now())
        told = f"{LONGEST:.0f} s after the last fault something is still going on"
        self._auditor.violations.append(Violation("V8", "the cluster", self._stage.now(), told))

    def _due(self) -> Iterator[float]:
        """When something is to happen because its time has come, as the jobs say and the operators' clocks show it."""
        ahead = min((machine.ahead for machine in self._stage.machines), default=0.0)
        yield from (at - ahead for at in self._times(self._stage.now() + ahead) if at - ahead > self._last)
        yield from (self._last + COUNTED for _, job in self._users.jobs() if self._lags(job))

    def _lags(self, job: words.Object) -> bool:
        """Whether the job has failed, and its counts do not say yet how many of its pods still run."""
        if not words.condition(job, "Failed"):
            return False
        running = [pod for pod in self._kubelets.pods("Running") if words.owner(pod) == words.uid(job)]
        tallies = (words.status(job).get("replicaStatuses") or {}).values()
        return sum(int(tally.get("active", 0)) for tally in tallies) != len(running)

    def _times(self, now: float) -> Iterator[float]:
        for _, job in self._users.jobs():
            status, policy = words.status(job), words.policy(job)
            over = any(words.condition(job, kind) for kind in words.OVER)
            wait = (status.get("retry") or {}).get("nextRetryTime")
            if wait and words.seconds(wait) < now + FARTHEST:
                yield words.seconds(wait)
            if over and policy.get("ttlSecondsAfterFinished") is not None and "completionTime" in status:
                yield words.seconds(status["completionTime"]) + policy["ttlSecondsAfterFinished"]
            if not over and policy.get("activeDeadlineSeconds") is not None and "startTime" in status:
                yield words.seconds(status["startTime"]) + policy["activeDeadlineSeconds"]

    def _finish(self) -> None:
        """Those who run succeed, but for those who serve others for ever."""
        for pod in self._kubelets.pods("Running"):
            seat = words.seat(pod)
            if seat and seat[0] in ("ps", "evaluator"):
                continue
            self._kubelets.write(pod, lives.ended(pod, 0, self._stage.now()))

    def _look_afresh(self) -> None:
        """Whoever knows nothing but the server finds nothing left to do."""
        for machine in self._stage.machines:
            machine.crash(lambda _: False)
        first = self._stage.machines[0]
        first.settings["leader_elect"], first.skew = False, 0.0
        since = self._stage.now()
        first.start()
        self._stage.loop.run_for(FRESH)
        self._auditor.at_rest(since)

    def _kill(self, process: str, seconds: float) -> None:
        machine = next(machine for machine in self._stage.machines if machine.name == process)
        self._later(seconds, machine)

    def _later(self, seconds: float, machine: Machine) -> None:
        self._stage.later(seconds, self._die, machine, machine.lives)

    def _die(self, machine: Machine, life: int) -> None:
        if machine.runs and machine.lives == life:
            machine.crash(lambda _: False)
            self._mishaps.revive(machine, 1.0)

    def _hear(self, change: Change) -> None:
        self._heard.append(change)
        if change.plural not in ("leases", "events"):
            self._last = change.at
        self._auditor.hear(change)

    def _ask(self, actor: str, request: Request) -> None:
        if actor == OPERATOR:
            self._asked.append(request)
            if _sought(request) or (request.status in NO and request.writes):
                self._refused = request.at
            self._auditor.asked(request)


def _sought(request: Request) -> bool:
    """Whether a pod was asked for by its name, and is there: it is waited for as long as it is out of reach."""
    return request.verb == "GET" and "/pods/" in request.path and request.status == HTTPStatus.OK


__all__ = ["NAMESPACE", "Report", "play"]
