"""Faults at the events of watches."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import orjson

from support.api_request import Answer, Request
from support.fault_proxy import Forward

from .history import NamespaceHistory
from .write_faults import Kill

Lines = AsyncIterator[bytes]
#: Seconds: of a delay, of a gap, and of a watch cache that lags.
DELAY, GAP, LAG = 0.8, 0.5, 0.7
EVENTS = (b'"ADDED"', b'"MODIFIED"', b'"DELETED"')
#: The lines that replace an event, and whether the watch continues.
Replaced = tuple[tuple[bytes, ...], bool]
LABEL = "training.kubeflow.org/job-name"


async def delayed(line: bytes, _lines: Lines) -> Replaced:
    """Delay the event and all later ones."""
    await asyncio.sleep(DELAY)
    return (line,), True


async def repeated(line: bytes, _lines: Lines) -> Replaced:
    """Deliver the event five times."""
    return (line,) * 5, True


async def gap(_line: bytes, lines: Lines) -> Replaced:
    """Lose the event and all that follow for a while; then the server answers 410 Expired."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(GAP):
            async for _ in lines:
                pass
    return (_error(410, "Expired"),), False


async def failing(_line: bytes, _lines: Lines) -> Replaced:
    """An error event replaces it."""
    return (_error(500, "InternalError"),), False


async def severed(_line: bytes, _lines: Lines) -> Replaced:
    """The watch ends before it."""
    return (), False


async def silent(_line: bytes, _lines: Lines) -> Replaced:
    """Deliver no more events, and keep the connection open."""
    await asyncio.sleep(600)
    return (), False


WATCH_FAULTS: dict[str, Callable[[bytes, Lines], Awaitable[Replaced]]] = {
    "delayed": delayed,
    "repeated": repeated,
    "gap-410": gap,
    "error-500": failing,
    "cut": severed,
    "half-open": silent,
}
STALE = "stale-list"


def _error(code: int, reason: str) -> bytes:
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
    return orjson.dumps({"type": "ERROR", "object": status | {"metadata": {}, "message": "injected by the test"}})


@dataclass
class FaultAtEvents:
    """A fault at event number `number` of the watch of `plural`, or at every `stride`-th event of all from it on.

    `events` counts the events of every kind, `strikes` the faults.
    """

    plural: str = ""
    number: int = 0
    fault: str = ""
    stride: int = 0
    struck: float = 0.0
    strikes: int = 0
    events: dict[str, int] = field(default_factory=dict)

    async def __call__(self, request: Request, lines: Lines) -> Lines:
        """The lines of a watch."""
        async for line in lines:
            if line[:40].partition(b",")[0].partition(b":")[2] not in EVENTS or not self._hits(request.plural):
                yield line
                continue
            self.struck, self.strikes = time.time(), self.strikes + 1
            lines_instead, continues = await WATCH_FAULTS[self.fault](line, lines)
            for other in lines_instead:
                yield other
            if not continues:
                return

    def _hits(self, plural: str) -> bool:
        count = self.events[plural] = self.events.get(plural, 0) + 1
        if self.stride:
            return count % self.stride == self.number
        return not self.struck and plural == self.plural and count == self.number


@dataclass
class StaleList:
    """A stale watch cache: at event `number` of `plural` the operator is killed, and then lists the past.

    The list is a few events old; the watch delivers the rest a little later.
    """

    plural: str
    number: int
    history: Callable[[], NamespaceHistory]
    kill: Kill
    struck: float = 0.0
    strikes: int = 0
    count: int = 0
    listed: bool = False

    async def watch(self, request: Request, lines: Lines) -> Lines:
        """The lines of a watch."""
        if self.listed and request.plural == self.plural:
            await asyncio.sleep(LAG)
        async for line in lines:
            yield line
            if request.plural == self.plural and not self.struck:
                self.count += 1
                if self.count == self.number:
                    self.struck, self.strikes = time.time(), 1
                    self.kill()

    async def read(self, request: Request, forward: Forward) -> Answer:
        """The answer to a read."""
        stale = self.struck and not self.listed and request.lists and request.plural == self.plural
        if not stale or request.by_kopf:
            return await forward()
        self.listed = True
        return Answer(200, orjson.dumps(self._past(request)))

    def _past(self, request: Request) -> dict:
        """A list as of an earlier resourceVersion."""
        found = [version for version in self.history().versions if version.plural == self.plural]
        chosen = found[: max(1, self.number - 3)]
        there: dict[str, dict] = {}
        latest = 1
        for version in chosen:
            item = version.after or version.before
            latest = max(latest, int(item["metadata"]["resourceVersion"]))
            there[version.name] = item
            if version.after is None:
                del there[version.name]
        if "labelSelector" in request.query:
            there = {name: item for name, item in there.items() if LABEL in item["metadata"].get("labels", {})}
        meta = {"resourceVersion": str(latest)}
        return {"kind": "List", "apiVersion": "v1", "metadata": meta, "items": list(there.values())}
