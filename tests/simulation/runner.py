"""Runs a schedule from its first step until the cluster is quiet, and lets the auditor check every change."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from random import Random
from typing import Any

from support.audit import api_fields
from support.audit.auditor import Auditor
from support.audit.change import OPERATOR, USER, Change, Request, Violation
from support.audit.final_state import RunEnd
from support.pod_statuses import ended
from support.virtual_time import TooManySteps
from trainshed.client.http import REQUEST_TIMEOUT
from trainshed.controller.manager import ALTOGETHER
from trainshed.controller.observer import Background
from trainshed.frameworks import served

from .cluster import Cluster, OperatorProcess
from .decision_rings import DecisionRings, Listener, is_ring
from .faults import Faults
from .kept_decisions import KeptDecisions
from .network_faults import FaultyNetwork
from .nodes import GangScheduler, Nodes
from .schedule import TRACK_RESULTS, JobRequest, Schedule
from .server_events import observe_changes, observe_requests
from .strategies import PROMPT
from .users import Users

#: Seconds without a change after which the cluster is quiet, if no timer is due: longer than any retry of the operator,
#: and longer than its retry after a refusal by the server, which may arrive up to 9 s late. No retry comes later than
#: LONGEST_REFUSAL, or than the job has been refused already.
QUIET, LONGEST_REFUSAL = 10.0, 300.0
QUIET_AFTER_REFUSAL = LONGEST_REFUSAL + 14.0
#: The longest wait for a quiet cluster, and the time of a new operator at the end, in seconds.
LONGEST, NEW_OPERATOR = 4000.0, 5.0
#: Seconds from the operator's time beyond which no back-off ends; a later one was stored by a clock that was ahead.
LONGEST_BACKOFF = 375.0
#: Seconds after a restart of a container within which the status says that it is, or no longer is, in a crash loop.
CRASH_LOOP = 31.0
#: Seconds after which the counts of a job that has failed are right, at the latest.
LONGEST_COUNT_DELAY = 61.0
#: Seconds for which the pods of a job of a queue may run on once its end is decided, with the rounding of that time.
END_GRACE = 31.0
#: Buckets of the seconds until the cluster was quiet, once no timer was due and no fault was left.
BUCKETS = (1, 5, 10, 30, math.inf)
#: Seconds from an event to the operator's reaction, where nothing delays a request.
REACTION = 1.0
REFUSALS = (403, 409, 422)
#: Of the decisions of a process about a job one in this number is planned again, besides its first ones.
EVERY = 5
#: Seconds between the two clean-ups at the end.
CLEAN_UP = 4.0
#: One in this number of runs creates one Service for a job by default.
SERVICE_FORMS = 3
#: Seconds that a process has to end, and for which a lost request before that may have held it up.
SHUTDOWN = ALTOGETHER + REQUEST_TIMEOUT
#: The largest number of steps of the loop; a schedule takes some hundred thousand.
MAX_STEPS = 2_000_000


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a schedule; `counts` are named `faults/...`, `steps/...` and `quiet/...`, the rest are sums."""

    violations: tuple[Violation, ...]
    counts: Counter[str]
    changes: tuple[Change, ...]
    requests: tuple[Request, ...]

    @property
    def trace(self) -> list[str]:
        """All changes and requests in order, one line each."""
        changes = ((one.at, 0, _described(one)) for one in self.changes)
        requests = ((one.at, 1, f"  {one.verb} {one.path}: {one.status}") for one in self.requests)
        lines = sorted((*changes, *requests), key=lambda one: one[:2])
        return [f"{at - self.changes[0].at:9.3f} {line}" for at, _, line in lines]


def run(schedule: Schedule) -> Report:
    """Run a schedule."""
    logging.disable(logging.CRITICAL)
    try:
        return Run(schedule).report()
    finally:
        logging.disable(logging.NOTSET)


