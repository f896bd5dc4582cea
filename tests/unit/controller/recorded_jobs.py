"""Operators that record the decisions about a job, in a world without other parts of them."""

from __future__ import annotations

from datetime import timedelta

from support.builders import T0, a_job, a_pod, at, pods_of, running, seen
from support.replace import replace
from support.world import World
from trainshed import plan as planner
from trainshed.api.actions import Snapshot
from trainshed.api.job import Job
from trainshed.client.config_maps import ConfigMaps
from trainshed.controller.job_decisions import JobDecisions
from trainshed.decisions import RESULTS, ring
from trainshed.decisions.again import differences
from trainshed.decisions.recording import Decision

JOB = a_job("PyTorchJob", worker=2, created=T0, decisions=True)
RUNS = replace(seen(JOB, *pods_of(JOB)), status=running(JOB), pods=tuple(pods_of(JOB)), now=at(10))
#: A pod is missing, and is created.
LACKS = replace(RUNS, pods=RUNS.pods[:1])


class Recorded:
    """An operator that records the decisions about jobs in a world; `start` begins another one."""

    def __init__(self, world: World | None = None) -> None:
        self.world = world or World()
        self.store = ConfigMaps(self.world.client)
        self.events: list[tuple[str, str]] = []
        self.counts = dict.fromkeys(RESULTS, 0)
        self.start()

    def start(self) -> None:
        """Another operator leads: it remembers nothing."""
        self.recorder = JobDecisions(self.store, self._tell, self._count, lambda: self.world.now)

    def _tell(self, job: Job, event) -> None:
        self.events.append((job.name, event.reason))

    def _count(self, result: str, number: int) -> None:
        self.counts[result] += number

    def decide(self, *snapshots: Snapshot) -> None:
        """Let the planner decide about some snapshots."""
        for snapshot in snapshots:
            self.recorder.on_decision(snapshot, planner.plan(snapshot))

    async def write(self, seconds: float = 0) -> None:
        """Write what is due in some seconds."""
        self.world.now += timedelta(seconds=seconds)
        for uid in self.recorder._due():
            await self.recorder._write(uid)

    def kept(self, uid: str = JOB.uid) -> list[Decision]:
        """Return the decisions that are stored; they can be made again, and take less room than is allowed."""
        config_map = self.world.get("configmaps", ring.name_of(uid)) or {}
        assert sum(len(key) + len(text) for key, text in config_map.get("binaryData", {}).items()) <= ring.MOST_BYTES
        found = ring.decisions(config_map)
        assert [*differences(found)] == []
        return found

    @property
    def requests(self) -> list[str]:
        return [one for one in (*self.world.reads, *self.world.writes) if "configmaps" in one]


def fails(number: int, seconds: float) -> Snapshot:
    """Return a snapshot in which the worker of this attempt has failed."""
    died = a_pod("worker-1", "Failed", code=1, ended=60, container="pytorch", uid=f"died-{number}")
    return replace(RUNS, pods=tuple(pods_of(JOB, died)), now=at(seconds))
