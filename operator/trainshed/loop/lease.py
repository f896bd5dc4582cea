"""One leader at a time, by a coordination.k8s.io/v1 Lease; safety does not rest on it, economy does."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from trainshed.api.job import Document
from trainshed.cluster import Cluster, ClusterError, Conflict

#: Seconds: a lease that nobody renews is free after so long, a leader that cannot renew steps down before, and each
#: tries so often. client-go's figures.
DURATION, RENEW_WITHIN, RETRY = 15.0, 10.0, 2.0
#: Seconds for one request, so that a leader whose request hangs can try once more in time.
REQUEST = 4.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Claim:
    """Where the Lease is, and who we are."""

    namespace: str
    name: str
    identity: str


class Elector:
    """Holds the Lease or waits for it; `lost` is called when it is ours no more.

    Only our own monotonic clock counts, never a time that another wrote.
    """

    def __init__(self, cluster: Cluster, claim: Claim, lost: Callable[[], None]) -> None:
        self.held = asyncio.Event()
        self._cluster = cluster
        self._claim = claim
        self._lost = lost
        self._renewed = 0.0
        self._seen: Mapping[str, Any] = {}
        self._seen_at = 0.0
        self._failing = False

    def holds(self) -> bool:
        """Whether we may act: we renewed so lately that nobody else can think that the Lease is free."""
        return self.held.is_set() and _clock() < self._renewed + RENEW_WITHIN

    async def run(self) -> None:
        """Get the Lease, keep it, and get it again should it be lost; for ever."""
        while True:
            await self._gain()
            await self._keep()

    async def release(self) -> None:
        """Let the next one have it at once."""
        if not self.held.is_set():
            return
        self.held.clear()
        try:
            async with asyncio.timeout(2):
                await self._write({**self._seen, "spec": self._spec("", 1)})
        except (ClusterError, TimeoutError) as error:
            log.warning("lease %s: not released: %s", self._claim.name, error)

    async def _gain(self) -> None:
        while not self.holds():
            await self._attempt()
            if not self.holds():
                await _pause()
        log.info("lease %s: held by %s", self._claim.name, self._claim.identity)

    async def _keep(self) -> None:
        try:
            while self.holds():
                async with asyncio.timeout_at(self._renewed + RENEW_WITHIN):
                    await _pause()
                    await self._attempt()
        except TimeoutError:
            pass
        self.held.clear()
        log.error("lease %s: lost", self._claim.name)
        self._lost()

    async def _attempt(self) -> None:
        """Try once; of many failures in a row the first is told."""
        try:
            async with asyncio.timeout(REQUEST):
                await self._try()
        except (ClusterError, TimeoutError) as error:
            if not self._failing:
                log.warning("lease %s: %s", self._claim.name, str(error) or "no answer in time")
            self._failing = True
        else:
            self._failing = False

    async def _try(self) -> None:
        began = _clock()
        found = await self._cluster.read_lease(self._claim.namespace, self._claim.name)
        if found is not None and found.get("spec") != self._seen.get("spec"):
            self._seen_at = began
        self._seen = found or {}
        if not self._free():
            self.held.clear()
            return
        try:
            self._seen = await self._write(self._body(found))
        except Conflict:
            return
        self._renewed = began
        self.held.set()

    def _free(self) -> bool:
        holder = (self._seen.get("spec") or {}).get("holderIdentity") or ""
        return holder in ("", self._claim.identity) or _clock() - self._seen_at > DURATION

    def _body(self, found: Document | None) -> Document:
        if found is None:
            metadata = {"name": self._claim.name, "namespace": self._claim.namespace}
            found = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
        return {**found, "spec": self._spec(self._claim.identity, int(DURATION))}

    def _spec(self, holder: str, duration: int) -> dict[str, Any]:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = self._seen.get("spec") or {}
        same = spec.get("holderIdentity") == holder
        return {
            "holderIdentity": holder,
            "leaseDurationSeconds": duration,
            "acquireTime": spec.get("acquireTime", now) if same else now,
            "renewTime": now,
            "leaseTransitions": spec.get("leaseTransitions", 0) + (0 if same else 1),
        }

    async def _write(self, body: Document) -> Document:
        return await self._cluster.write_lease(self._claim.namespace, self._claim.name, body)


async def _pause() -> None:
    await asyncio.sleep(RETRY * random.uniform(0.8, 1.2))  # noqa: S311 - only to spread tries


def _clock() -> float:
    return asyncio.get_running_loop().time()
