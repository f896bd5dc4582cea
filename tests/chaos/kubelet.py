"""Plays all pods of a cluster: those that are made get a node and run, those that are to go are gone in a moment."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable

import aiohttp

from support.user_client import Refused

from .api import Api, where
from .history import Version

NODE = "stage-0"
#: So often it tries what it has to do, and with so many seconds between.
TRIES, PAUSE = 100, 0.3
#: What becomes of a new pod, by its name: "Running", an exit code, or nothing for now.
Script = Callable[[str], str]


class Kubelet:
    """Listens to a chronicle. `scripts` by namespace say otherwise than that every pod runs."""

    def __init__(self, api: Api) -> None:
        self.scripts: dict[str, Script] = {}
        self._api = api
        self._tasks: set[asyncio.Task] = set()

    def hear(self, namespace: str, version: Version) -> None:
        """A pod is another than it was."""
        pod, before = version.after, version.before
        if version.plural != "pods" or pod is None:
            return
        fresh = before is None or before["metadata"]["uid"] != pod["metadata"]["uid"]
        if "deletionTimestamp" in pod["metadata"]:
            if fresh or "deletionTimestamp" not in before["metadata"]:
                self._do(lambda: self._remove(namespace, pod))
        elif fresh and pod["status"].get("phase") == "Pending":
            self._do(lambda: self._start(namespace, pod))

    async def run(self, pod: dict) -> None:
        """A pod's container starts."""
        status = {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [_container(pod) | {"state": {"running": {"startedAt": _now()}}}],
        }
        await self._say(pod, status)

    async def end(self, pod: dict, code: int, message: str = "") -> None:
        """A pod's container ends with this exit code, and the pod with it."""
        ended = {"exitCode": code, "startedAt": _now(), "finishedAt": _now(), "message": message}
        ended["reason"] = "Error" if code else "Completed"
        status = {
            "phase": "Failed" if code else "Succeeded",
            "conditions": [{"type": "Ready", "status": "False"}],
            "containerStatuses": [_container(pod) | {"ready": False, "state": {"terminated": ended}}],
        }
        await self._say(pod, status)

    async def evict(self, pod: dict) -> None:
        """The scheduler takes a pod off its node for another."""
        condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
        ready = {"type": "Ready", "status": "False"}
        await self._say(pod, {"phase": "Failed", "reason": "Preempted", "conditions": [ready, condition]})

    async def _start(self, namespace: str, pod: dict) -> None:
        name = pod["metadata"]["name"]
        what = self.scripts.get(namespace, lambda _name: "Running")(name)
        if not what:
            return
        target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        with contextlib.suppress(Refused):  # done at an earlier try, as far as we know; or the pod is gone, which shows
            await self._api.call("POST", where("pods", namespace, name, "binding"), body)
        await (self.run(pod) if what == "Running" else self.end(pod, int(what)))

    async def _remove(self, namespace: str, pod: dict) -> None:
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
        await self._api.call("DELETE", where("pods", namespace, pod["metadata"]["name"]), options)

    async def _say(self, pod: dict, status: dict) -> None:
        meta = pod["metadata"]
        patch = {"metadata": {"uid": meta["uid"]}, "status": status}
        await self._api.merge(where("pods", meta["namespace"], meta["name"], "status"), patch)

    def _do(self, work: Callable[[], Awaitable[None]]) -> None:
        task = asyncio.create_task(_persistently(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _persistently(work: Callable[[], Awaitable[None]]) -> None:
    """Do it, be the server away for a while or not; that the pod is another by now is no matter."""
    for _ in range(TRIES):
        try:
            await work()
        except Refused as refused:
            if refused.code < 500 and refused.code != 429:
                return
        except (aiohttp.ClientError, OSError, TimeoutError):
            pass
        else:
            return
        await asyncio.sleep(PAUSE)


def _container(pod: dict) -> dict:
    name = pod["spec"]["containers"][0]["name"]
    return {"name": name, "ready": True, "restartCount": 0, "image": "", "imageID": ""}


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
