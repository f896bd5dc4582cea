"""Which ranks of a job that advances lag behind all others, in one answer of NCCL's RAS after the other.

A rank that is slow lets the others wait in an operation that it has not begun. In one answer that proves nothing: the
counts of ranks are read one after the other, and healthy ranks are never quite even.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from heapq import nlargest
from statistics import median_low

import msgspec

from trainshed.api.signs import LateRank

from .nccl_ras import Communicator, Poll, RasRank, why_not_judged

#: In how many answers more a rank lags than it does not until it is named, what an answer in which it does not takes
#: away, and what it has to keep; and how many medians it lags more than the ranks do.
ENOUGH, LOST, KEEPS, MEDIANS = 8, 3, 4, 2
#: The most ranks that are named, and those that may be under suspicion: the ones that lag most.
MOST_NAMED, MOST_SUSPECTS = 3, 256
#: How many operations of a rank are distinguished.
MOST_COUNT = 2**64 - 1
#: The operations that all ranks of a communicator begin together.
TOGETHER = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")

Gpu = tuple[str, int, int]


class Counts(msgspec.Struct, frozen=True):
    """What is kept of an answer: its communicators and GPUs, as one number, and what each GPU has begun, in order."""

    whose: int
    begun: array[int]

    @classmethod
    def of(cls, poll: Poll) -> Counts:
        """Return what is kept of an answer."""
        names = frozenset((each.hash, each.secondary_hash) for each in poll.communicators)
        begun = sorted(_begun(poll).items())
        whose = hash((names, tuple(gpu for gpu, _ in begun)))
        return cls(whose, array("Q", (min(count, MOST_COUNT) for _, count in begun)))

    def moved(self, after: Counts) -> bool:
        """Return whether all GPUs have begun an operation between this answer and a later one of the same ranks."""
        return all(now > then for then, now in zip(self.begun, after.begun, strict=True))


class Lags(msgspec.Struct, frozen=True):
    """What is kept of many answers: the last one that counts, how many did, and the ranks that lag, with their points.

    An answer counts if all ranks run and have begun an operation since the last one that did: a pause or a hang of all
    is no lag, and a long step is one answer, however often it is seen.
    """

    last: Counts
    answers: int = 1
    points: dict[Gpu, int] = msgspec.field(default_factory=dict)
    slow: dict[Gpu, LateRank] = msgspec.field(default_factory=dict)

    @classmethod
    def of(cls, poll: Poll) -> Lags:
        """Return what is kept of a first answer."""
        return cls(Counts.of(poll))

    @property
    def named(self) -> tuple[LateRank, ...] | None:
        """The ranks that lag, those that do most first; None if there are too few answers to know."""
        worst = sorted(self.slow.values(), key=lambda one: (one.count - one.most, one.rank))
        return tuple(worst[:MOST_NAMED]) if self.answers >= ENOUGH else None

    def then(self, poll: Poll, least: int) -> Lags:
        """Return what is kept after one more answer about a job with at least so many ranks."""
        if why_not_judged(poll.communicators, least):
            return self
        counts = Counts.of(poll)
        if counts.whose != self.last.whose:
            return Lags(counts)
        if not self.last.moved(counts):
            return self
        lagging = _worst(outliers(poll.communicators))
        points = {gpu: max(0, count - LOST) for gpu, count in self.points.items() if gpu not in lagging}
        points |= {gpu: min(ENOUGH, self.points.get(gpu, 0) + 1) for gpu in lagging}
        slow = {gpu: lagging.get(gpu, known) for gpu, known in self.slow.items() if points[gpu] >= KEEPS}
        slow |= {gpu: one for gpu, one in lagging.items() if points[gpu] == ENOUGH}
        return Lags(counts, self.answers + 1, {gpu: count for gpu, count in points.items() if count}, slow)


def outliers(communicators: Sequence[Communicator]) -> dict[Gpu, LateRank]:
    """Return the ranks that lag more than MEDIANS times as much as ranks do, each with its largest lag."""
    found: dict[Gpu, tuple[int, LateRank | None]] = {
        rank.gpu: (0, None) for each in communicators for rank in each.ranks
    }
    for each in communicators:
        for kind in TOGETHER:
            most = max((_count(rank, kind) for rank in each.ranks), default=0)
            for rank in each.ranks:
                lag = most - _count(rank, kind)
                if lag > found[rank.gpu][0]:
                    late = LateRank(rank.rank, rank.host, rank.pid, kind, most - lag, most)
                    found[rank.gpu] = lag, late
    usual = median_low([lag for lag, _ in found.values()]) if found else 0
    return {gpu: late for gpu, (lag, late) in found.items() if late and lag > MEDIANS * usual}


def _count(rank: RasRank, kind: str) -> int:
    return rank.collective_counts.get(kind, 0)


def _worst(lagging: Mapping[Gpu, LateRank]) -> dict[Gpu, LateRank]:
    return dict(nlargest(MOST_SUSPECTS, lagging.items(), key=lambda item: item[1].most - item[1].count))


def _begun(poll: Poll) -> dict[Gpu, int]:
    """Return how many operations each rank has begun."""
    found: Counter[Gpu] = Counter()
    for each in poll.communicators:
        for rank in each.ranks:
            found[rank.gpu] += sum(rank.collective_counts.values())
    return dict(found)
