"""What may happen to a watch, at one of its events."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import orjson

from .faults import Kill
from .history import Pages
from .proxy import Forward
from .request import Answer, Request

Lines = AsyncIterator[bytes]
#: Seconds: of a delay, of a gap, and of a server that is behind.
DELAY, GAP, LAG = 0.8, 0.5, 0.7
EVENTS = (b'"ADDED"', b'"MODIFIED"', b'"DELETED"')
#: What is told in the place of an event, and whether the stream goes on.
Told = tuple[tuple[bytes, ...], bool]
LABEL = "training.kubeflow.org/job-name"


async def delayed(line: bytes, _lines: Lines) -> Told:
    """This event, and all behind it, comes late."""
    await asyncio.sleep(DELAY)
    return (line,), True


async def repeated(line: bytes, _lines: Lines) -> Told:
    """It comes five times."""
    return (line,) * 5, True


async def gap(_line: bytes, lines: Lines) -> Told:
    """It and what follows for a while never comes; then the server says that it has forgotten."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(GAP):
            async for _ in lines:
                pass
    return (_error(410, "Expired"),), False


async def failing(_line: bytes, _lines: Lines) -> Told:
    """An error comes in its place."""
    return (_error(500, "InternalError"),), False


async def severed(_line: bytes, _lines: Lines) -> Told:
    """The watch ends before it."""
    return (), False


async def silent(_line: bytes, _lines: Lines) -> Told:
    """Nothing comes any more, and nobody hangs up."""
    await asyncio.sleep(600)
    return (), False


TRICKS: dict[str, Callable[[bytes, Lines], Awaitable[Told]]] = {
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
    return orjson.dumps({"type": "ERROR", "object": status | {"metadata": {}, "message": "so it is written"}})


@dataclass
class Rapids:
    """A trick at event number `number` of the watch of `plural`, or at every `stride`-th event of all from it on.

    `told` counts the events of every kind, `strikes` how often the trick was played.
    """

    plural: str = ""
    number: int = 0
    trick: str = ""
    stride: int = 0
    struck: float = 0.0
    strikes: int = 0
    told: dict[str, int] = field(default_factory=dict)

    async def __call__(self, request: Request, lines: Lines) -> Lines:
        """The lines of a watch."""
        async for line in lines:
            if line[:40].partition(b",")[0].partition(b":")[2] not in EVENTS or not self._hits(request.plural):
                yield line
                continue
            self.struck, self.strikes = time.time(), self.strikes + 1
            told, goes_on = await TRICKS[self.trick](line, lines)
            for other in told:
                yield other
            if not goes_on:
                return

    def _hits(self, plural: str) -> bool:
        count = self.told[plural] = self.told.get(plural, 0) + 1
        if self.stride:
            return count % self.stride == self.number
        return not self.struck and plural == self.plural and count == self.number


@dataclass
class Backwater:
    """A server that is behind: at event `number` of `plural` the operator dies, and its next life finds the past.

    It lists what was there a few events ago; what has happened since comes a little later.
    """

    plural: str
    number: int
    pages: Callable[[], Pages]
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
        """A list as of an earlier version; what matters is that it and its version belong together."""
        found = [version for version in self.pages().versions if version.plural == self.plural]
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
