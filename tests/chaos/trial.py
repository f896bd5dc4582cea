"""One workload with one fault at one point: it runs to its end, and the auditor judges everything that happened."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from support.user_client import Refused

from .evidence import claimed, differences, normalized
from .run import Environment, Run
from .watch_faults import STALE, WATCH_FAULTS, FaultAtEvents, StaleList
from .workloads import Workload
from .write_faults import CRASHES, WRITE_FAULTS, FaultAtWrites, Numbered, numbered

#: Seconds until the end must be that of a run without faults; and of quiet after which a run without faults has ended.
ENDED, REST = 60.0, 3.0
#: Seconds of silence after which the operator reconnects a watch: a trial cannot wait for the usual 90.
IMPATIENT = {"trainshed.client.http.READ_TIMEOUT": 1.5}
#: Seconds after a kill in which what the killed process has sent may still arrive, shorter than news wait in the next.
LATEST_CLAIM = 1.0


@dataclass(frozen=True, slots=True)
class Point:
    """The place of a fault: write `number`, or event `number` of the watch of `plural`.

    With a `stride` it is injected at every Nth write, or event of all watches, from that number on: one trial then
    covers many points, unless there is a violation.
    """

    workload: str
    fault: str = ""
    number: int = 0
    plural: str = ""
    stride: int = 0

    def __str__(self) -> str:
        which = f"{self.number} of {self.stride}" if self.stride else str(self.number)
        return "/".join(word for word in (self.workload, self.fault, self.plural, which) if word)

    def writes(self, all_writes: Sequence[str]) -> list[Numbered]:
        """The writes of a run without faults at which it is injected."""
        chosen = ((n % self.stride if self.stride else n) == self.number for n in range(1, len(all_writes) + 1))
        return [one for one, hit in zip(numbered(all_writes), chosen, strict=True) if hit]


@dataclass(frozen=True, slots=True)
class Baseline:
    """A run without faults: its end, its writes, and the number of events of each watch."""

    state: Mapping[str, str] = field(default_factory=dict)
    writes: tuple[str, ...] = ()
    events: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a trial; `struck` is the number of injected faults.

    `recovery` are the seconds from the last fault to the operator's next write, if there was one.
    """

    point: str
    struck: int
    took: float
    violations: tuple[str, ...] = ()
    at: str = ""
    recovery: float | None = None
    state: Mapping[str, str] = field(default_factory=dict)
    writes: tuple[str, ...] = ()
    events: Mapping[str, int] = field(default_factory=dict)

    @property
    def fault(self) -> str:
        """The name of the fault."""
        return self.point.split("/")[1]


class Trial:
    """One run of a workload with a fault; without a reference it is the reference."""

    def __init__(self, environment: Environment, workload: Workload, point: Point, baseline: Baseline) -> None:
        self._workload = workload
        self._point = point
        self._baseline = baseline
        flags = (f"--notify-webhooks={environment.webhooks}", "--notify-allow=127.0.0.0/8") if workload.notified else ()
        self._run = Run(environment, workload.job, *flags, **(IMPATIENT if point.fault == "half-open" else {}))
        self._run.counted = workload.counted
        self._fault = self._injected()

    async def run(self) -> Outcome:
        """Run it, wait until it is quiet, and judge."""
        began, run, fault = time.time(), self._run, self._fault
        async with run:
            broken = await self._scripted()
            found = await self._ended(hopeless=bool(broken))
            broken += await self._notification_errors()
        broken += run.violations(struck=fault.struck, faults=fault.strikes)
        broken += tuple(differences(self._baseline.state, found)) if self._baseline.state else ()
        return Outcome(
            point=str(self._point),
            struck=fault.strikes,
            took=round(time.time() - began, 2),
            violations=broken,
            at=", ".join(fault.at) if isinstance(fault, FaultAtWrites) else self._point.plural,
            recovery=self._recovery(fault.struck),
            state=found,
            writes=tuple(map(str, run.route.writes)),
            events=getattr(fault, "events", {}),
        )

    def _injected(self) -> FaultAtWrites | FaultAtEvents | StaleList:
        point, route, run = self._point, self._run.route, self._run
        if point.fault in WRITE_FAULTS:
            wanted = point.writes(self._baseline.writes)
            route.on_write = at = FaultAtWrites(WRITE_FAULTS[point.fault], wanted, run.kill)
            return at
        if point.fault == STALE:
            stale = StaleList(point.plural, point.number, lambda: run.history, run.kill)
            route.on_watch, route.on_read = stale.watch, stale.read
            return stale
        assert point.fault in ("", *WATCH_FAULTS)
        route.on_watch = events = FaultAtEvents(point.plural, point.number, point.fault, point.stride)
        return events

    async def _notification_errors(self) -> tuple[str, ...]:
        """Return the states with two messages, or with none, unless the operator died when it had noted a message."""
        run, wanted = self._run, {*self._workload.notified}

        def missing() -> set[str]:
            lost = claimed(run.route.passed, run.killed + LATEST_CLAIM) if run.killed else frozenset()
            return wanted.difference(run.messages, lost)

        if wanted:
            await run.rest(lambda: not missing(), ENDED)
        twice = [state for state, count in Counter(run.messages).items() if count > 1]
        return tuple(f"sent twice: {state}" for state in twice) + tuple(f"not sent: {state}" for state in missing())

    async def _scripted(self) -> tuple[str, ...]:
        try:
            await self._workload.script(self._run.client)
        except (TimeoutError, Refused, KeyError) as error:
            waiting = ", ".join(map(str, self._run.route.under_way))
            return (f"V8: {type(error).__name__}: {error}; under way: {waiting}",)
        return ()

    async def _ended(self, *, hopeless: bool) -> dict[str, str]:
        """Return the final state: at the reference's end, or at the deadline."""
        run, reference = self._run, self._baseline.state

        def found() -> dict[str, str]:
            return normalized(run.evidence.audit().summary(), run.namespace, self._workload.ignored)

        if not hopeless:
            await run.rest(lambda: found() == reference if reference else run.quiet(REST), ENDED)
        return found()

    def _recovery(self, struck: float) -> float | None:
        # A request that an operator sent before it was killed may still arrive.
        since = struck + (0.02 if self._point.fault in CRASHES else 0)
        later = (one.at for one in self._run.route.writes if one.at > since)
        return next((round(at - struck, 3) for at in later), None) if struck else None
