"""A scheduler and kubelets that take their time: init containers, ends that are reported late, and grace periods."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from .background import in_background
from .live_pods import POD_ENDED, LivePods
from .user_client import Refused, where


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

    @classmethod
    def start(cls, kubeconfig: Path, namespace: str, times: Callable[[str], Times]) -> AbstractContextManager[Self]:
        """One in the background."""
        return in_background(cls(kubeconfig, namespace, times))

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
        times, name = self._times_by_uid[pod["metadata"]["uid"]], pod["metadata"]["name"]
        await asyncio.sleep(times.binds)
        target = {"apiVersion": "v1", "kind": "Node", "name": "node-0"}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        with contextlib.suppress(Refused):
            await self._client.call("POST", where("pods", self._namespace, name, "binding"), body)
            await self._write(pod, _status(pod, "Pending", {"waiting": {"reason": "PodInitializing"}}, times))
            await asyncio.sleep(times.starts)
            began = _now()
            await self._write(pod, _status(pod, "Running", {"running": {"startedAt": began}}, times))
            if times.runs is None:
                return
            await asyncio.sleep(times.runs)
            end = {"exitCode": times.code, "startedAt": began, "finishedAt": _now()}
            state = {"terminated": end | {"reason": "Error" if times.code else "Completed"}}
            await self._write(pod, _status(pod, "Running", state, times))
            if not times.sidecar:
                await asyncio.sleep(times.report)
                await self._write(pod, _status(pod, "Failed" if times.code else "Succeeded", state, times))

    async def _stop(self, pod: dict) -> None:
        meta = pod["metadata"]
        if pod["spec"].get("nodeName") and pod["status"].get("phase") not in POD_ENDED:
            await asyncio.sleep(self._times_by_uid[meta["uid"]].stops)
        if task := self._tasks.get(meta["uid"]):
            task.cancel()
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}}
        with contextlib.suppress(Refused):
            await self._client.call("DELETE", where("pods", self._namespace, meta["name"]), options)

    async def _write(self, pod: dict, status: dict) -> None:
        patch = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
        await self._client.merge(where("pods", self._namespace, pod["metadata"]["name"], "status"), patch)


def _status(pod: dict, phase: str, state: dict[str, Any], times: Times) -> dict[str, Any]:
    """The status of a pod whose own container is in this state; a sidecar runs as long as the pod does."""
    runs, own = "running" in state, pod["spec"]["containers"][0]["name"]
    found = [{"name": own, "state": state, "ready": runs, "restartCount": 0, "image": "", "imageID": ""}]
    if times.sidecar and phase == "Running":
        found.append({**found[0], "name": "sidecar", "ready": True, "state": {"running": {"startedAt": _now()}}})
    return {"phase": phase, "containerStatuses": found, "conditions": [{"type": "Ready", "status": str(runs)}]}


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
