"""Who may do something to a run on purpose, such as a drill, and what: kill, stop, evict and lose pods, change jobs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from trainshed.api.trainer_status import TrainerStatus
from trainshed.local.node.kubelet import Kubelet
from trainshed.local.runtimes.protocol import LogSink
from trainshed.memory.built_in import PODS
from trainshed.memory.registry import DeleteOptions

from .cluster import LocalCluster
from .stored_objects import POD, Stored, is_deleted

#: The condition that the Eviction API sets.
EVICTED = ("EvictionByEvictionAPI", "Eviction API: evicting")


@dataclass(frozen=True, slots=True)
class Direction:
    """What may be done to a run. `volumes` are the folders with what its pods write."""

    cluster: LocalCluster
    kubelet: Kubelet
    volumes: tuple[Path, ...]

    def pods(self, job: str) -> list[Stored]:
        """Return the pods of a run that belong to a job of this uid."""
        owned = (pod for pod in self.cluster.of(POD) if pod["metadata"].get("ownerReferences"))
        return [pod for pod in owned if pod["metadata"]["ownerReferences"][0]["uid"] == job]

    def evict(self, pod: Stored) -> None:
        """Delete a pod with its grace period, as the Eviction API does."""
        metadata = pod["metadata"]
        if not is_deleted(pod):
            self.kubelet.disrupt(metadata["name"], *EVICTED)
            self.cluster.server.registry.delete(PODS, metadata["namespace"], metadata["name"], DeleteOptions())


class Director(Protocol):
    """Follows one run, and does something to it. The run ends when it has done all, or is over."""

    def listen(self, logs: LogSink) -> LogSink:
        """Return what takes the output of all containers, and passes it on."""
        ...

    def hear(self, report: TrainerStatus, pod: tuple[str, str]) -> None:
        """Take a report that the training has sent itself, from the pod of this name and uid."""

    async def direct(self, direction: Direction) -> None:
        """Do everything; then the run is ended, and what still runs is killed."""
