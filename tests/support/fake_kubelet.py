"""A fake scheduler and kubelet: pods get a node and run, or do what a test wants; deleted pods disappear."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import aiohttp
import urllib3

from .user_client import AsyncClient, Refused, UserClient, Watch, where

NODE = "node-0"
#: Returns the fate of a new pod by its name: "Running", an exit code, or "" to leave it pending.
Script = Callable[[str], str]
#: Seconds after which a kubelet in threads looks at its pods although no watch has reported a change.
REST = 0.5
#: How often the async kubelet repeats a request that has failed, and the seconds between.
TRIES, PAUSE = 100, 0.3


def running(_name: str) -> str:
    """Every pod runs."""
    return "Running"


def runs(container: str, *, ready: bool = True, restarts: int = 0) -> dict[str, Any]:
    """Return the status of a pod whose container runs after this number of restarts."""
    return _status("Running", _container(container, ready, {"running": {"startedAt": _now()}}, restarts))


def ended(container: str, code: int, reason: str = "", message: str = "") -> dict[str, Any]:
    """The status of a pod whose container has ended with this exit code."""
    state = {"exitCode": code, "startedAt": _now(), "finishedAt": _now(), "message": message}
    state["reason"] = reason or ("Error" if code else "Completed")
    return _status("Failed" if code else "Succeeded", _container(container, False, {"terminated": state}))


def evicted() -> dict[str, Any]:
    """The status of a pod that the kubelet has evicted."""
    return {"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory."}


def preempted() -> dict[str, Any]:
    """The status of a pod that the scheduler has preempted."""
    ready = {"type": "Ready", "status": "False"}
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    return {"phase": "Failed", "reason": "Preempted", "conditions": [ready, condition]}


class FakeKubelet:
    """Schedules and runs all pods of one namespace, in threads; `created` are their names in order.

    It lists them when a watch reports a change, and every `pause` seconds while its script lets one wait.
    """

    def __init__(self, user: UserClient, script: Script = running, pause: float = 0.05) -> None:
        self.user = user
        self.script = script
        self.created: list[str] = []
        self._pause = pause
        self._uids: set[str] = set()
        self._containers: dict[str, str] = {}
        self._over, self._changed = threading.Event(), threading.Event()
        self._watch: Watch | None = None
        self._pool = ThreadPoolExecutor(8)
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._loop, self._follow)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._changed.set()
        if watch := self._watch:
            watch.end()
        for thread in self._threads:
            thread.join(10)
        self._pool.shutdown()

    def run(self, name: str, *, ready: bool = True) -> None:
        """Let a pod run."""
        self.user.set_pod_status(name, runs(self._name_of_container(name), ready=ready))

    def end(self, name: str, code: int, reason: str = "", message: str = "") -> None:
        """Let a pod's container end with this exit code, and the pod with it."""
        self.user.set_pod_status(name, ended(self._name_of_container(name), code, reason, message))

    def restart_in_place(self, name: str, times: int) -> None:
        """Report that the container was restarted this number of times."""
        self.user.set_pod_status(name, runs(self._name_of_container(name), restarts=times))

    def evict(self, name: str) -> None:
        """Evict a pod."""
        self.user.set_pod_status(name, evicted())

    def _name_of_container(self, name: str) -> str:
        if name not in self._containers:
            pod = self.user.pod(name)
            self._containers[name] = pod["spec"]["containers"][0]["name"] if pod else ""
        return self._containers[name]

    def _loop(self) -> None:
        done = False
        while not self._over.wait(self._pause):
            if done:
                self._changed.wait(REST)
            self._changed.clear()
            done = False
            # Parallel, as on several nodes: one after another the pods would take longer than on a real cluster.
            # If a pod no longer exists or the API server is unavailable, the next round repeats the request.
            with contextlib.suppress(Refused, OSError, urllib3.exceptions.HTTPError):
                done = all(list(self._pool.map(self._act, self.user.pods())))

    def _follow(self) -> None:
        """Report changes of pods; while the API server is unavailable there is a pause between two tries."""
        while not self._over.is_set():
            with contextlib.suppress(Refused, OSError, urllib3.exceptions.HTTPError), self.user.watch("pods") as watch:
                self._watch = watch
                if not self._over.is_set():
                    watch.follow(self._changed.set)
            self._over.wait(PAUSE)

    def _act(self, pod: dict) -> bool:
        """Do what there is to do for a pod; return whether it does not wait for the script."""
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        if uid not in self._uids:
            self._uids.add(uid)
            self._containers[name] = pod["spec"]["containers"][0]["name"]
            self.created.append(name)
        if "deletionTimestamp" in pod["metadata"]:
            self.user.delete("pods", name, grace=0)
        elif pod["status"].get("phase") == "Pending":
            if not (what := self.script(name)):
                return False
            if "nodeName" not in pod["spec"]:
                self.user.bind(name, NODE)
            if what == "Running":
                self.run(name)
            else:
                self.end(name, int(what))
        return True


