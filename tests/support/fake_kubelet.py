"""A fake scheduler and kubelet: pods get a node and run, or do what a test wants; deleted pods disappear."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Self

import aiohttp
import urllib3

from . import pod_statuses
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
        self._pods: dict[str, dict] = {}
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
        self.user.set_pod_status(name, pod_statuses.running(self._pod(name), time.time(), ready=ready))

    def end(self, name: str, code: int, reason: str = "", message: str = "") -> None:
        """Let a pod's container end with this exit code, and the pod with it."""
        self.user.set_pod_status(name, pod_statuses.ended(self._pod(name), code, time.time(), reason, message))

    def restart_in_place(self, name: str, times: int) -> None:
        """Report that the container was restarted this number of times."""
        status = pod_statuses.running(self._pod(name), time.time())
        status["containerStatuses"][0]["restartCount"] = times
        self.user.set_pod_status(name, status)

    def evict(self, name: str) -> None:
        """Evict a pod."""
        self.user.set_pod_status(name, pod_statuses.rejected("Evicted"))

    def _pod(self, name: str) -> dict:
        """The spec of a pod: what others write into its status does not matter here."""
        if name not in self._pods:
            self._pods[name] = self.user.call("GET", where("pods", self.user.namespace, name))
        return {"spec": self._pods[name]["spec"]}

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
            self._pods[name] = pod
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
                self._do(lambda: remove(self._client, after))
        elif new and after["status"].get("phase") == "Pending":
            self._do(lambda: self._start(after))

    async def run(self, pod: dict) -> None:
        """Let a pod run."""
        await set_status(self._client, pod, pod_statuses.running(pod, time.time()))

    async def end(self, pod: dict, code: int, message: str = "") -> None:
        """Let a pod's container end with this exit code, and the pod with it."""
        await set_status(self._client, pod, pod_statuses.ended(pod, code, time.time(), message=message))

    async def preempt(self, pod: dict) -> None:
        """Preempt a pod."""
        await set_status(self._client, pod, pod_statuses.preempted(pod, time.time()))

    async def _start(self, pod: dict) -> None:
        what = self.scripts.get(pod["metadata"]["namespace"], running)(pod["metadata"]["name"])
        if not what:
            return
        with contextlib.suppress(Refused):  # bound by an earlier try; or the pod is gone, which the next request shows
            await bind(self._client, pod)
        await (self.run(pod) if what == "Running" else self.end(pod, int(what)))

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


async def bind(client: AsyncClient, pod: dict) -> None:
    """Bind a pod to the node."""
    target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod["metadata"]["name"]}, "target": target}
    await client.call("POST", _path(pod, "binding"), body)


async def set_status(client: AsyncClient, pod: dict, status: dict) -> None:
    """Set the status of a pod, unless another has its name."""
    await client.merge(_path(pod, "status"), {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status})


async def remove(client: AsyncClient, pod: dict) -> None:
    """Delete a pod without a grace period, unless another has its name."""
    options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
    await client.call("DELETE", _path(pod), options)


def _path(pod: dict, part: str = "") -> str:
    return where("pods", pod["metadata"]["namespace"], pod["metadata"]["name"], part)
