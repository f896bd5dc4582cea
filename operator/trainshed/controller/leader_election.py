"""Leader election with a coordination.k8s.io/v1 Lease; it saves work, but safety does not depend on it."""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from trainshed.api.job import Document
from trainshed.client import ApiError, Client, Conflict, Forbidden

#: Seconds: a Lease that is not renewed expires after LEASE_DURATION, a leader that cannot renew it steps down after
#: RENEW_DEADLINE, and it renews every RETRY_PERIOD. client-go's values.
LEASE_DURATION, RENEW_DEADLINE, RETRY_PERIOD = 15.0, 10.0, 2.0
#: Seconds between two reads by a waiting replica: a released Lease is acquired within two, an expired one at once.
POLL_INTERVAL, EXPIRY_MARGIN = 1.0, 0.2
#: Timeout of one request in seconds, so that a leader whose request hangs can retry once in time.
REQUEST_TIMEOUT = 4.0
NEVER = -math.inf
#: The annotation of the Lease with the address at which its holder takes reports of trainings.
ADDRESS = "trainshed.dev/progress-address"

log = logging.getLogger(__name__)


class LeaseConfig(msgspec.Struct, frozen=True):
    """The name of the Lease, the identity of this replica, and the address at which it takes reports of trainings."""

    namespace: str
    name: str
    identity: str
    address: str = ""


class LeaderElector:
    """Acquires and renews the Lease; calls `on_lost` when it is lost.

    Only this replica's own clock counts, never a time that another replica wrote. `now` returns seconds since 1970,
    advances with the monotonic clock, and is called each time: the time of an event loop stands still within an
    iteration, in the middle of which a process may have been stopped.
    """

    def __init__(
        self, client: Client, config: LeaseConfig, on_lost: Callable[[], None], now: Callable[[], float]
    ) -> None:
        self.acquired = asyncio.Event()
        self._client = client
        self._config = config
        self._on_lost = on_lost
        self._now = now
        self._renewed = self._seen_at = NEVER
        self._seen: Mapping[str, Any] = {}
        self._failing = self._releasing = False
        self._lock = asyncio.Lock()
        self.refused = ""

    def is_leader(self) -> bool:
        """Return whether this replica may act: no other replica can treat the Lease as expired yet."""
        return self.acquired.is_set() and self._since(self._renewed) < RENEW_DEADLINE

    def address_of_leader(self) -> str:
        """Return the address of the replica that holds the Lease, as last read; empty if it is not known."""
        spec, metadata = self._seen.get("spec") or {}, self._seen.get("metadata") or {}
        found = (metadata.get("annotations") or {}).get(ADDRESS) if spec.get("holderIdentity") else ""
        return str(found or "")

    async def run(self) -> None:
        """Acquire the Lease, renew it, and acquire it again if it is lost; runs without end."""
        while True:
            await self._acquire()
            await self._renew_until_lost()

    async def release(self, within: float) -> None:
        """Release the Lease so that another replica can acquire it at once, and stop renewing it.

        Gives up after `within` seconds. To be called while `run` is active: a renewal in flight is awaited first,
        because the release needs the resource version that it creates.
        """
        self._releasing = True
        try:
            async with asyncio.timeout(within), self._lock:
                if self.acquired.is_set():
                    self.acquired.clear()
                    await self._write({**self._seen, "spec": self._spec("", 1)})
        except (ApiError, TimeoutError) as error:
            log.warning("lease %s: not released: %s", self._config.name, str(error) or "request timed out")
        self.acquired.clear()

    async def _acquire(self) -> None:
        while not self.is_leader():
            await self._try_acquire_or_renew()
            if not self.is_leader():
                left = LEASE_DURATION - self._since(self._seen_at)
                await _sleep(min(POLL_INTERVAL, left + EXPIRY_MARGIN) if left > 0 else POLL_INTERVAL)
        log.info("lease %s: acquired by %s", self._config.name, self._config.identity)

    async def _renew_until_lost(self) -> None:
        try:
            while self.is_leader():
                async with asyncio.timeout(RENEW_DEADLINE - self._since(self._renewed)):
                    await _sleep(RETRY_PERIOD)
                    await self._try_acquire_or_renew()
        except TimeoutError:
            pass
        self.acquired.clear()
        if not self._releasing:
            log.error("lease %s: lost", self._config.name)
            self._on_lost()

    async def _try_acquire_or_renew(self) -> None:
        """Try once; log only the first of consecutive failures."""
        try:
            async with self._lock, asyncio.timeout(REQUEST_TIMEOUT):
                await self._acquire_or_renew()
        except (ApiError, TimeoutError) as error:
            if not self._failing:
                log.warning("lease %s: %s", self._config.name, str(error) or "request timed out")
            self._failing = True
            self._set_refused(error)
        else:
            self._failing = False
            self.refused = ""

    def _set_refused(self, error: Exception) -> None:
        """Set `refused`: without the right to read and write the Lease this replica can never act."""
        where = f"{self._config.namespace}/{self._config.name}"
        self.refused = f"cannot acquire the Lease {where}: {error}" if isinstance(error, Forbidden) else ""

    async def _acquire_or_renew(self) -> None:
        if self._releasing:
            return
        began = self._now()
        found = await self._client.read_lease(self._config.namespace, self._config.name)
        if found is not None and found.get("spec") != self._seen.get("spec"):
            self._seen_at = began
        self._seen = found or {}
        if not self._is_available():
            self.acquired.clear()
            return
        try:
            self._seen = await self._write(self._body(found))
        except Conflict:
            return
        self._renewed = began
        self.acquired.set()

    def _is_available(self) -> bool:
        holder = (self._seen.get("spec") or {}).get("holderIdentity") or ""
        return holder in ("", self._config.identity) or self._since(self._seen_at) > LEASE_DURATION

    def _body(self, found: Document | None) -> Document:
        if found is None:
            own_name = {"name": self._config.name, "namespace": self._config.namespace}
            found = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": own_name}
        metadata: Document = found["metadata"]
        known = metadata.get("annotations") or {}
        if self._config.address != known.get(ADDRESS, ""):
            own = {ADDRESS: self._config.address} if self._config.address else {}
            others = {key: text for key, text in known.items() if key != ADDRESS}
            metadata = {**metadata, "annotations": {**others, **own}}
        return {**found, "metadata": metadata, "spec": self._spec(self._config.identity, int(LEASE_DURATION))}

    def _spec(self, holder: str, duration: int) -> dict[str, Any]:
        now = datetime.fromtimestamp(self._now(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = self._seen.get("spec") or {}
        same = spec.get("holderIdentity") == holder
        return {
            "holderIdentity": holder,
            "leaseDurationSeconds": duration,
            "acquireTime": spec.get("acquireTime", now) if same else now,
            "renewTime": now,
            "leaseTransitions": spec.get("leaseTransitions", 0) + (0 if same else 1),
        }

    def _since(self, moment: float) -> float:
        return self._now() - moment

    async def _write(self, body: Document) -> Document:
        return await self._client.write_lease(self._config.namespace, self._config.name, body)


async def _sleep(seconds: float) -> None:
    await asyncio.sleep(seconds * random.uniform(0.8, 1.2))  # noqa: S311 - only spreads retries
