"""The nodes: they take pods in, run them, and let them go; what else happens to pods, schedules say."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from support.audit.change import CREATED, DELETED, KUBELET, Change

from . import lives
from .answers import Refusal
from .stage import Stage

Object = dict[str, Any]
NODES = ("node-0", "node-1")
#: Seconds within which a pod gets its node, runs, and ends when it is told to: mostly soon.
BIND, START, END = (0.01, 0.2), (0.02, 1.5), (0.02, 2.0)
#: Seconds after which the pods of a node that is lost are told to go.
TAINT = 5.0


class Kubelets:
    """Two nodes; `random` draws how long things take. A pod on a node that is lost stays as it is."""

    def __init__(self, stage: Stage, random: Random) -> None:
        self._stage = stage
        self._server = stage.server
        self._random = random
        self._lost: set[str] = set()
        self._deaf_until = 0.0
        self._stalled: dict[str, str] = {}
        self._waiting: list[Callable[[], None]] = []
        self.stall = ""
        stage.server.changes.append(self._hear)

    def pods(self, *phases: str) -> list[Object]:
        """The pods in one of these phases on nodes that live, by name."""
        found = self._server.objects("pods")
        return [pod for pod in found if pod["status"].get("phase") in phases and not self.cut_off(pod)]

    def cut_off(self, pod: Object) -> bool:
        """Whether its node is lost."""
        return pod["spec"].get("nodeName") in self._lost

    def write(self, pod: Object, status: Object) -> None:
        """Say how a pod is, if it is still there."""
        meta = pod["metadata"]
        self._ask("PATCH", f"{path(pod)}/status", {"metadata": {"uid": meta["uid"]}, "status": status})

    def lose(self, node: str) -> None:
        """A node is not heard of any more; after a while its pods are told to go, and cannot."""
        self._lost.add(node)
        self._later(TAINT, lambda: self._taint(node))

    def find(self) -> None:
        """All nodes are there again, and do what they were asked to meanwhile."""
        self._lost.clear()
        self._go_on()

    def be_deaf(self, seconds: float) -> None:
        """For so long no pod ends that is told to."""
        self._deaf_until = self._stage.loop.time() + seconds
        self._later(seconds, self._go_on)

    def heal(self) -> None:
        """Everything is well."""
        self._deaf_until, self.stall = 0.0, ""
        stalled, self._stalled = self._stalled, {}
        self.find()
        for uid in stalled:
            self._later(0.5, lambda uid=uid: self._start(uid))
        for pod in self.pods("Running"):
            uid = pod["metadata"]["uid"]
            self._later(0.5, lambda uid=uid: self._ready(uid))

    # ------------------------------------------------------------------------------------------------------------------

    def _hear(self, change: Change) -> None:
        if change.plural != "pods" or change.verb == DELETED:
            return
        uid = change.object["metadata"]["uid"]
        if change.verb == CREATED:
            self._later(self._some(BIND), lambda: self._bind(uid))
        elif change.vanishing:
            self._later(self._some(END), lambda: self._end(uid))

    def _bind(self, uid: str) -> None:
        pod = self._pod(uid)
        if pod is None or "deletionTimestamp" in pod["metadata"]:
            return
        there = [node for node in NODES if node not in self._lost]
        if not there:
            self._waiting.append(lambda: self._bind(uid))
            return
        self._ask("POST", f"{path(pod)}/binding", {"target": {"name": self._random.choice(there)}})
        self._later(self._some(START), lambda: self._start(uid))

    def _start(self, uid: str) -> None:
        pod = self._pod(uid)
        if pod is None or pod["status"].get("phase") != "Pending" or "deletionTimestamp" in pod["metadata"]:
            return
        if self.cut_off(pod):
            self._waiting.append(lambda: self._start(uid))
        elif self.stall:
            self._stalled[uid] = self.stall
            self.write(pod, lives.waiting(pod, self.stall))
        else:
            ready = self._random.random() < 0.7
            self.write(pod, lives.running(pod, self._now(), ready=ready))
            if not ready:
                self._later(self._some(START), lambda: self._ready(uid))

    def _ready(self, uid: str) -> None:
        pod = self._pod(uid)
        if pod and pod["status"].get("phase") == "Running" and not self.cut_off(pod):
            self.write(pod, lives.running(pod, self._now()))

    def _end(self, uid: str) -> None:
        pod = self._pod(uid)
        if pod is None:
            return
        if self.cut_off(pod) or self._stage.loop.time() < self._deaf_until:
            self._waiting.append(lambda: self._end(uid))
            return
        if pod["status"].get("phase") == "Running" and self._random.random() < 0.5:
            self.write(pod, lives.ended(pod, self._random.choice((0, 137, 143)), self._now()))
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        self._ask("DELETE", path(pod), options)

    def _taint(self, node: str) -> None:
        if node not in self._lost:
            return
        for pod in self._server.objects("pods"):
            if pod["spec"].get("nodeName") == node and "deletionTimestamp" not in pod["metadata"]:
                self.write(pod, lives.disrupted(pod, "DeletionByTaintManager", self._now()))
                self._ask("DELETE", path(pod), {"preconditions": {"uid": pod["metadata"]["uid"]}})

    def _go_on(self) -> None:
        waiting, self._waiting = self._waiting, []
        for go_on in waiting:
            go_on()

    def _pod(self, uid: str) -> Object | None:
        place = self._server.storage.place(uid)
        found = self._server.storage.get(*place) if place else None
        return found.document if found else None

    def _ask(self, verb: str, where: str, body: Object) -> None:
        try:
            self._server.request(KUBELET, verb, where, body=body)
        except Refusal:
            return  # it is gone, or another by now

    def _now(self) -> float:
        return self._stage.now()

    def _some(self, bounds: tuple[float, float]) -> float:
        low, high = bounds
        return low + (high - low) * self._random.random() ** 3

    def _later(self, seconds: float, what: Callable[[], None]) -> None:
        self._stage.later(seconds, what)


def path(pod: Object) -> str:
    """Where a pod is."""
    meta = pod["metadata"]
    return f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