class Run:
    """One run of a schedule."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        jobs: list[JobRequest] = [step.how for step in schedule.steps if step.what == "create"]
        kinds = {job.kind for job in jobs}
        self._track_results = any((TRACK_RESULTS, "true") in job.annotations for job in jobs)
        self._network = FaultyNetwork(Random(schedule.seed), self._kill)
        kinds_served = served(schedule.mpi, kinds or ("TFJob",))
        self._cluster = Cluster(schedule.seed, schedule.operators, self._network, kinds_served, schedule.mpi)
        self._cluster.loop.max_steps = MAX_STEPS
        self._network.time = self._cluster.loop.time
        self._network.version = lambda: self._cluster.server.store.version
        self._nodes = Nodes(self._cluster, Random(schedule.seed + 1))
        if schedule.gang:
            GangScheduler(self._cluster, Random(schedule.seed + 2))
        self._users = Users(self._cluster)
        self._faults = Faults(self._cluster, self._network, self._nodes)
        skew = max((abs(step.how) for step in schedule.steps if step.what == "step clock"), default=0.0)
        prompt = schedule.operators == 1 and all(step.what in PROMPT for step in schedule.steps)
        limits = {"in_flight": REACTION} if prompt else {}
        self._auditor = Auditor(skew=skew, gang=bool(schedule.gang), **limits)
        self._changes: list[Change] = []
        self._requests: list[Request] = []
        self._last_change = self._last_by_user = self._last_refusal = self._took = 0.0
        self._refused = (0.0, 0.0)
        self._counts: Counter[str] = Counter()
        self._kept: list[KeptDecisions] = []
        self._rings = DecisionRings(self._cluster.now, schedule.seed)
        self._network.records = self._rings.on_exchange
        observe_changes(self._cluster.server, self._observe)
        observe_requests(self._cluster.server, self._observe_request)
        self._cluster.server.listeners.append(self._rings.on_request)

    def report(self) -> Report:
        """Execute all steps, end all faults, wait until the cluster is quiet, and let the auditor finish."""
        try:
            with self._rings.settings():
                self._execute()
        except TooManySteps as error:
            self._violation("V8", "the cluster", str(error))
            self._cluster.loop.max_steps += MAX_STEPS  # the operators need some steps to end
        for error in self._cluster.loop.errors:
            self._violation("V10", "the operator", f"{error.get('message')}: {error.get('exception')!r}")
        self._cluster.loop.errors.clear()
        self._cluster.close()
        for problem in self._rings.problems:
            self._violation("V17", "the recorded decisions", problem)
        self._counts += self._rings.counts
        for kept in self._kept:
            self._counts += kept.counts
            for wrong in kept.wrong:
                self._violation("V16", "a kept decision", wrong)
        self._counts.update({f"faults/{name}": count for name, count in self._network.injected.items()})
        self._counts[f"quiet/within {next(bound for bound in BUCKETS if self._took <= bound)} s"] = 1
        self._counts["requests"] = len(self._requests)
        self._counts["changes"] = len(self._changes)
        self._counts["loop steps"] = self._cluster.loop.steps
        found = tuple(dict.fromkeys(self._auditor.violations))
        return Report(found, self._counts, tuple(self._changes), tuple(self._requests))

    def _execute(self) -> None:
        handlers = self._users.handlers | self._faults.handlers
        for operator in self._cluster.operators:
            operator.settings["leader_elect"] = self._schedule.operators > 1
            operator.settings["track_results"] = self._track_results
            operator.settings["gang_scheduler"] = self._schedule.gang
            operator.settings["record_decisions"] = "Annotated"
            operator.listener = partial(self._listener, operator)
            operator.on_end = partial(self._ended, operator)
            operator.on_freeze = partial(self._rings.freezes, operator.name)
            operator.settings["services"] = "Replica" if self._schedule.seed % SERVICE_FORMS else "Job"
            operator.start()
        for step in self._schedule.steps:
            self._cluster.loop.run_for(step.after)
            handlers[step.what](step)
            self._auditor.records.watch_silence = self._faults.silence
            self._counts[f"steps/{step.what}"] += 1
        self._faults.stop()
        self._users.remove_quota()
        for _ in range(2):  # the garbage collector first takes the owners from objects that are orphaned at the end
            self._users.delete_foreign_objects()
            self._users.make_namespace()
            self._cluster.loop.run_for(CLEAN_UP)
        self._wait_until_quiet(self._cluster.now() + self._faults.settle_seconds)
        if self._schedule.finish:
            self._finish()
            self._wait_until_quiet(self._cluster.now())
        self._rings.wait(self._cluster.loop.run_for)
        self._rings.check()
        self._start_new_operator()
        faults = sum(self._network.injected.values()) + len(self._schedule.steps)
        starts = sum(operator.starts for operator in self._cluster.operators)
        known = {"faults": faults, "lives": starts, "lifted": 0.0, "quiet": self._took}
        self._auditor.close(RunEnd(at=self._cluster.now(), **known))

    def _wait_until_quiet(self, since: float) -> None:
        """Run until nothing changes and no timer is due, which may come from what another one does meanwhile."""
        end, latest = since + LONGEST, since
        while self._cluster.now() < end:
            due = max(self._due(), default=0.0)
            first, last = self._refused
            latest = max(latest, due, self._last_by_user, last + min(LONGEST_REFUSAL, last - first))
            quiet = max(max(self._last_change, since, due) + QUIET, self._last_refusal + QUIET_AFTER_REFUSAL)
            if self._cluster.now() >= quiet:
                self._took = max(self._took, self._last_change - latest)
                return
            self._cluster.loop.run_for(min(quiet - self._cluster.now(), QUIET))
        self._violation("V8", "the cluster", f"{LONGEST:.0f} s after the last fault something is still changing")

    def _due(self) -> Iterator[float]:
        """Yield the server's times at which a timer of a job is due by the operators' clocks."""
        ahead = min((operator.ahead for operator in self._cluster.operators), default=0.0)
        times = self._times(self._cluster.now() + ahead)
        yield from (at - ahead for at in times if at - ahead > self._last_change)
        yield from (
            self._last_change + LONGEST_COUNT_DELAY for _, job in self._users.jobs() if self._is_miscounted(job)
        )
        if any(api_fields.restarts(pod) for phase in ("Pending", "Running") for pod in self._nodes.pods(phase)):
            yield self._last_change + CRASH_LOOP

    def _is_miscounted(self, job: api_fields.Object) -> bool:
        """Return whether the job has failed, and its counts are not yet those of its running and ready pods."""
        if not api_fields.condition(job, "Failed"):
            return False
        running = [pod for pod in self._nodes.pods("Running") if api_fields.owner(pod) == api_fields.uid(job)]
        counts = (api_fields.status(job).get("replicaStatuses") or {}).values()
        active, ready = (sum(int(count.get(name, 0)) for count in counts) for name in ("active", "ready"))
        return (active, ready) != (len(running), sum(map(api_fields.is_ready, running)))

    def _times(self, now: float) -> Iterator[float]:
        for _, job in self._users.jobs():
            status, policy = api_fields.status(job), api_fields.policy(job)
            over = any(api_fields.condition(job, kind) for kind in api_fields.OVER)
            wait = (status.get("retry") or {}).get("nextRetryTime")
            if wait and api_fields.seconds(wait) < now + LONGEST_BACKOFF:
                yield api_fields.seconds(wait)
            if failed := api_fields.failed_at(job):
                yield failed + LONGEST_COUNT_DELAY
            if decided := api_fields.end_decided(job):
                yield decided + END_GRACE
            if over and policy.get("ttlSecondsAfterFinished") is not None and "completionTime" in status:
                yield api_fields.seconds(status["completionTime"]) + policy["ttlSecondsAfterFinished"]
            if not over and policy.get("activeDeadlineSeconds") is not None and "startTime" in status:
                yield api_fields.seconds(status["startTime"]) + policy["activeDeadlineSeconds"]

    def _finish(self) -> None:
        """Let all running pods succeed, except those that never end."""
        for pod in self._nodes.pods("Running"):
            replica = api_fields.replica_of(pod)
            if not replica or replica[0] not in ("ps", "evaluator"):
                self._nodes.write(pod, ended(pod, 0, self._cluster.now()))

    def _start_new_operator(self) -> None:
        """Start an operator that has only the server's objects: it finds nothing to do."""
        for operator in self._cluster.operators:
            operator.crash(lambda _: False)
        first = self._cluster.operators[0]
        first.settings["leader_elect"], first.clock_skew = False, 0.0
        since = self._cluster.now()
        first.start()
        self._cluster.loop.run_for(NEW_OPERATOR)
        self._auditor.at_rest(since)

    def _listener(self, operator: OperatorProcess) -> Background:
        """Return what keeps the decisions of a process, each process its own."""
        self._kept.append(KeptDecisions(EVERY))
        return Listener(self._rings, operator.process, self._kept[-1])

    def _ended(self, operator: OperatorProcess, clean: bool) -> None:
        reached = self._cluster.loop.time() - self._network.lost_at > SHUTDOWN
        self._rings.ended(operator.process, clean=clean and reached)

    def _kill(self, process: str, seconds: float) -> None:
        operator = next(operator for operator in self._cluster.operators if operator.name == process)
        self._cluster.later(seconds, self._crash, operator, operator.starts)

    def _crash(self, operator: OperatorProcess, start: int) -> None:
        if operator.running and operator.starts == start:
            operator.crash(lambda _: False)
            self._faults.restart_later(operator, 1.0)

    def _violation(self, oracle: str, about: str, text: str) -> None:
        self._auditor.violations.append(Violation(oracle, about, self._cluster.now(), text))

    def _observe(self, change: Change) -> None:
        self._changes.append(change)
        self._rings.on_change(change)
        if change.plural not in ("leases", "events") and not is_ring(change.object):
            self._last_change = change.at
        if change.actor == USER:
            self._last_by_user = change.at
        self._auditor.on_change(change)

    def _observe_request(self, actor: str, request: Request) -> None:
        if actor == OPERATOR:
            self._requests.append(request)
            about_jobs = "/configmaps" not in request.path
            if _finds_hidden_pod(request) or (request.status in REFUSALS and request.writes and about_jobs):
                self._last_refusal = request.at
                if request.status != HTTPStatus.CONFLICT:
                    first, last = self._refused
                    self._refused = (first if request.at - last <= LONGEST_REFUSAL else request.at), request.at
            self._auditor.asked(request)


def _finds_hidden_pod(request: Request) -> bool:
    """Return whether a GET finds a pod: the operator waits for it as long as its label is missing."""
    return request.verb == "GET" and "/pods/" in request.path and request.status == HTTPStatus.OK


def _described(change: Change) -> str:
    meta: dict[str, Any] = dict(api_fields.meta(change.object))
    line = f"{change.actor or '?'} {change.verb} {api_fields.title(change.plural, change.object)}"
    deleting = " deleting" if "deletionTimestamp" in meta else ""
    if change.plural in api_fields.JOBS:
        status = api_fields.status(change.object)
        true = [one["type"] for one in api_fields.conditions(status) if one.get("status") == "True"]
        rest = {key: status[key] for key in ("restarts", "attempts", "podsPendingReplacement") if status.get(key)}
        return f"{line} {' '.join(true)} {rest or ''}{deleting}"
    if change.plural == "pods":
        return f"{line} {api_fields.phase(change.object)}{deleting} attempt {api_fields.attempt(change.object)}"
    if change.plural == "events":
        return f"{line} {change.object.get('reason')}: {change.object.get('message')}"
    return line
