"""Detects whether the memory of a process grows over hours."""

from __future__ import annotations

from collections.abc import Sequence

from support.process_usage import Sample

#: Seconds after its start in which a process may grow: pools and caches fill.
WARM = 600.0


def longest(samples: Sequence[Sample]) -> list[Sample]:
    """Return the warm samples of the process that ran longest, or all of them if it never was warm."""
    processes: dict[int, list[Sample]] = {}
    for one in samples:
        processes.setdefault(one.pid, []).append(one)
    if not processes:
        return []
    life = max(processes.values(), key=lambda found: found[-1].at - found[0].at)
    return [one for one in life if one.at - life[0].at >= WARM] or life


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the slope of the least-squares line."""
    if len(points) < 2:
        return 0.0
    middle = sum(x for x, _ in points) / len(points), sum(y for _, y in points) / len(points)
    spread = sum((x - middle[0]) ** 2 for x, _ in points)
    return sum((x - middle[0]) * (y - middle[1]) for x, y in points) / spread if spread else 0.0


def every(points: Sequence[tuple[float, float]], step: float) -> list[float]:
    """Return the second value of the first point in each step of the first value, rounded."""
    firsts: dict[int, float] = {}
    for at, value in points:
        firsts.setdefault(int(at / step), round(value, 1))
    return list(firsts.values())
