"""A fake scheduler and kubelet: pods get a node and run, or do what a test wants; deleted pods disappear."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from typing import Self

import aiohttp
import urllib3

from . import pod_statuses
from .background import in_background
from .user_client import BUSY, AsyncClient, Refused, UserClient, where

NODE = "node-0"
#: Returns the fate of a new pod by its name: "Running", an exit code, or "" to leave it pending.
Script = Callable[[str], str]
#: Seconds in which a pod starts or stops, and those before a request that has failed is repeated.
REST, PAUSE = 0.1, 0.3


def running(_name: str) -> str:
    """Every pod runs."""
    return "Running"


async def runs(_pod: dict) -> str:
    """Every pod runs."""
    return "Running"


def status_of(pod: dict) -> dict:
    """The status of a pod that runs."""
    return pod_statuses.running(pod, time.time())


class FakeKubelet:
    """Schedules and runs all pods of one namespace, in the background; `created` are their names in order.

    One that is not entered does nothing by itself.
    """

    def __init__(self, user: UserClient, script: Script = running) -> None:
        self.user = user
        self.script = script
        self.created: list[str] = []
        self._pods: dict[str, dict] = {}
        self._work = in_background(self._at_work())

    def __enter__(self) -> Self:
        self._work.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._work.__exit__(None, None, None)

    def run(self, name: str, *, ready: bool = True) -> None:
        self.user.set_pod_status(name, self.status(self._read(name), ready=ready))

    def status(self, pod: dict, *, ready: bool = True) -> dict:
        """Return what is written of a pod that runs."""
        return pod_statuses.running(pod, time.time(), ready=ready)

    def end(self, name: str, code: int, reason: str = "", message: str = "") -> None:
        """Let a pod's container end with this exit code, and the pod with it."""
        self.user.set_pod_status(name, pod_statuses.ended(self._read(name), code, time.time(), reason, message))

    def restart_in_place(self, name: str, times: int) -> None:
        """Report that the container was restarted this number of times."""
        status = pod_statuses.running(self._read(name), time.time())
        status["containerStatuses"][0]["restartCount"] = times
        self.user.set_pod_status(name, status)

    def evict(self, name: str) -> None:
        self.user.set_pod_status(name, pod_statuses.rejected("Evicted"))

    def _read(self, name: str) -> dict:
        """The spec of a pod: what others write into its status does not matter here."""
        pod = self._pods.get(name) or self.user.call("GET", where("pods", self.user.namespace, name))
        return {"metadata": pod["metadata"], "spec": pod["spec"]}

    @contextlib.asynccontextmanager
    async def _at_work(self) -> AsyncIterator[None]:
        client = AsyncClient(self.user.kubeconfig)
        kubelet = AsyncKubelet(client, self._fate, self.status, REST)
        following = asyncio.create_task(self._follow(client, kubelet))
        yield
        for task in (following, *kubelet.tasks):
            task.cancel()
        await client.session.close()

    async def _follow(self, client: AsyncClient, kubelet: AsyncKubelet) -> None:
        while True:
            async for verb, pod in client.changes(where("pods", self.user.namespace)):
                name = pod["metadata"]["name"]
                before = self._pods.pop(name, None)
                if verb == "DELETED":
                    continue
                self._pods[name] = pod
                if is_new(before, pod):
                    self.created.append(name)
                kubelet.observe("pods", before, pod)

    async def _fate(self, pod: dict) -> str:
        """What the script says of a pod, once it says something; "" if the pod no longer waits for that."""
        name = pod["metadata"]["name"]
        while (now := self._pods.get(name)) and not is_new(now, pod) and waits(now):
            await asyncio.sleep(REST)
            if fate := await asyncio.to_thread(self.script, name):
                return fate
        return ""


class AsyncKubelet:
    """The same for all namespaces, without a thread; `observe` gets every change of a pod, `fate` each new one.

    `status` is what it writes of a pod that runs. One that is deleted stops after `grace` seconds.
    """

    def __init__(
        self,
        client: AsyncClient,
        fate: Callable[[dict], Awaitable[str]] = runs,
        status: Callable[[dict], dict] = status_of,
        grace: float = 0.0,
    ) -> None:
        self.tasks: set[asyncio.Task] = set()
        self._client = client
        self._fate = fate
        self._status, self._grace = status, grace

    def observe(self, plural: str, before: dict | None, after: dict | None) -> None:
        """Schedule and start a new pod, and remove one that is being deleted."""
        if plural != "pods" or after is None:
            return
        new = is_new(before, after)
        if "deletionTimestamp" in after["metadata"]:
            if new or "deletionTimestamp" not in before["metadata"]:
                self._do(lambda: self._stop(after))
        elif new and waits(after):
            self._do(lambda: self._start(after))

    async def run(self, pod: dict) -> None:
        await set_status(self._client, pod, self._status(pod))

    async def end(self, pod: dict, code: int, message: str = "") -> None:
        """Let a pod's container end with this exit code, and the pod with it."""
        await set_status(self._client, pod, pod_statuses.ended(pod, code, time.time(), message=message))

    async def preempt(self, pod: dict) -> None:
        await set_status(self._client, pod, pod_statuses.preempted(pod, time.time()))

    async def _start(self, pod: dict) -> None:
        if fate := await self._fate(pod):
            await bind(self._client, pod)
            await (self.run(pod) if fate == "Running" else self.end(pod, int(fate)))

    async def _stop(self, pod: dict) -> None:
        await asyncio.sleep(self._grace)
        await remove(self._client, pod)

    def _do(self, work: Callable[[], Awaitable[None]]) -> None:
        task = asyncio.create_task(_repeated(work))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


async def _repeated(work: Callable[[], Awaitable[None]]) -> None:
    """Repeat it while the server is unavailable; a pod that is no longer there does not matter."""
    while True:
        with contextlib.suppress(aiohttp.ClientError, urllib3.exceptions.HTTPError, OSError, TimeoutError):
            try:
                return await work()
            except Refused as refused:
                if refused.code < HTTPStatus.INTERNAL_SERVER_ERROR and refused.code != BUSY:
                    return None
        await asyncio.sleep(PAUSE)


def is_new(before: dict | None, pod: dict) -> bool:
    """Return whether a pod is not the one that was there before."""
    return before is None or before["metadata"]["uid"] != pod["metadata"]["uid"]


def waits(pod: dict) -> bool:
    """Return whether a pod has not started."""
    return "deletionTimestamp" not in pod["metadata"] and pod["status"].get("phase") == "Pending"


async def bind(client: AsyncClient, pod: dict) -> None:
    """Bind a pod to the node, unless it has one."""
    target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod["metadata"]["name"]}, "target": target}
    try:
        await client.call("POST", _path(pod, "binding"), body)
    except Refused as refused:
        if refused.code != HTTPStatus.CONFLICT:
            raise


async def set_status(client: AsyncClient, pod: dict, status: dict) -> None:
    """Set the status of a pod, unless another has its name."""
    await client.merge(_path(pod, "status"), {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status})


async def remove(client: AsyncClient, pod: dict) -> None:
    """Delete a pod without a grace period, unless another has its name."""
    options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
    await client.call("DELETE", _path(pod), options)


def _path(pod: dict, part: str = "") -> str:
    return where("pods", pod["metadata"]["namespace"], pod["metadata"]["name"], part)
