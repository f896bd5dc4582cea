"""What is known of whether a training advances: its steps, and the collective operations of its ranks."""

from __future__ import annotations

from datetime import datetime

import msgspec


class LateRank(msgspec.Struct, frozen=True):
    """A rank that has begun fewer operations of a kind, `count`, than another one of its communicator, `most`.

    `host` and `pid` are those that NCCL names; `pod` and `node` are "" if no pod of the job has that address alone.
    """

    rank: int
    host: str
    pid: int
    operation: str
    count: int
    most: int
    pod: str = ""
    node: str = ""


class Steps(msgspec.Struct, frozen=True):
    """What a training has reported: when it last had a new step, and which one.

    A step takes `median_seconds` as a rule, and a report of a new one comes each `gap_seconds`.
    """

    advanced: datetime
    step: int
    median_seconds: float
    gap_seconds: float = 0.0


class Operations(msgspec.Struct, frozen=True):
    """What NCCL's RAS says: since when no count has moved, in how many answers, and whether that is a hang.

    `late` are the ranks that are behind, those that lag most first, and `ranks` is how many there are. `slow` are the
    ranks that lag though all advance; None if that is not known.
    """

    moved: datetime
    polls: int
    hang: bool = False
    late: tuple[LateRank, ...] = ()
    ranks: int = 0
    slow: tuple[LateRank, ...] | None = None


class RankAt(msgspec.Struct, frozen=True):
    """A rank and its host; `pod` and `node` are "" if that is no pod of the job."""

    rank: int
    host: str
    pod: str = ""
    node: str = ""


class StackGroup(msgspec.Struct, frozen=True):
    """How many ranks are at the same place, and the first of them.

    The `place` is the innermost function, `by` the user's own that led there if that is another one, both with file and
    line; both are "" for ranks that have not answered. `waits` is whether that is a place to wait for all others.
    """

    count: int
    ranks: tuple[RankAt, ...]
    place: str = ""
    by: str = ""
    waits: bool = False


class Stacks(msgspec.Struct, frozen=True):
    """What all ranks do in the hang that has been known since the time `hang`, or the `error` why that is not known."""

    hang: datetime
    groups: tuple[StackGroup, ...] = ()
    error: str = ""


class Signs(msgspec.Struct, frozen=True):
    """All that this process knows of a job, None for nothing; `watched` is since when it has listened.

    `stacks` are read of a job that is Stalled, if this process `asks` for them.
    """

    steps: Steps | None = None
    operations: Operations | None = None
    watched: datetime | None = None
    stacks: Stacks | None = None
    asks: bool = False
