"""The status of a job: counts of its current pods, and history that cannot be derived from them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from .indexes import Indexes
from .time_spent import NOTHING, JobPhase, TimeSpent
from .trainer_status import TrainerStatus

#: The longest back-off delay: 300 s plus 25 % jitter (see `plan/restarts.py`).
MAX_RETRY_DELAY = timedelta(seconds=375)
#: The largest size in bytes of a message, a termination message, a failure's summary, and a name in it.
MAX_MESSAGE_BYTES, MAX_TERMINATION_MESSAGE_BYTES, MAX_SUMMARY_BYTES, MAX_NAME_BYTES = 1024, 1024, 400, 128
#: The largest size in bytes of a name in `recentRestarts` and `waiting`, and the largest number of their items.
MAX_SHORT_NAME_BYTES, MAX_RECENT_RESTARTS, MAX_WAITING, MAX_STRAGGLERS = 64, 10, 5, 3
#: The largest size in bytes of a message in `waiting`.
MAX_WAITING_MESSAGE_BYTES = 400

#: The limits that fail a job: two fields of its run policy, and an annotation (see `api/job_annotations.py`).
DEADLINE, BACKOFF_LIMIT, STARTUP_DEADLINE = LIMITS = (
    "activeDeadlineSeconds",
    "backoffLimit",
    "trainshed.dev/startup-deadline",
)
#: The classes of failures that do not count against backoffLimit: of the cluster, and of pods that others have removed.
FREE = ("Infrastructure", "Disruption")


class ConditionType(StrEnum):
    """The condition types of v1, and those of `EXTRA`.

    `Blocked` is true while pods cannot be created, run or deleted, `Stalled` while the training does not advance. The
    last two are batch/v1's: they announce how a job of a queue ends while its pods still hold resources.
    """

    CREATED = "Created"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    BLOCKED = "Blocked"
    STALLED = "Stalled"
    SUCCESS_CRITERIA_MET = "SuccessCriteriaMet"
    FAILURE_TARGET = "FailureTarget"


#: The condition types that v1 does not have. They are stored beside `conditions`, because clients of v1 take the newest
#: true condition and know only v1's types (docs/decisions/only-v1-conditions.md).
EXTRA = (ConditionType.BLOCKED, ConditionType.STALLED, ConditionType.SUCCESS_CRITERIA_MET, ConditionType.FAILURE_TARGET)
#: Those of them that are fields of their own in the status, while they are true.
OWN_FIELDS = {ConditionType.BLOCKED: "blocked", ConditionType.STALLED: "stalled"}
#: The terminal condition types, each with the one that announces it.
TERMINAL = {
    ConditionType.SUCCEEDED: ConditionType.SUCCESS_CRITERIA_MET,
    ConditionType.FAILED: ConditionType.FAILURE_TARGET,
}
#: The condition types that other clients act upon: a status that changes them is stored before anything is done.
MARKS = frozenset((*TERMINAL, *TERMINAL.values(), ConditionType.SUSPENDED))
#: The condition types by precedence: the state of a job is the first of them that is true.
PRECEDENCE = (
    ConditionType.FAILED,
    ConditionType.SUCCEEDED,
    ConditionType.SUSPENDED,
    ConditionType.BLOCKED,
    ConditionType.RESTARTING,
    ConditionType.RUNNING,
    ConditionType.CREATED,
)


class Condition(msgspec.Struct, frozen=True):
    """One condition; `updated` is the time of the last change of any part, `changed` that of its status."""

    type: ConditionType
    true: bool
    reason: str
    message: str
    updated: datetime
    changed: datetime


class ReplicaStatus(msgspec.Struct, frozen=True):
    """The counts of one role; `done` are the indexes that have succeeded, even if their pods are gone.

    `not_running` are other pods that hold resources, counted where a queue reads the counts; `active` in the API is the
    sum of both.
    """

    active: int = 0
    succeeded: int = 0
    failed: int = 0
    ready: int = 0
    selector: str = ""
    done: Indexes = Indexes()
    not_running: int = 0


class Failure(msgspec.Struct, frozen=True):
    """The root cause of the last failure: the pod, the class of the failure, and the termination message.

    `container` is "" for the framework's own. `ran` is the time from the container's start to the failure in seconds,
    None if it never started. `message` is one sentence that has everything but the termination message.
    """

    pod: str
    kind: str
    reason: str
    exit_code: int | None
    node: str
    termination_message: str
    time: datetime
    replica: str = ""
    container: str = ""
    ran: int | None = None
    message: str = ""


class Restart(msgspec.Struct, frozen=True):
    """One restart: the attempt that it started, its root cause, and the number of replicas that it replaced.

    `recovery_seconds` is the time from the failure until the job ran again, in seconds; None until then. All replicas
    had run for `total_running_seconds` until the failure, in all attempts; None if nothing counted them. After it
    `lost_work_seconds` of training were done again, as far as steps are known.
    """

    time: datetime
    attempt: int
    replica: str
    node: str
    kind: str
    reason: str
    exit_code: int | None
    replicas_restarted: int
    recovery_seconds: int | None = None
    total_running_seconds: int | None = None
    lost_work_seconds: int | None = None


class Straggler(msgspec.Struct, frozen=True):
    """A rank that lags behind the others, or is behind in a hang; `pod` and `node` are "" if they are not known."""

    rank: int
    pod: str = ""
    node: str = ""


class Waiting(msgspec.Struct, frozen=True):
    """Replicas of one role whose pods do not run or are not created yet, all for one reason.

    `indexes` are `count` indexes as ranges such as `0-3,7`; the last ones may be missing. `container` is "" if the
    whole pod waits, `node` if the pods are on several nodes or on none. `message` describes the pod with the lowest
    index, `since` is the earliest time of all. The framework's containers of the replicas may run all the same.
    """

    role: str
    indexes: str
    count: int
    reason: str
    message: str
    since: datetime
    node: str = ""
    container: str = ""


class Retries(msgspec.Struct, frozen=True):
    """The restarts so far: `used` counts against the limit, `consecutive_failures` sets the delay.

    No pod is created before `next_retry_time`. `container_restarts` counts restarts by the kubelet in existing pods,
    `deleted_pod_container_restarts` those in deleted pods.
    """

    used: int = 0
    consecutive_failures: int = 0
    next_retry_time: datetime | None = None
    container_restarts: int = 0
    deleted_pod_container_restarts: int = 0

    @property
    def total(self) -> int:
        """The number of restarts by the operator that count, and of containers by the kubelet."""
        return self.used + self.in_place

    @property
    def in_place(self) -> int:
        """The number of restarts of containers by the kubelet."""
        return self.container_restarts + self.deleted_pod_container_restarts

    def wait(self, now: datetime) -> bool:
        """Return whether the back-off delay still runs.

        A time that no delay can reach was written with a clock that was ahead, and is ignored.
        """
        return self.next_retry_time is not None and timedelta(0) < self.next_retry_time - now <= MAX_RETRY_DELAY


class Status(msgspec.Struct, frozen=True):
    """The status of a job.

    `attempts` is the current attempt of each role; after the largest int32 follows 0. `pending_replacement` are the
    uids of pods that have failed and will be replaced. `recent_restarts` has the newest last. `scaled_down_to` is the
    number of replicas that a role was scaled down to, while pods above it still terminate. `state` and `reason` are
    type and reason of the decisive condition, as they were stored. `limit_exceeded` is the limit that failed the job,
    one of `LIMITS`; its running pods are stopped because of it, regardless of cleanPodPolicy. `trainer` is the last
    report of the training that was worth a write. `stragglers` are the ranks that lag most, few and in their order.
    `workload` is the name of the group of its pods in Kueue, "" for none.
    """

    conditions: tuple[Condition, ...] = ()
    replica_statuses: dict[str, ReplicaStatus] = msgspec.field(default_factory=dict)
    start: datetime | None = None
    completion: datetime | None = None
    attempts: dict[str, int] = msgspec.field(default_factory=dict)
    retries: Retries = Retries()
    pending_replacement: tuple[str, ...] = ()
    failure: Failure | None = None
    recent_restarts: tuple[Restart, ...] = ()
    scaled_down_to: dict[str, int] = msgspec.field(default_factory=dict)
    waiting: tuple[Waiting, ...] = ()
    state: str = ""
    reason: str = ""
    limit_exceeded: str = ""
    trainer: TrainerStatus | None = None
    time_spent: TimeSpent = NOTHING
    stragglers: tuple[Straggler, ...] = ()
    workload: str = ""

    @property
    def decisive(self) -> Condition | None:
        """The condition that gives the state of the job: the first true one by `PRECEDENCE`, in any order of the list.

        None if no condition is true.
        """
        true = [condition for condition in self.conditions if condition.true and condition.type in PRECEDENCE]
        return min(true, key=lambda condition: PRECEDENCE.index(condition.type), default=None)

    @property
    def current_state(self) -> str:
        """The type of the decisive condition, or Pending without one; `state` is that of the stored status."""
        found = self.decisive
        return str(found.type) if found else "Pending"

    def condition(self, kind: ConditionType) -> Condition | None:
        """Return the condition of this type, or None."""
        for condition in self.conditions:
            if condition.type is kind:
                return condition
        return None

    def true(self, kind: ConditionType) -> bool:
        """Return whether the condition of this type exists and is true."""
        for condition in self.conditions:  # noqa: SIM110 - faster than any()
            if condition.type is kind and condition.true:
                return True
        return False

    @property
    def holds_resources(self) -> bool:
        """True if pods are counted that hold resources."""
        return any(count.active or count.not_running for count in self.replica_statuses.values())

    @property
    def progress(self) -> str:
        """What a table shows of the training; how long it still takes only while it trains."""
        if self.trainer is None:
            return ""
        done = self.trainer if self.trains else msgspec.structs.replace(self.trainer, remaining_seconds=None)
        return ", ".join(filter(None, (done.column, "stalled" if self.true(ConditionType.STALLED) else "")))

    @property
    def trains(self) -> bool:
        """False unless the training advances, as far as is known: otherwise no time is known that remains.

        What was reported before a restart, a suspension or a blockage says nothing about the time after it. Other pods
        of a Blocked job may train on, as those of an elastic one: then there are newer reports.
        """
        return self.may_train and self.trainer is not None and all(time < self.trainer.updated for time in self._pauses)

    @property
    def may_train(self) -> bool:
        """False if the job is over, ends, does not run or not with all replicas again, is suspended or Stalled."""
        stands = self.recovers or self.true(ConditionType.STALLED) or self.true(ConditionType.SUSPENDED)
        return self.true(ConditionType.RUNNING) and not (self.over or self.ending or stands)

    @property
    def _pauses(self) -> Iterator[datetime]:
        """The ends of the last restart and of a suspension, and the begin of a blockage, which may last."""
        for restart in self.recent_restarts[-1:]:
            yield restart.time + timedelta(seconds=restart.recovery_seconds or 0)
        for kind, true in ((ConditionType.SUSPENDED, False), (ConditionType.BLOCKED, True)):
            found = self.condition(kind)
            if found and found.true is true:
                yield found.changed

    @property
    def restarts(self) -> int:
        """The restarts of all kinds, with those of the last ones that do not count against a limit."""
        return self.retries.total + sum(one.kind in FREE for one in self.recent_restarts)

    @property
    def recovers(self) -> bool:
        """True if a replica has failed, and not all run again; v1's state is Running as soon as one of them does."""
        return self.time_spent.phase is JobPhase.RESTART and not (self.over or self.ending)

    @property
    def steps_known(self) -> bool:
        """True if the training has reported a step: only then its goodput is known."""
        return self.trainer is not None and self.trainer.step is not None

    @property
    def over(self) -> bool:
        """True if the job has succeeded or failed."""
        for condition in self.conditions:  # noqa: SIM110 - faster than any()
            if condition.true and condition.type in TERMINAL:
                return True
        return False

    @property
    def ending(self) -> Condition | None:
        """The condition that announces the terminal one, while its pods still hold resources; else None."""
        for kind in TERMINAL.values():
            for condition in self.conditions:
                if condition.type is kind and condition.true:
                    return condition
        return None

    def must_precede(self, before: Status) -> bool:
        """Return whether this status must replace the stored status `before` before any action is taken.

        That is true for changes that cannot be derived from the pods: terminal conditions, restarts, pods to replace.
        """
        return self._history != before._history or not self._replaces_only_pods_of(before)

    def turned_true(self, kind: ConditionType, before: Status) -> bool:
        """Return whether the condition of this type is true in this status and was not in `before`."""
        return self.true(kind) and not before.true(kind)

    def restarts_pods(self, before: Status) -> bool:
        """Return whether this status, and not `before`, gives up pods that are to be created again."""
        if self.true(ConditionType.SUSPENDED):
            return False
        new_attempt = any(count != before.attempts.get(role, 0) for role, count in self.attempts.items())
        return new_attempt or not self._replaces_only_pods_of(before)

    def _replaces_only_pods_of(self, before: Status) -> bool:
        return set(self.pending_replacement) <= set(before.pending_replacement)

    @property
    def _history(self) -> tuple[object, ...]:
        marks = {condition.type for condition in self.conditions if condition.true and condition.type in MARKS}
        tries = (self.retries.used, self.retries.consecutive_failures, self.retries.next_retry_time)
        return marks, self.completion, self.attempts, tries, self.failure, self.scaled_down_to
