"""A Lease as a server keeps it, lines to it that may be cut, and replicas of the operator that want to have it."""

from __future__ import annotations

import asyncio

from hasty import clock, now
from trainshed.cluster import Conflict, Unavailable
from trainshed.loop.lease import Claim, Elector


class Leases:
    """The one Lease, as a server keeps it."""

    def __init__(self) -> None:
        self.lease: dict | None = None
        self.version = 0


class Line:
    """A connection to it, which may be cut, or hang, or answer late; `renewed` is when the last write was begun."""

    def __init__(self, leases: Leases) -> None:
        self.leases = leases
        self.cut = self.hangs = False
        self.late = self.asked = self.renewed = 0.0
        self.requests = 0

    async def read_lease(self, _namespace: str, _name: str) -> dict | None:
        self.asked = clock()
        await self._carry()
        return self.leases.lease

    async def write_lease(self, _namespace: str, _name: str, body: dict) -> dict:
        await self._carry()
        there = self.leases.lease
        if (there or {"metadata": {}})["metadata"].get("resourceVersion") != body["metadata"].get("resourceVersion"):
            raise Conflict("somebody was faster")
        self.leases.version += 1
        metadata = {**body["metadata"], "resourceVersion": str(self.leases.version)}
        self.leases.lease = {**body, "metadata": metadata}
        self.renewed = self.asked
        await asyncio.sleep(self.late)
        return self.leases.lease

    async def _carry(self) -> None:
        self.requests += 1
        await asyncio.sleep(3600 if self.hangs else 0.01)
        if self.cut:
            raise Unavailable("the line is cut")


class Replica:
    """An operator that wants to lead."""

    def __init__(self, leases: Leases, name: str) -> None:
        self.line = Line(leases)
        self.losses: list[float] = []
        self.elector = Elector(self.line, Claim("ml", "lease", name), lambda: self.losses.append(clock()), now)
        self.task = asyncio.create_task(self.elector.run())

    async def held(self, within: float) -> float:
        """After how many seconds it has the Lease."""
        began = clock()
        async with asyncio.timeout(within):
            while not self.elector.holds():
                await asyncio.sleep(0.1)
        return clock() - began

    async def die(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
