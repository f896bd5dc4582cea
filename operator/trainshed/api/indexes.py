"""A set of replica indexes that prints itself in little space, like `0-3,7`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

#: Of a longer text only so much is kept; what does not fit is forgotten. Keeps a status small whatever its job's size.
LIMIT = 2048
#: No job has a higher index; a forged one fills neither memory nor time.
HIGHEST = 99_999


@dataclass(frozen=True, slots=True)
class Indexes:
    """Indexes as closed ranges `(first, last)`, ascending and never touching."""

    ranges: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, indexes: Iterable[int]) -> Indexes:
        """The set of these indexes."""
        return cls(_joined((index, index) for index in indexes))

    @classmethod
    def parse(cls, text: str) -> Indexes:
        """The set that `str` printed; a part that is no range is left out."""
        return cls(_joined(found for part in text.split(",") if (found := _range(part))))

    def __or__(self, other: Indexes) -> Indexes:
        return Indexes(_joined((*self.ranges, *other.ranges)))

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


def _joined(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    joined: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return tuple(joined)


def _range(text: str) -> tuple[int, int] | None:
    first, dash, last = text.partition("-")
    end = last if dash else first
    if not (first.isdecimal() and end.isdecimal()) or len(text) > LIMIT:
        return None
    return (int(first), min(int(end), HIGHEST)) if int(first) <= min(int(end), HIGHEST) else None
