"""A fake scheduler and kubelet: pods get a node and run, or do what a test wants; deleted pods disappear."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from http import HTTPStatus

import aiohttp
import urllib3

from . import pod_statuses
from .live_pods import POD_ENDED, LivePods, is_gated, is_new
from .user_client import BUSY, AsyncClient, Refused, UserClient, where

NODE = "node-0"
#: Seconds in which a pod starts or stops, and those before a request that has failed is repeated.
REST, PAUSE = 0.1, 0.3


@dataclass(frozen=True)
class Times:
    """Seconds from a pod's node until its init containers are done, and from there until its container ends.

    `runs` is None for one that does not end by itself. `report` is from the end of the container to that of the pod,
    `stops` from a deletion to the end. A stage of no seconds is left out: it is never seen in the pod's status.
    `sidecar` is whether another container runs on, so that the pod does not end.
    """

    starts: float = 0.2
    runs: float | None = None
    report: float = 2.0
    stops: float = 1.0
    code: int = 0
    sidecar: bool = False


AT_ONCE = Times(starts=0, report=0, stops=0)
#: What a new pod does: "Running", an exit code, or its times; "" to leave it pending.
Fate = str | Times
#: Returns the fate of a new pod by its name; it is asked until it is not "".
Script = Callable[[str], Fate]


def running(_name: str) -> str:
    """Every pod runs."""
    return "Running"


async def runs(_pod: dict) -> str:
    """Every pod runs."""
    return "Running"


def status_of(pod: dict) -> dict:
    """The status of a pod that runs."""
    return pod_statuses.running(pod, time.time())


class FakeKubelet(LivePods):
    """Schedules and runs all pods of one namespace, in the background.

    One that is not entered does nothing by itself.
    """

    def __init__(self, user: UserClient, script: Script = running) -> None:
        super().__init__(user)
        self.script = script

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

    async def _follow(self, client: AsyncClient) -> None:
        self._kubelet = AsyncKubelet(client, self._fate, self.status, replace(AT_ONCE, stops=REST))
        await super()._follow(client)

    def _observe(self, name: str, before: dict | None, after: dict | None) -> None:
        super()._observe(name, before, after)
        self._kubelet.observe("pods", before, after)

    async def _fate(self, pod: dict) -> Fate:
        """What the script says of a pod, once it says something; "" if the pod no longer waits for that."""
        name = pod["metadata"]["name"]
        while (now := self._pods.get(name)) and not is_new(now, pod) and waits(now):
            await asyncio.sleep(REST)
            if fate := await asyncio.to_thread(self.script, name):
                return fate
        return ""


class AsyncKubelet:
    """The same for all namespaces, without a thread; `observe` gets every change of a pod, `fate` each new one.

    `status` is what it writes of a pod that runs, and `usual` are the times of pods whose fate has none.
    """

    def __init__(
        self,
        client: AsyncClient,
        fate: Callable[[dict], Awaitable[Fate]] = runs,
        status: Callable[[dict], dict] = status_of,
        usual: Times = AT_ONCE,
    ) -> None:
        self.tasks: dict[tuple[str, str], asyncio.Task] = {}
        self._client = client
        self._fate = fate
        self._status, self._usual = status, usual
        self._times: dict[str, Times] = {}

    def observe(self, plural: str, before: dict | None, after: dict | None) -> None:
        """Schedule and start a new pod, and remove one that is being deleted."""
        if plural != "pods" or after is None:
            return
        known = None if is_new(before, after) else before
        if is_deleted(after) and not (known and is_deleted(known)):
            self._do("stop", self._stop, after)
        elif waits(after) and not (known and waits(known)):
            self._do("start", self._start, after)

    async def run(self, pod: dict) -> None:
        await set_status(self._client, pod, self._status(pod))

    async def end(self, pod: dict, code: int, message: str = "") -> None:
        """Let a pod's container end with this exit code, and the pod with it."""
        await set_status(self._client, pod, pod_statuses.ended(pod, code, time.time(), message=message))

    async def preempt(self, pod: dict) -> None:
        await set_status(self._client, pod, pod_statuses.preempted(pod, time.time()))

    async def _start(self, pod: dict) -> None:
        if not (fate := await self._fate(pod)):
            return
        if isinstance(fate, Times):
            times = self._times[pod["metadata"]["uid"]] = fate
        else:
            times = self._usual if fate == "Running" else replace(self._usual, runs=0, code=int(fate))
        await bind(self._client, pod)
        if times.starts:
            await set_status(self._client, pod, pod_statuses.waiting(pod, "PodInitializing"))
            await asyncio.sleep(times.starts)
        if times.runs != 0:
            pod = {**pod, "status": self._status(pod)}
            await set_status(self._client, pod, beside(pod["status"], times))
        if times.runs is None:
            return
        await asyncio.sleep(times.runs)
        end = pod_statuses.ended(pod, times.code, time.time())
        if times.report or times.sidecar:
            await set_status(self._client, pod, beside({**end, "phase": "Running"}, times))
            await asyncio.sleep(times.report)
        if not times.sidecar:
            await set_status(self._client, pod, end)

    async def _stop(self, pod: dict) -> None:
        uid = pod["metadata"]["uid"]
        if pod["spec"].get("nodeName") and pod["status"].get("phase") not in POD_ENDED:
            await asyncio.sleep(self._times.get(uid, self._usual).stops)
        if start := self.tasks.get(("start", uid)):
            start.cancel()
        await remove(self._client, pod)

    def _do(self, what: str, work: Callable[[dict], Awaitable[None]], pod: dict) -> None:
        """Do it, unless it is being done."""
        key = what, pod["metadata"]["uid"]
        if key not in self.tasks:
            self.tasks[key] = asyncio.create_task(_repeated(lambda: work(pod)))
            self.tasks[key].add_done_callback(lambda _: self.tasks.pop(key))


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


def waits(pod: dict) -> bool:
    """Return whether a pod has not started and may."""
    return not is_deleted(pod) and pod["status"].get("phase") == "Pending" and not is_gated(pod)


def is_deleted(pod: dict) -> bool:
    """Return whether a pod is being deleted."""
    return "deletionTimestamp" in pod["metadata"]


def beside(status: dict, times: Times) -> dict:
    """Return a status with the sidecar, if there is one, which runs as long as the pod does."""
    if not times.sidecar:
        return status
    own = status["containerStatuses"][0]
    runs = {"running": {"startedAt": pod_statuses.timestamp(time.time())}}
    return {**status, "containerStatuses": [own, {**own, "name": "sidecar", "ready": True, "state": runs}]}


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
