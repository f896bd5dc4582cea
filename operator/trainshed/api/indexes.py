"""A set of replica indexes that prints itself in little space, like `0-3,7`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

#: Of a longer text only so much is kept; what does not fit is forgotten. Keeps a status small whatever its job's size.
LIMIT = 2048
#: An index has so many digits at the most.
LONGEST = 9


@dataclass(frozen=True, slots=True)
class Indexes:
    """Indexes as closed ranges `(first, last)`, ascending and never touching."""

    ranges: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, indexes: Iterable[int]) -> Indexes:
        """The set of these indexes."""
        ranges: list[tuple[int, int]] = []
        for index in sorted(set(indexes)):
            if ranges and ranges[-1][1] == index - 1:
                ranges[-1] = (ranges[-1][0], index)
            else:
                ranges.append((index, index))
        return cls(tuple(ranges))

    @classmethod
    def parse(cls, text: str) -> Indexes:
        """The set that `str` printed; a part that is no range is left out."""
        indexes: set[int] = set()
        for part in text.split(","):
            first, dash, last = part.partition("-")
            end = last if dash else first
            if _is_index(first) and _is_index(end):
                indexes.update(range(int(first), min(int(end), int(first) + 100_000) + 1))
        return cls.of(indexes)

    def __or__(self, other: Indexes) -> Indexes:
        return Indexes.of((*self, *other))

    def __contains__(self, index: int) -> bool:
        return any(first <= index <= last for first, last in self.ranges)

    def __iter__(self) -> Iterator[int]:
        return (index for first, last in self.ranges for index in range(first, last + 1))

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.ranges)

    def __str__(self) -> str:
        text = ""
        for first, last in self.ranges:
            part = f"{first}-{last}" if last > first else f"{first}"
            longer = f"{text},{part}" if text else part
            if len(longer) > LIMIT:
                break
            text = longer
        return text


def _is_index(text: str) -> bool:
    return text.isdecimal() and len(text) <= LONGEST
