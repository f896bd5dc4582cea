"""Reads the nodes on which replicas failed, once for all jobs whose replicas failed there at that time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from trainshed.api.node_report import node_report
from trainshed.api.objects import NodeReport
from trainshed.client import ApiError, Client

#: What was read, also an error, is shared for this time: what detectors find is news within seconds.
SHARED = timedelta(seconds=5)
#: Seconds that a job waits for the report of a node before it is restarted without.
PATIENCE = 5.0

log = logging.getLogger(__name__)


class _Reading(msgspec.Struct):
    """The last report of a node, and when it was read."""

    lock: asyncio.Lock
    at: datetime | None = None
    report: NodeReport | None = None


class NodeReports:
    """The reports of nodes; one without problems for a node that cannot be read."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._readings: dict[str, _Reading] = {}
        self._errors: set[str] = set()

    async def of(self, names: Iterable[str], now: datetime) -> dict[str, NodeReport]:
        """Return what is said about nodes, by their names."""
        reports = await asyncio.gather(*(self._of(name, now) for name in names))
        return {report.name: report for report in reports}

    async def _of(self, name: str, now: datetime) -> NodeReport:
        found = self._readings.setdefault(name, _Reading(asyncio.Lock()))
        async with found.lock:
            if found.report is None or not _is_recent(found, now):
                self._forget(now)
                found.report, found.at = await self._read(name), now
                self._readings[name] = found
            return found.report

    async def _read(self, name: str) -> NodeReport:
        try:
            async with asyncio.timeout(PATIENCE):
                report = node_report(name, *await self._client.read_node(name))
        except (ApiError, TimeoutError) as error:
            level = logging.DEBUG if type(error).__name__ in self._errors else logging.WARNING
            self._errors.add(type(error).__name__)
            log.log(level, "cannot read the health of node %s: %s", name, str(error) or type(error).__name__)
            return NodeReport(name)
        self._errors.clear()
        return report

    def _forget(self, now: datetime) -> None:
        for name, reading in tuple(self._readings.items()):
            if not (_is_recent(reading, now) or reading.lock.locked()):
                del self._readings[name]


def _is_recent(reading: _Reading, now: datetime) -> bool:
    return reading.at is not None and abs(now - reading.at) < SHARED