class AsyncKubelet:
    """The same for all namespaces, without threads; `observe` gets every change of a pod.

    `scripts` are for namespaces where not every pod runs.
    """

    def __init__(self, client: AsyncClient) -> None:
        self.scripts: dict[str, Script] = {}
        self._client = client
        self._tasks: set[asyncio.Task] = set()

    def observe(self, plural: str, before: dict | None, after: dict | None) -> None:
        """Schedule and start a new pod, and remove one that is being deleted."""
        if plural != "pods" or after is None:
            return
        new = before is None or before["metadata"]["uid"] != after["metadata"]["uid"]
        if "deletionTimestamp" in after["metadata"]:
            if new or "deletionTimestamp" not in before["metadata"]:
                self._do(lambda: self._remove(after))
        elif new and after["status"].get("phase") == "Pending":
            self._do(lambda: self._start(after))

    async def run(self, pod: dict) -> None:
        """Let a pod run."""
        await self._set_status(pod, runs(_first(pod)))

    async def end(self, pod: dict, code: int, message: str = "") -> None:
        """Let a pod's container end with this exit code, and the pod with it."""
        await self._set_status(pod, ended(_first(pod), code, message=message))

    async def preempt(self, pod: dict) -> None:
        """Preempt a pod."""
        await self._set_status(pod, preempted())

    async def _start(self, pod: dict) -> None:
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        what = self.scripts.get(namespace, running)(name)
        if not what:
            return
        target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        with contextlib.suppress(Refused):  # bound by an earlier try; or the pod is gone, which the next request shows
            await self._client.call("POST", where("pods", namespace, name, "binding"), body)
        await (self.run(pod) if what == "Running" else self.end(pod, int(what)))

    async def _remove(self, pod: dict) -> None:
        meta = pod["metadata"]
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}}
        await self._client.call("DELETE", where("pods", meta["namespace"], meta["name"]), options)

    async def _set_status(self, pod: dict, status: dict) -> None:
        meta = pod["metadata"]
        patch = {"metadata": {"uid": meta["uid"]}, "status": status}
        await self._client.merge(where("pods", meta["namespace"], meta["name"], "status"), patch)

    def _do(self, work: Callable[[], Awaitable[None]]) -> None:
        task = asyncio.create_task(_repeated(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _repeated(work: Callable[[], Awaitable[None]]) -> None:
    """Repeat it while the server is unavailable; a pod that is no longer there does not matter."""
    for _ in range(TRIES):
        with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
            try:
                return await work()
            except Refused as refused:
                if refused.code < 500 and refused.code != 429:
                    return None
        await asyncio.sleep(PAUSE)
    return None


def _first(pod: dict) -> str:
    return pod["spec"]["containers"][0]["name"]


def _container(name: str, ready: bool, state: dict, restarts: int = 0) -> dict:
    return {"name": name, "ready": ready, "restartCount": restarts, "image": "", "imageID": "", "state": state}


def _status(phase: str, container: dict) -> dict:
    conditions = [{"type": "Ready", "status": str(container["ready"])}]
    return {"phase": phase, "conditions": conditions, "containerStatuses": [container]}


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
