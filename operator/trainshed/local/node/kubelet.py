"""The kubelet of a local run: keeps what runs each pod until all of that has ended, also if the pod is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import chain

from trainshed.local.runtimes.protocol import RuntimeContainer
from trainshed.local.stored_objects import CONFIG_MAP, POD, Stored

from .pod_worker import KubeletDependencies, PodWorker


class Kubelet:
    """Runs all pods of a cluster.

    An API server forgets a pod that has finished as soon as it is deleted. Its containers, its address and its GPUs may
    still be there then: a new pod of its name waits for its end, because it gets the same address.
    """

    def __init__(self, dependencies: KubeletDependencies) -> None:
        self._dependencies = dependencies
        self._workers: dict[str, PodWorker] = {}
        self._leaving: dict[str, PodWorker] = {}
        dependencies.cluster.listeners.append(self._on_change)

    def running(self) -> list[str]:
        """Return the names of the pods whose containers have not ended."""
        return [worker.name for worker in self._all() if not worker.over]

    def ending(self) -> dict[str, float]:
        """Return the pods that have been asked to end, and when, on the clock of the event loop, they are killed."""
        found = ((worker.name, worker.killed_at) for worker in self._all() if not worker.over)
        return {name: at for name, at in found if at is not None}

    def container(self, pod: str, name: str = "") -> RuntimeContainer | None:
        """Return the running container of a pod, or without a name its first one; None if it does not run."""
        found = (worker.container(name) for worker in self._workers.values() if worker.name == pod)
        return next((container for container in found if container), None)

    def kill(self, pod: str, reason: str = "") -> bool:
        """Kill the containers of a pod as a crash would, or for a reason; return False if it does not run."""
        return sum([worker.kill(reason) for worker in self._named(pod)]) > 0

    def signal(self, pod: str, number: int) -> bool:
        """Send a signal to the containers of a pod; return False if it does not run."""
        return sum([worker.signal(number) for worker in self._named(pod)]) > 0

    def disrupt(self, pod: str, reason: str, message: str) -> None:
        """Note in the status of a pod that something is about to end it."""
        for worker in self._named(pod):
            worker.disrupt(reason, message)

    def lose(self, pod: str) -> None:
        """End a pod at once and forget it, as a cluster does with the pods of a node that is gone."""
        for worker in [*self._named(pod)]:
            worker.lose()

    def terminate(self, grace: float) -> None:
        """End all pods and start no container again."""
        for worker in self._all():
            worker.stop(grace)

    async def close(self) -> None:
        """Wait until all pods have ended, and remove what is left of them."""
        await asyncio.gather(*(worker.ended() for worker in self._all()))

    def abandon(self) -> None:
        """Wait for no pod any more."""
        for worker in self._all():
            worker.abandon()

    def _named(self, pod: str) -> Iterator[PodWorker]:
        return (worker for worker in self._workers.values() if worker.name == pod)

    def _all(self) -> Iterator[PodWorker]:
        """Iterate over what runs the pods, also those that are gone."""
        return chain(self._leaving.values(), self._workers.values())

    def _on_change(self, kind: str, before: Stored | None, after: Stored | None) -> None:
        if kind == CONFIG_MAP and before and after and before.get("data") != after.get("data"):
            for worker in self._workers.values():
                worker.refresh()
        if kind != POD:
            return
        found = after or before or {}
        uid = found["metadata"]["uid"]
        if after is None:
            self._forget(uid)
        elif (known := self._workers.get(uid)) is None:
            name = after["metadata"]["name"]
            before_it = [worker.task for worker in self._leaving.values() if worker.name == name]
            self._workers[uid] = PodWorker(self._dependencies.admit(after), self._dependencies, before_it)
        elif "deletionTimestamp" in found["metadata"]:
            known.delete(float(found["metadata"]["deletionGracePeriodSeconds"]))

    def _forget(self, uid: str) -> None:
        """Forget a pod that is gone, as soon as nothing of it is left."""
        worker = self._workers.pop(uid, None)
        if worker and not worker.task.done():
            self._leaving[uid] = worker
            worker.task.add_done_callback(lambda _: self._leaving.pop(uid, None))
