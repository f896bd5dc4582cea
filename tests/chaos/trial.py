"""One workload with one fault at one point: it is played to its end, and everything that happened is judged."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from support.user_client import Refused

from .evidence import likeness, unlike
from .faults import BLOWS, CRASHES, At, Named, named
from .play import Play, Stage
from .streams import STALE, TRICKS, Backwater, Rapids
from .workloads import Workload

#: Seconds: until it must have ended as it would have without a fault, and of rest where that is learned.
ENDED, REST = 60.0, 3.0
#: Seconds of silence after which an operator takes a watch for dead, where a trial cannot wait for a minute and a half.
IMPATIENT = {"trainshed.client.transport.READ_TIMEOUT": 1.5}


@dataclass(frozen=True, slots=True)
class Point:
    """Where a fault strikes: at write `number`, or at event `number` of the watch of `plural`.

    With a `stride` it strikes at every so many writes, or events of all watches, from that number on: if all goes well
    even so, these are as many points at once.
    """

    workload: str
    fault: str = ""
    number: int = 0
    plural: str = ""
    stride: int = 0

    def __str__(self) -> str:
        which = f"{self.number} of {self.stride}" if self.stride else str(self.number)
        return "/".join(word for word in (self.workload, self.fault, self.plural, which) if word)

    def writes(self, all_of_them: Sequence[str]) -> list[Named]:
        """Which of the writes of an undisturbed life it strikes at."""
        numbered = enumerate(named(all_of_them), 1)
        chosen = ((n, one) for n, one in numbered if (n % self.stride if self.stride else n) == self.number)
        return [one for _, one in chosen]


@dataclass(frozen=True, slots=True)
class Lesson:
    """What one run without faults has taught: its end, its writes, and how many events each watch has told."""

    workload: str
    likeness: Mapping[str, str] = field(default_factory=dict)
    writes: tuple[str, ...] = ()
    told: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a trial, which `struck` so often.

    `recovery` are the seconds from the last strike to the operator's next write, if any came.
    """

    point: str
    struck: int
    took: float
    violations: tuple[str, ...] = ()
    at: str = ""
    recovery: float | None = None
    likeness: Mapping[str, str] = field(default_factory=dict)
    writes: tuple[str, ...] = ()
    told: Mapping[str, int] = field(default_factory=dict)


class Trial:
    """One workload, one fault, one operator. What is known of it without a fault is empty if that is asked."""

    def __init__(self, stage: Stage, workload: Workload, point: Point, known: Lesson) -> None:
        self._workload = workload
        self._point = point
        self._known = known
        self._reference = known.likeness
        self._play = Play(stage, workload.job, **(IMPATIENT if point.fault == "half-open" else {}))
        self._play.counted = workload.counted
        self._fault = self._arranged()

    async def run(self) -> Outcome:
        """Play it, wait until all is quiet, and judge."""
        began, play, fault = time.time(), self._play, self._fault
        async with play:
            broken = await self._played()
            found = await self._ended(hopeless=bool(broken))
        broken += play.violations(struck=fault.struck, faults=fault.strikes)
        broken += tuple(unlike(self._reference, found)) if self._reference else ()
        writes = tuple(map(str, play.porter.writes))
        return Outcome(
            point=str(self._point),
            struck=fault.strikes,
            took=round(time.time() - began, 2),
            violations=broken,
            at=", ".join(fault.at) if isinstance(fault, At) else self._point.plural,
            recovery=self._recovery(fault.struck),
            likeness=found,
            writes=writes,
            told=getattr(fault, "told", {}),
        )

    def _arranged(self) -> At | Rapids | Backwater:
        point, porter = self._point, self._play.porter
        if point.fault in BLOWS:
            porter.on_write = at = At(BLOWS[point.fault], point.writes(self._known.writes), self._play.kill)
            return at
        if point.fault == STALE:
            back = Backwater(point.plural, point.number, lambda: self._play.pages, self._play.kill)
            porter.on_watch, porter.on_read = back.watch, back.read
            return back
        assert point.fault in ("", *TRICKS)
        porter.on_watch = rapids = Rapids(point.plural, point.number, point.fault, point.stride)
        return rapids

    async def _played(self) -> tuple[str, ...]:
        try:
            await self._workload.play(self._play.scene)
        except (TimeoutError, Refused, KeyError) as error:
            waiting = ", ".join(map(str, self._play.porter.under_way))
            return (f"V8: {type(error).__name__}: {error}; under way: {waiting}",)
        return ()

    async def _ended(self, *, hopeless: bool) -> dict[str, str]:
        """How it ends: as the reference did, or as it is once it has had its time."""
        play = self._play

        def found() -> dict[str, str]:
            return likeness(play.evidence.audit().portrait(), play.namespace, self._workload.blurred)

        if self._reference and not hopeless:
            await play.rest(lambda: found() == self._reference, ENDED)
        elif not hopeless:
            await play.rest(lambda: play.quiet(REST), ENDED)
        return found()

    def _recovery(self, struck: float) -> float | None:
        # What a life had sent before it died may still be on its way.
        since = struck + (0.02 if self._point.fault in CRASHES else 0)
        later = (one.at for one in self._play.porter.writes if one.at > since)
        return next((round(at - struck, 3) for at in later), None) if struck else None
