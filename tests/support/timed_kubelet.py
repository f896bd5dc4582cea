"""A scheduler and kubelets that take their time: init containers, ends that are reported late, and grace periods."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from . import pod_statuses
from .fake_kubelet import bind, remove, set_status
from .live_pods import POD_ENDED, LivePods
from .user_client import Refused


@dataclass(frozen=True)
class Times:
    """Seconds: until a pod has a node, until its init containers are done, from there until its container ends.

    `runs` is None for one that does not end by itself. `report` is from the end of the container to that of the pod,
    `stops` from a deletion to the end. `sidecar` is whether another container runs on, so that the pod does not end.
    """

    binds: float = 0.05
    starts: float = 0.2
    runs: float | None = None
    report: float = 2.0
    stops: float = 1.0
    code: int = 0
    sidecar: bool = False


class TimedKubelet(LivePods):
    """Runs all pods of one namespace as `times` says of a pod by its name, when the pod is first seen."""

    def __init__(self, kubeconfig: Path, namespace: str, times: Callable[[str], Times]) -> None:
        super().__init__(kubeconfig, namespace)
        self._times = times
        self._times_by_uid: dict[str, Times] = {}
        self._tasks: dict[str, asyncio.Task] = {}

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks.values():
            task.cancel()
        await super().__aexit__()

    def _observe(self, verb: str, pod: dict) -> None:
        super()._observe(verb, pod)
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        if uid not in self._times_by_uid:
            self._times_by_uid[uid] = self._times(name)
        if uid not in self._tasks and not pod["spec"].get("schedulingGates"):
            self._tasks[uid] = asyncio.create_task(self._live(pod))
        elif "deletionTimestamp" in pod["metadata"] and f"{uid}-end" not in self._tasks:
            self._tasks[f"{uid}-end"] = asyncio.create_task(self._stop(pod))

    async def _live(self, pod: dict) -> None:
        times = self._times_by_uid[pod["metadata"]["uid"]]
        await asyncio.sleep(times.binds)
        with contextlib.suppress(Refused):
            await bind(self._client, pod)
            await self._write(pod, pod_statuses.waiting(pod, "PodInitializing"))
            await asyncio.sleep(times.starts)
            pod = {**pod, "status": pod_statuses.running(pod, time.time())}
            await self._write(pod, pod["status"], sidecar=times.sidecar)
            if times.runs is None:
                return
            await asyncio.sleep(times.runs)
            end = pod_statuses.ended(pod, times.code, time.time())
            await self._write(pod, {**end, "phase": "Running"}, sidecar=times.sidecar)
            if not times.sidecar:
                await asyncio.sleep(times.report)
                await self._write(pod, end)

    async def _stop(self, pod: dict) -> None:
        uid = pod["metadata"]["uid"]
        if pod["spec"].get("nodeName") and pod["status"].get("phase") not in POD_ENDED:
            await asyncio.sleep(self._times_by_uid[uid].stops)
        if task := self._tasks.get(uid):
            task.cancel()
        with contextlib.suppress(Refused):
            await remove(self._client, pod)

    async def _write(self, pod: dict, status: dict, *, sidecar: bool = False) -> None:
        """Write a status; a sidecar runs as long as the pod does."""
        if sidecar:
            own = status["containerStatuses"][0]
            runs = {"running": {"startedAt": pod_statuses.timestamp(time.time())}}
            status = {**status, "containerStatuses": [own, {**own, "name": "sidecar", "ready": True, "state": runs}]}
        await set_status(self._client, pod, status)
