"""What is stored about a job: history that its pods cannot tell again, and a tally of what they tell now."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from .indexes import Indexes

#: No delay before new pods is longer than 300 s and a quarter of them (see `plan/restarts.py`).
FARTHEST = timedelta(seconds=375)


class Kind(StrEnum):
    """The types of conditions; all but `Blocked`, which says why pods cannot be made, are v1's."""

    CREATED = "Created"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    BLOCKED = "Blocked"


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition; `updated` moves with its reason, `changed` with its truth only."""

    type: Kind
    true: bool
    reason: str
    message: str
    updated: datetime
    changed: datetime


@dataclass(frozen=True, slots=True)
class Tally:
    """The replicas of one role, counted; `done` remembers which have succeeded, whether their pods remain or not."""

    active: int = 0
    succeeded: int = 0
    failed: int = 0
    ready: int = 0
    selector: str = ""
    done: Indexes = Indexes()


@dataclass(frozen=True, slots=True)
class Failure:
    """The first failure of the newest incident: who, what kind of failure, and its last words.

    `container` is named unless it is the framework's own. `ran` are the seconds from its start to the failure, None if
    it was never started. `summary` is all but the last words in a sentence, for people.
    """

    pod: str
    kind: str
    reason: str
    exit_code: int | None
    node: str
    message: str
    time: datetime
    member: str = ""
    container: str = ""
    ran: int | None = None
    summary: str = ""


@dataclass(frozen=True, slots=True)
class Restart:
    """One restart: which attempt it began, who failed first, how, when and where, and how many members began anew.

    `lost` are the seconds from the failure until the job ran again; None until it does.
    """

    time: datetime
    attempt: int
    member: str
    node: str
    kind: str
    reason: str
    exit_code: int | None
    members: int
    lost: int | None = None


@dataclass(frozen=True, slots=True)
class Retries:
    """The tries so far: `used` counts against the back-off limit, `streak` are those in close succession.

    `not_before` is when the next pods may be made. `in_place` counts containers that the kubelet restarted in pods that
    still exist, `in_place_gone` those of pods that do not.
    """

    used: int = 0
    streak: int = 0
    not_before: datetime | None = None
    in_place: int = 0
    in_place_gone: int = 0

    def wait(self, now: datetime) -> bool:
        """Whether it is too early for the next pods; a time that no delay can reach was written by a clock ahead."""
        return self.not_before is not None and timedelta(0) < self.not_before - now <= FARTHEST


@dataclass(frozen=True, slots=True)
class Status:
    """A job's status. `attempts` says which try each role is on; `replacing` are the uids of pods given up on.

    After the largest attempt that can be stored comes 0 again.

    `recent` are the last few restarts, the newest last. `shrunk` is the number of members that a role was scaled down
    to, while pods beyond it are still leaving.
    """

    conditions: tuple[Condition, ...] = ()
    tallies: dict[str, Tally] = field(default_factory=dict)
    start: datetime | None = None
    completion: datetime | None = None
    attempts: dict[str, int] = field(default_factory=dict)
    retries: Retries = Retries()
    replacing: tuple[str, ...] = ()
    failure: Failure | None = None
    recent: tuple[Restart, ...] = ()
    shrunk: dict[str, int] = field(default_factory=dict)

    def condition(self, kind: Kind) -> Condition | None:
        """The condition of this type, or None."""
        return next((condition for condition in self.conditions if condition.type is kind), None)

    def true(self, kind: Kind) -> bool:
        """Whether the condition of this type is there and true."""
        return any(condition.true for condition in self.conditions if condition.type is kind)

    @property
    def over(self) -> bool:
        """Whether the job has its verdict."""
        return self.true(Kind.SUCCEEDED) or self.true(Kind.FAILED)

    def must_precede(self, before: Status) -> bool:
        """Whether this has to be stored, in the place of `before`, ere anybody acts on it.

        That is so for whatever the pods cannot tell again: verdicts, tries, and which pods were given up on.
        """
        return self._history != before._history or not set(self.replacing) <= set(before.replacing)

    @property
    def _history(self) -> tuple[object, ...]:
        marks = tuple(self.true(kind) for kind in (Kind.SUCCEEDED, Kind.FAILED, Kind.SUSPENDED))
        tries = (self.retries.used, self.retries.streak, self.retries.not_before)
        return marks, self.completion, self.attempts, tries, self.failure, self.shrunk
