"""One leader at a time, by a coordination.k8s.io/v1 Lease; safety does not rest on it, economy does."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from trainshed.api.job import Document
from trainshed.cluster import Cluster, ClusterError, Conflict

#: Seconds: a lease that nobody renews is free after so long, a leader that cannot renew steps down before, and each
#: tries so often. client-go's figures.
DURATION, RENEW_WITHIN, RETRY = 15.0, 10.0, 2.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Claim:
    """Where the Lease is, and who we are."""

    namespace: str
    name: str
    identity: str


class Elector:
    """Holds the Lease or waits for it. Only our own monotonic clock counts, never a time that another wrote."""

    def __init__(self, cluster: Cluster, claim: Claim) -> None:
        self.elected = asyncio.Event()
        self._cluster = cluster
        self._claim = claim
        self._renewed = 0.0
        self._seen: Mapping[str, Any] = {}
        self._seen_at = 0.0

    def holds(self) -> bool:
        """Whether we may act: we renewed so lately that nobody else can think that the Lease is free."""
        return self.elected.is_set() and _clock() - self._renewed < RENEW_WITHIN

    async def run(self) -> None:
        """Try to get the Lease, keep it, and return once it is lost."""
        while True:
            try:
                async with asyncio.timeout(RENEW_WITHIN / 2):
                    await self._try()
            except (ClusterError, TimeoutError) as error:
                log.warning("lease %s: %s", self._claim.name, str(error) or "no answer in time")
            if self.elected.is_set() and not self.holds():
                log.error("lease %s: lost; ending, so that whoever has it now is alone", self._claim.name)
                return
            await asyncio.sleep(RETRY * random.uniform(0.8, 1.2))  # noqa: S311 - only to spread tries

    async def release(self) -> None:
        """Let the next one have it at once."""
        if not self.elected.is_set():
            return
        self.elected.clear()
        try:
            async with asyncio.timeout(2):
                await self._write({**self._seen, "spec": self._spec("", 1)})
        except (ClusterError, TimeoutError) as error:
            log.warning("lease %s: not released: %s", self._claim.name, error)

    async def _try(self) -> None:
        began = _clock()
        found = await self._cluster.read_lease(self._claim.namespace, self._claim.name)
        if found is not None and found.get("spec") != self._seen.get("spec"):
            self._seen_at = began
        self._seen = found or {}
        if not self._free():
            self.elected.clear()
            return
        try:
            self._seen = await self._write(self._body(found))
        except Conflict:
            return
        self._renewed = began
        if not self.elected.is_set():
            log.info("lease %s: held by %s", self._claim.name, self._claim.identity)
        self.elected.set()

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


def _clock() -> float:
    return asyncio.get_running_loop().time()
