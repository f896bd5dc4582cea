"""The cluster of the unit tests of the controller: the server in memory with the client that operators use.

What users and nodes do there happens at once. A test lets a call fail (`fail`, `lose_response`), or puts a function of
its own in the place of a method of the client.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from support import pod_statuses
from support.builders import FRAMEWORKS as KINDS
from support.builders import T0
from trainshed.api import gang
from trainshed.api.objects import COSCHEDULING_GROUPS, VOLCANO_GROUPS, Dependent, Pod
from trainshed.api.objects import Resource as Kind
from trainshed.client import Unavailable
from trainshed.client.client import ApiClient
from trainshed.client.flow_control import TokenBucket
from trainshed.client.lists import PODS, dependent_decoder
from trainshed.client.transport import Request, RestClient
from trainshed.frameworks import FRAMEWORKS
from trainshed.memory import built_in
from trainshed.memory.garbage_collector import GarbageCollector
from trainshed.memory.in_process import MemoryTransport
from trainshed.memory.resources import ServedResource
from trainshed.memory.server import Server
from trainshed.memory.versioned_store import Commit

NAMESPACE, OPERATOR, USER, NODE = "ml", "operator", "user", "node-0"
GROUPS = (VOLCANO_GROUPS, COSCHEDULING_GROUPS, *gang.OPTIONAL)
#: What objects are called in `writes`, and verbs.
WORDS = {"pods": "pod", "services": "service", "secrets": "secret"}
WORDS |= dict.fromkeys((framework.plural for framework in FRAMEWORKS), "job")
VERBS = {"POST": "create", "PATCH": "patch", "DELETE": "delete"}


class World:
    """Implements `trainshed.client.Client`.

    `writes` names all writes of the operator, `reads` has the paths of its reads, `made` the pods that it has created;
    `event_reads` counts its lists of Events. `now` is the time.
    """

    def __init__(self) -> None:
        self.now = T0
        groups = (ServedResource(kind.prefix, kind.plural, kind.kind, status=True) for kind in GROUPS)
        jobs = (built_in.job_resource(framework) for framework in FRAMEWORKS)
        self.server = Server(self._time, (*built_in.BUILT_IN, *groups, *jobs))
        self.rest = RestClient(MemoryTransport(self.server, OPERATOR))
        self.client = ApiClient(self.rest, TokenBucket())
        self.writes: list[str] = []
        self.reads: list[str] = []
        self.made: list[str] = []
        self.event_reads = 0
        self._collector = GarbageCollector(self.server)
        self.server.make_namespace(NAMESPACE)
        self.server.listeners.append(self._on_request)
        self.server.store.listeners.append(self._on_commit)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    def fail(self, verb: str, error: Exception, times: int = 1) -> None:
        """Let the next calls of a method of the client fail, before they are sent."""
        call, left = getattr(self, verb), [error] * times

        async def failing(*arguments: object) -> object:
            if left:
                raise left.pop()
            return await call(*arguments)

        setattr(self, verb, failing)

    def lose_response(self, verb: str) -> None:
        """Let the next call of a method of the client fail after it has been executed."""
        call, lost = getattr(self, verb), []

        async def losing(*arguments: object) -> object:
            answer = await call(*arguments)
            if not lost:
                lost.append(answer)
                raise Unavailable("the response was lost")
            return answer

        setattr(self, verb, losing)

    # Objects ---------------------------------------------------------------------------------------------------------

    @property
    def pods(self) -> dict[str, Pod]:
        """The pods by name, as the operator reads them."""
        stored = self.server.store.table(built_in.PODS).values()
        return {pod.name: pod for pod in (PODS.item(found.raw) for found in stored)}

    def names(self, plural: str) -> list[str]:
        return [found["metadata"]["name"] for found in self.server.objects(plural)]

    def get(self, what: str | Kind, name: str = "mnist") -> dict | None:
        """Return an object, None if there is none; `what` is its kind of dependent or its plural."""
        return self.server.object(self._path(what, name))

    def dependent(self, kind: Kind, name: str = "mnist") -> Dependent:
        """Return a dependent, as the operator reads it."""
        return dependent_decoder(kind).item(json.dumps(self.get(kind, name)).encode())

    # Users -----------------------------------------------------------------------------------------------------------

    def submit(
        self, kind: str, name: str, spec: dict, annotations: dict | None = None, created: datetime | None = None
    ) -> None:
        """Create a job; without a time it is so old that it is read before its pods are created."""
        now, self.now = self.now, created or self.now - timedelta(minutes=1)
        self.create(KINDS[kind].plural, {"metadata": {"name": name, "annotations": annotations or {}}, "spec": spec})
        self.now = now

    def create(self, what: str | Kind, body: dict) -> dict:
        return self.server.request(USER, "POST", self._path(what), body=body)

    def replace(self, what: str | Kind, name: str, change: Callable[[dict], object], part: str = "") -> None:
        body = copy.deepcopy(self.get(what, name))
        change(body)
        self.server.request(USER, "PUT", self._path(what, name, part), body=body)

    def patch(self, what: str | Kind, name: str, metadata: dict) -> None:
        self.server.request(USER, "PATCH", self._path(what, name), body={"metadata": metadata})

    def delete(self, what: str | Kind, name: str = "mnist", grace: int | None = None) -> None:
        """Delete an object and what it owns."""
        options = {} if grace is None else {"gracePeriodSeconds": grace}
        self.server.request(USER, "DELETE", self._path(what, name), body=options)
        self.collect_garbage()

    def collect_garbage(self) -> None:
        """Delete what has no owner any more."""
        self._collector.run()

    def edit(self, kind: str, name: str, change: Callable[[dict], object]) -> None:
        self.replace(KINDS[kind].plural, name, lambda job: change(job["spec"]))

    def touch(self, kind: str, name: str) -> None:
        """Give a job a new version and change nothing that matters."""
        self.patch(KINDS[kind].plural, name, {"labels": {"version": str(self.server.store.version)}})

    def hide(self, name: str) -> None:
        """Remove the labels of a pod: the watch that selects by them reports a deletion."""
        self.patch("pods", name, {"labels": None})

    def set_quota(self, pods: int) -> None:
        """Allow this number of pods in the namespace."""
        if self.get("resourcequotas", "pods"):
            self.delete("resourcequotas", "pods")
        self.create("resourcequotas", {"metadata": {"name": "pods"}, "spec": {"hard": {"pods": str(pods)}}})

    def take_name(self, name: str) -> None:
        """Create a pod of this name that no job owns."""
        self.create("pods", {"metadata": {"name": name}, "spec": {"containers": [{"name": "other", "image": "x"}]}})

    # Nodes -----------------------------------------------------------------------------------------------------------

    def set_pod(self, name: str, phase: str, *, code: int | None = None, ready: bool = True) -> None:
        """Set the phase of a pod; `code` is the exit code of its container."""
        pod = self.get("pods", name)
        if not pod["spec"].get("nodeName"):
            pod = self.server.registry.bind(NAMESPACE, name, NODE).document
        now = self.now.timestamp()
        if phase == "Pending":
            status = pod_statuses.waiting(pod, "ContainerCreating")
        elif phase == "Running":
            status = pod_statuses.running(pod, now, ready=ready)
        else:
            status = pod_statuses.ended(pod, code or 0, now)
        status = {**pod["status"], **status, "phase": phase}
        self.server.request(USER, "PUT", self._path("pods", name, "status"), body={**pod, "status": status})

    def confirm_deletion(self, name: str) -> None:
        """End the deletion of a pod as the kubelet does; one with the finalizer of the operator stays as an object."""
        if not self.pods[name].over:
            self.set_pod(name, "Failed", code=137)
        self.delete("pods", name, 0)

    def _path(self, what: str | Kind, name: str = "", part: str = "") -> str:
        plural, prefix = (what, "") if isinstance(what, str) else (what.plural, what.prefix)
        prefix = prefix or next(found.prefix for found in self.server.resources.all if found.plural == plural)
        return "/".join(filter(None, (f"{prefix}/namespaces/{NAMESPACE}/{plural}", name, part)))

    def _time(self) -> float:
        return self.now.timestamp()

    def _on_request(self, actor: str, request: Request, _status: int) -> None:
        plural, *names = request.path.partition(f"/namespaces/{NAMESPACE}/")[2].split("/")
        if actor == OPERATOR and request.verb == "GET":
            self.reads.append(request.path)
            self.event_reads += plural == "events"
        elif actor == OPERATOR:
            self.writes.append(_description(request, plural, names))

    def _on_commit(self, commit: Commit) -> None:
        if commit.before is None and commit.resource is built_in.PODS and self.server.actor == OPERATOR:
            self.made.append(commit.after.document["metadata"]["name"])


def _description(request: Request, plural: str, names: list[str]) -> str:
    """Return a write of the operator in words."""
    body = json.loads(request.body or b"{}")
    if plural == "events" and request.verb == "POST":
        return f"event {body['reason']}"
    if "status" in names[1:]:
        return f"status {names[0]}"
    verb = "release" if plural == "pods" and request.verb == "PATCH" else VERBS[request.verb]
    return f"{verb} {WORDS.get(plural, plural)} {names[0] if names else body['metadata']['name']}"
