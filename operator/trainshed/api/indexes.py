"""A set of replica indexes with a compact text form, like `0-3,7`."""

from __future__ import annotations

import base64
import binascii
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import chain, pairwise, takewhile
from operator import itemgetter

import msgspec

#: The longest text of ranges, in characters; a set that needs more is written as a bitmap.
READABLE = 2048
#: The prefix of a bitmap: bit i of byte k (0 is the lowest bit) is index 8k + i; zlib (RFC 1950), base64 (RFC 4648).
MAP = "bits:"
#: The highest index of any job. It bounds the memory and time that a forged text can take.
HIGHEST = 99_999


class Indexes(msgspec.Struct, frozen=True):
    """Indexes as closed ranges `(first, last)`, ascending, with a gap between neighbours."""

    ranges: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, indexes: Iterable[int]) -> Indexes:
        """Return the set of these indexes."""
        ordered = sorted(set(indexes))
        if not ordered:
            return cls()
        gaps = [pair for pair in pairwise(ordered) if pair[1] - pair[0] > 1]
        firsts, lasts = (ordered[0], *(after for _, after in gaps)), (*(before for before, _ in gaps), ordered[-1])
        return cls(tuple(zip(firsts, lasts, strict=True)))

    @classmethod
    def parse(cls, text: str) -> Indexes:
        """Parse the output of `text`; a part that is not a range is skipped."""
        if text.startswith(MAP):
            return cls.of(_members(text.removeprefix(MAP)))
        return cls(_joined(found for part in text.split(",") if (found := _range(part))))

    def __or__(self, other: Indexes) -> Indexes:
        return Indexes(_joined((*self.ranges, *other.ranges)))

    def __sub__(self, other: Indexes) -> Indexes:
        if not self.ranges or not other.ranges:
            return self
        end = self.ranges[-1][1] + 1
        return (self.gaps(end) | other.below(end)).gaps(end)

    def __contains__(self, index: int) -> bool:
        place = bisect_right(self.ranges, index, key=itemgetter(0))
        return place > 0 and index <= self.ranges[place - 1][1]

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable([range(first, last + 1) for first, last in self.ranges])

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __len__(self) -> int:
        return sum([last - first + 1 for first, last in self.ranges])

    def below(self, count: int) -> Indexes:
        """Return the indexes that are smaller than `count`."""
        return Indexes(tuple((first, min(last, count - 1)) for first, last in self.ranges if first < count))

    def gaps(self, count: int) -> Indexes:
        """Return the indexes below `count` that are not in the set, which has none from `count` on."""
        if not self.ranges:
            return Indexes(((0, count - 1),)) if count else self
        edges = (-1, *(edge for found in self.ranges for edge in found), count)
        between = zip(edges[::2], edges[1::2], strict=True)
        return Indexes(tuple((before + 1, after - 1) for before, after in between if after - before > 1))

    def text(self, room: int) -> str:
        """Return the set in at most `room` characters, as ranges or else as a bitmap.

        As a bitmap, any set of indexes below 6 * `room` - 150 fits, and so does a larger one with few or regular gaps.
        If a set does not fit, its highest indexes are lost.
        """
        return _ranges(self.ranges, min(room, READABLE)) or (_map(self, room) if self.ranges else "")

    def abridged(self, room: int) -> str:
        """Return the ranges in at most `room` characters (4 at least); `,...` stands for those that do not fit."""
        text = _text(self.ranges)
        return text if len(text) <= room else f"{text[: room - len(',...')].rpartition(',')[0]},..."


def _joined(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    joined: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return tuple(joined)


def _ranges(ranges: tuple[tuple[int, int], ...], room: int) -> str:
    """Return the ranges as text, or "" if they do not fit."""
    if 2 * len(ranges) - 1 > room:
        return ""
    text = _text(ranges)
    return text if len(text) <= room else ""


def _text(ranges: tuple[tuple[int, int], ...]) -> str:
    return ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in ranges)


def _range(text: str) -> tuple[int, int] | None:
    first, dash, last = text.partition("-")
    end = last if dash else first
    if not (first.isdecimal() and end.isdecimal()) or len(text) > READABLE:
        return None
    return (int(first), min(int(end), HIGHEST)) if int(first) <= min(int(end), HIGHEST) else None


def _map(indexes: Iterable[int], room: int) -> str:
    bits = bytearray(HIGHEST // 8 + 1)
    for index in takewhile(lambda index: index <= HIGHEST, indexes):
        bits[index // 8] |= 1 << index % 8
    kept = bytes(bits.rstrip(b"\0"))
    while len(text := MAP + base64.b64encode(zlib.compress(kept, 9)).decode()) > room and kept:
        kept = kept[: len(kept) * 15 // 16]
    return text if kept else ""


def _members(text: str) -> Iterator[int]:
    """Yield the indexes in a bitmap; a malformed one has none, and none is above `HIGHEST`."""
    try:
        bits = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), HIGHEST // 8 + 1)
    except (binascii.Error, ValueError, zlib.error):
        return
    yield from (8 * place + bit for place, byte in enumerate(bits) for bit in range(8) if byte >> bit & 1)
