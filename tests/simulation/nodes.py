"""The scheduler, the kubelets and the gang scheduler of the simulated cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from support.audit.change import CREATED, DELETED, KUBELET, Change
from support.pod_statuses import disrupted, ended, running, waiting
from trainshed.memory.errors import StatusError

from .cluster import NAMESPACE, Cluster
from .server_events import observe_changes

Object = dict[str, Any]
NODES = ("node-0", "node-1")
#: Seconds within which a pod is bound, started, and ended after its deletion; most delays are near the lower bound.
BIND, START, END = (0.01, 0.2), (0.02, 1.5), (0.02, 2.0)
#: Seconds after which the pods of a lost node are deleted.
TAINT = 5.0
#: The reasons of DisruptionTarget that Kubernetes sets.
DISRUPTIONS = (
    "PreemptionByScheduler",
    "DeletionByTaintManager",
    "EvictionByEvictionAPI",
    "DeletionByPodGC",
    "TerminationByKubelet",
)
#: Reasons of a kubelet to fail a pod without container statuses.
REJECTIONS = ("OutOfcpu", "OutOfmemory", "UnexpectedAdmissionError", "NodeAffinity", "Evicted", "NodeShutdown")
#: Reasons of a container that waits for its image or its configuration.
IMAGE_ERRORS = ("ErrImagePull", "ImagePullBackOff", "CreateContainerConfigError")
#: Seconds from one phase of a PodGroup to the next, and the largest number of phases before it stays admitted.
MIN_PHASE, MAX_PHASE, MAX_PHASES = 0.05, 8.0, 5
#: Volcano's phases of a PodGroup, and the last one.
PHASES, ADMITTED = ("Pending", "Inqueue", "Running", "Unknown"), "Running"


class Nodes:
    """Two nodes; `random` draws how long things take. A pod on a lost node stays as it is.

    With `image_error` new pods wait with this reason.
    """

    def __init__(self, cluster: Cluster, random: Random) -> None:
        self._cluster = cluster
        self._server = cluster.server
        self._random = random
        self._lost: set[str] = set()
        self._terminations_delayed_until = 0.0
        self._without_image: dict[str, str] = {}
        self._waiting: list[Callable[[], None]] = []
        self.image_error = ""
        observe_changes(cluster.server, self._observe)

    def pods(self, *phases: str) -> list[Object]:
        """Return the pods in one of these phases on nodes that are not lost, by name."""
        found = self._server.objects("pods")
        return [pod for pod in found if pod["status"].get("phase") in phases and not self._is_on_lost_node(pod)]

    def write(self, pod: Object, status: Object) -> None:
        """Write the status of a pod, if it still exists."""
        uid = pod["metadata"]["uid"]
        self._ask("PATCH", f"{pod_path(pod)}/status", {"metadata": {"uid": uid}, "status": status})

    def lose(self, node: str) -> None:
        """Lose a node; after a while its pods are deleted, and cannot end."""
        self._lost.add(node)
        self._later(TAINT, lambda: self._taint(node))

    def recover(self) -> None:
        """Bring back all nodes; they execute what is pending."""
        self._lost.clear()
        self._continue()

    def delay_terminations(self, seconds: float) -> None:
        """End no deleted pod for this time."""
        self._terminations_delayed_until = self._cluster.loop.time() + seconds
        self._later(seconds, self._continue)

    def end_faults(self) -> None:
        """Let all nodes and all pods become ready."""
        self._terminations_delayed_until, self.image_error = 0.0, ""
        without_image, self._without_image = self._without_image, {}
        self.recover()
        for uid in without_image:
            self._later(0.5, lambda uid=uid: self._start(uid))
        for pod in self.pods("Running"):
            uid = pod["metadata"]["uid"]
            self._later(0.5, lambda uid=uid: self._make_ready(uid))

    # ------------------------------------------------------------------------------------------------------------------

    def _observe(self, change: Change) -> None:
        if change.plural != "pods" or change.verb == DELETED:
            return
        uid = change.object["metadata"]["uid"]
        if change.verb == CREATED:
            self._later(self._delay(BIND), lambda: self._bind(uid))
        elif change.requests_deletion:
            self._later(self._delay(END), lambda: self._end(uid))

    def _bind(self, uid: str) -> None:
        pod = self._pod(uid)
        if pod is None or "deletionTimestamp" in pod["metadata"]:
            return
        nodes = [node for node in NODES if node not in self._lost]
        if not nodes:
            self._waiting.append(lambda: self._bind(uid))
            return
        self._ask("POST", f"{pod_path(pod)}/binding", {"target": {"name": self._random.choice(nodes)}})
        self._later(self._delay(START), lambda: self._start(uid))

    def _start(self, uid: str) -> None:
        pod = self._pod(uid)
        if pod is None or pod["status"].get("phase") != "Pending" or "deletionTimestamp" in pod["metadata"]:
            return
        if self._is_on_lost_node(pod):
            self._waiting.append(lambda: self._start(uid))
        elif self.image_error:
            self._without_image[uid] = self.image_error
            self.write(pod, waiting(pod, self.image_error))
        else:
            ready = self._random.random() < 0.7
            self.write(pod, running(pod, self._now(), ready=ready))
            if not ready:
                self._later(self._delay(START), lambda: self._make_ready(uid))

    def _make_ready(self, uid: str) -> None:
        pod = self._pod(uid)
        if pod and pod["status"].get("phase") == "Running" and not self._is_on_lost_node(pod):
            self.write(pod, running(pod, self._now()))

    def _end(self, uid: str) -> None:
        pod = self._pod(uid)
        if pod is None:
            return
        if self._is_on_lost_node(pod) or self._cluster.loop.time() < self._terminations_delayed_until:
            self._waiting.append(lambda: self._end(uid))
            return
        if pod["status"].get("phase") == "Running" and self._random.random() < 0.5:
            self.write(pod, ended(pod, self._random.choice((0, 137, 143)), self._now()))
        self._ask("DELETE", pod_path(pod), {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}})

    def _taint(self, node: str) -> None:
        if node not in self._lost:
            return
        for pod in self._server.objects("pods"):
            if pod["spec"].get("nodeName") == node and "deletionTimestamp" not in pod["metadata"]:
                self.write(pod, disrupted(pod, "DeletionByTaintManager", self._now()))
                self._ask("DELETE", pod_path(pod), {"preconditions": {"uid": pod["metadata"]["uid"]}})

    def _continue(self) -> None:
        pending, self._waiting = self._waiting, []
        for call in pending:
            call()

    def _is_on_lost_node(self, pod: Object) -> bool:
        return pod["spec"].get("nodeName") in self._lost

    def _pod(self, uid: str) -> Object | None:
        location = self._server.store.find(uid)
        found = self._server.store.get(*location) if location else None
        return found.document if found else None

    def _ask(self, verb: str, path: str, body: Object) -> None:
        try:
            self._server.request(KUBELET, verb, path, body=body)
        except StatusError:
            return  # the pod is gone, or another has its name

    def _now(self) -> float:
        return self._cluster.now()

    def _delay(self, bounds: tuple[float, float]) -> float:
        low, high = bounds
        return low + (high - low) * self._random.random() ** 3

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        self._cluster.later(seconds, call)


class GangScheduler:
    """Sets the phase of each new PodGroup several times and then admits it; `random` draws when, and which phase."""

    def __init__(self, cluster: Cluster, random: Random) -> None:
        self._cluster = cluster
        self._random = random
        observe_changes(cluster.server, self._observe)

    def _observe(self, change: Change) -> None:
        if change.plural == "podgroups" and change.verb == CREATED:
            self._later(change.object["metadata"]["uid"], self._random.randrange(MAX_PHASES))

    def _later(self, uid: str, left: int) -> None:
        seconds = MIN_PHASE + (MAX_PHASE - MIN_PHASE) * self._random.random() ** 3
        self._cluster.later(seconds, self._set_phase, uid, left)

    def _set_phase(self, uid: str, left: int) -> None:
        location = self._cluster.server.store.find(uid)
        found = self._cluster.server.store.get(*location) if location else None
        if location is None or found is None:
            return
        meta, version = found.document["metadata"], found.document["apiVersion"]
        # The PodGroup of scheduler-plugins has a status subresource, Volcano's has none.
        part = "/status" if location[0].status else ""
        path = f"/apis/{version}/namespaces/{meta['namespace']}/podgroups/{meta['name']}{part}"
        phase = self._random.choice(PHASES) if left else ADMITTED
        try:
            self._cluster.server.request("scheduler", "PATCH", path, body={"status": {"phase": phase}})
        except StatusError:
            return  # it is gone
        if left:
            self._later(uid, left - 1)


class PunctualKubelet:
    """Runs every pod after a fixed time; a pod whose name ends with a key of `ends` succeeds after those seconds."""

    START, STOP = 0.3, 0.2

    def __init__(self, cluster: Cluster, ends: Mapping[str, float]) -> None:
        self._cluster = cluster
        self._ends = ends
        observe_changes(cluster.server, self._observe)

    def _observe(self, change: Change) -> None:
        if change.plural != "pods" or change.verb == DELETED:
            return
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{change.object['metadata']['name']}"
        if change.verb == CREATED:
            self._cluster.later(self.START, self._run, path)
        elif change.requests_deletion:
            known = {"uid": change.object["metadata"]["uid"]}
            self._cluster.later(self.STOP, self._ask, "DELETE", path, {"gracePeriodSeconds": 0, "preconditions": known})

    def _run(self, path: str) -> None:
        self._ask("POST", f"{path}/binding", {"target": {"name": "node-a"}})
        self._write(path, lambda pod: running(pod, self._cluster.now()))
        for suffix, seconds in self._ends.items():
            if path.endswith(suffix):
                self._cluster.later(seconds, self._write, path, lambda pod: ended(pod, 0, self._cluster.now()))

    def _write(self, path: str, status: Callable[[Object], Object]) -> None:
        pod = self._cluster.server.object(path)
        if pod is not None:  # a kubelet knows its pods, and does not read what others wrote into their status
            self._ask("PATCH", f"{path}/status", {"status": status({**pod, "status": {}})})

    def _ask(self, verb: str, path: str, body: Object) -> None:
        try:
            self._cluster.server.request(KUBELET, verb, path, body=body)
        except StatusError as error:
            if error.code not in (404, 409):  # the pod is gone, or another has its name
                raise


def pod_path(pod: Object) -> str:
    """Return the path of a pod."""
    meta = pod["metadata"]
    return f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
