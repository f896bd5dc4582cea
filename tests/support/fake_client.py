"""A client of an API server for the unit tests of the controller, which keeps its objects as the operator reads them.

`trainshed/memory/server.py` is a whole API server. Here tests say which watch events have arrived and which call of the
client fails.
"""

from __future__ import annotations

import copy
from datetime import datetime, timedelta

from support.builders import T0
from support.replace import replace
from trainshed.api.actions import CreatePod
from trainshed.api.framework import Framework
from trainshed.api.objects import Container, Dependent, Phase, Pod, Resource, Service
from trainshed.client import Conflict, Forbidden, LabelRemoved, NameConflict, NotFound
from trainshed.frameworks import FRAMEWORKS
from trainshed.memory.store import merge_patch

LABEL = "training.kubeflow.org/"
KINDS = {framework.kind: framework for framework in FRAMEWORKS}


class World:
    """Implements `trainshed.client.Client`. `writes` names all writes, `made` the pods that were created."""

    def __init__(self) -> None:
        self.now = T0
        self.version = 100
        self.jobs: dict[tuple[str, str], dict] = {}
        self.pods: dict[str, Pod] = {}
        self.services: dict[str, Service] = {}
        self.dependents: dict[tuple[Resource, str], Dependent] = {}
        self.secrets: dict[str, dict] = {}
        self.writes: list[str] = []
        self.made: list[str] = []
        self.name_conflicts, self.hidden = set[str](), set[str]()
        self.quota = 10_000
        self.scheduler_events: list[dict] = []
        self.event_reads: list[tuple[str, str]] = []
        self._news: list[tuple[str, str, object]] = []

    # Users -----------------------------------------------------------------------------------------------------------

    def submit(
        self, kind: str, name: str, spec: dict, annotations: dict | None = None, created: datetime | None = None
    ) -> None:
        """Create a job; without a time it is so old that it is read before its pods are created."""
        uid = f"{name}-uid-{self._tick()}"
        metadata = {"namespace": "ml", "name": name, "uid": uid, "generation": 1, "annotations": annotations or {}}
        if created:
            metadata["creationTimestamp"] = created.strftime("%Y-%m-%dT%H:%M:%SZ")
        self._store_job({"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": metadata, "spec": spec})

    def edit(self, kind: str, name: str, change) -> None:
        """Change a job's spec."""
        job = copy.deepcopy(self.jobs[kind, name])
        change(job["spec"])
        job["metadata"]["generation"] += 1
        self._store_job(job)

    def touch(self, kind: str, name: str) -> None:
        """Give a job a new version and change nothing else."""
        self._store_job(copy.deepcopy(self.jobs[kind, name]))

    def hide(self, name: str) -> None:
        """Remove the labels of a pod: the watch that selects by them reports a deletion."""
        self.hidden.add(name)
        self._news.append(("removed", "pods", self.pods[name]))

    # Nodes -----------------------------------------------------------------------------------------------------------

    def set_pod(self, name: str, phase: str, *, code: int | None = None, **fields) -> None:
        """Set the phase of a pod; `code` is the exit code of its container."""
        pod = self.pods[name]
        finished = self.now if code is not None else None
        started = self.now if pod.phase is Phase.PENDING else pod.containers[0].started
        own = Container(pod.containers[0].name, exit_code=code, started=started, finished=finished)
        ready = fields.pop("ready", phase == "Running")
        self._put_pod(pod, phase=Phase(phase), ready=ready, containers=(own,), **fields)

    def confirm_deletion(self, name: str) -> None:
        """End the deletion of a pod as the kubelet does; one with the finalizer of the operator stays as an object."""
        pod = self.pods[name]
        if pod.has_finalizer:
            ended = (replace(pod.containers[0], exit_code=137, finished=self.now),)
            rest = {} if pod.over else {"phase": Phase.FAILED, "ready": False, "containers": ended}
            self._put_pod(pod, **{"deleting": True, "deletion_timestamp": self.now, "grace": 0} | rest)
            return
        self._news.append(("removed", "pods", self._renewed(self.pods.pop(name))))

    def news(self) -> list[tuple[str, str, object]]:
        """Return the watch events since the last call: the method of the store, the kind and the object."""
        events, self._news = self._news, []
        return events

    # The operator ----------------------------------------------------------------------------------------------------

    async def read_job(self, framework: Framework, _namespace: str, name: str) -> dict | None:
        return copy.deepcopy(self.jobs.get((framework.kind, name)))

    async def read_pods(self, _namespace: str, job: str) -> tuple[list[Pod], str]:
        return [pod for pod in self.pods.values() if pod.job == job], str(self.version)

    async def seek_pod(self, _namespace: str, name: str, owner: str) -> None:
        if name in self.hidden and name in self.pods and self.pods[name].owner == owner:
            raise LabelRemoved(f"pod {name} has lost its label", self.pods[name])

    async def read_events(self, _namespace: str, kind: str, uid: str) -> list[dict]:
        self.event_reads.append((kind, uid))
        return self.scheduler_events

    async def store_status(self, framework: Framework, _namespace: str, name: str, patch: dict) -> dict:
        self.writes.append(f"status {name}")
        job = copy.deepcopy(self.jobs.get((framework.kind, name)))
        if job is None or job["metadata"]["uid"] != patch["metadata"]["uid"]:
            raise NotFound(name)
        if job["metadata"]["resourceVersion"] != patch["metadata"]["resourceVersion"]:
            raise Conflict(name)
        job["status"] = merge_patch(job.get("status", {}), patch["status"])
        self._store_job(job)
        return copy.deepcopy(self.jobs[framework.kind, name])

    async def delete_job(self, framework: Framework, _namespace: str, name: str, uid: str, version: str) -> None:
        self.writes.append(f"delete job {name}")
        job = self.jobs.get((framework.kind, name))
        if job is None:
            raise NotFound(name)
        if (uid, version) != (job["metadata"]["uid"], job["metadata"]["resourceVersion"]):
            raise Conflict(name)
        del self.jobs[framework.kind, name]
        job["metadata"]["resourceVersion"] = str(self._tick())
        self._news.append(("removed", framework.kind, job))
        for pod in [pod for pod in self.pods.values() if pod.owner == uid]:
            self._begin_to_go(pod, 30)

    async def create_pod(self, _namespace: str, wanted: CreatePod) -> Pod:
        body = wanted.body
        meta = body["metadata"]
        self.writes.append(f"create pod {meta['name']}")
        there = self.pods.get(meta["name"])
        if meta["name"] in self.name_conflicts or (there and there.owner != meta["ownerReferences"][0]["uid"]):
            raise NameConflict(meta["name"])
        if there is None and len(self.pods) >= self.quota:
            raise Forbidden("exceeded quota", "QuotaExceeded")
        if there is None:
            self.made.append(meta["name"])
            container = Container(body["spec"]["containers"][0]["name"])
            attempt = int(meta["annotations"]["trainshed.dev/restart-attempt"])
            fields = {"attempt": attempt, "phase": Phase.PENDING, "containers": (container,), "created": self.now}
            fields["owner_kind"] = meta["ownerReferences"][0]["kind"]
            fields["has_finalizer"] = "trainshed.dev/job-tracking" in meta.get("finalizers", ())
            pod = Pod(**_identity(meta, str(self._tick())), **fields)
            self.pods[pod.name] = pod
            self._news.append(("changed", "pods", pod))
        return self.pods[meta["name"]]

    async def create_service(self, _namespace: str, body: dict) -> Service:
        meta = body["metadata"]
        self.writes.append(f"create service {meta['name']}")
        if meta["name"] not in self.services:
            self.services[meta["name"]] = Service(**_identity(meta, str(self._tick())))
            self._news.append(("changed", "services", self.services[meta["name"]]))
        return self.services[meta["name"]]

    async def create_secret(self, _namespace: str, body: dict) -> None:
        name = body["metadata"]["name"]
        self.writes.append(f"create secret {name}")
        self.secrets.setdefault(name, copy.deepcopy(body))

    async def create_dependent(self, resource: Resource, _namespace: str, body: dict) -> Dependent:
        name, owner = body["metadata"]["name"], body["metadata"]["ownerReferences"][0]["uid"]
        job = body["metadata"].get("labels", {}).get("training.kubeflow.org/job-name", "")
        self.writes.append(f"create {resource.plural} {name}")
        if (resource, name) not in self.dependents:
            version = str(self._tick())
            found = Dependent(resource, name, f"{name}-{version}", version, owner, "ml", job, copy.deepcopy(body))
            self.dependents[resource, name] = found
            self._news.append(("changed", resource, found))
        return self.dependents[resource, name]

    async def update_dependent(self, resource: Resource, _namespace: str, name: str, patch: dict) -> Dependent:
        self.writes.append(f"patch {resource.plural} {name}")
        found = self.dependents[resource, name]
        document, version = merge_patch(found.document, patch), str(self._tick())
        label = document["metadata"].get("labels", {}).get("training.kubeflow.org/job-name", "")
        self.dependents[resource, name] = replace(found, version=version, job=label, document=document)
        return self.dependents[resource, name]

    async def delete_dependent(self, resource: Resource, _namespace: str, name: str, uid: str) -> Dependent | None:
        self.writes.append(f"delete {resource.plural} {name}")
        found = self.dependents.get((resource, name))
        if found is not None and found.uid == uid:
            del self.dependents[resource, name]
            self._news.append(("removed", resource, self._renewed(found)))
        return None

    async def delete_pod(self, _namespace: str, name: str, uid: str, grace: int | None, version: str) -> Pod | None:
        self.writes.append(f"delete pod {name}")
        pod = self.pods.get(name)
        if pod is None or pod.uid != uid:
            return None
        if version not in ("", pod.version):
            raise Conflict(name)
        self._begin_to_go(pod, 30 if grace is None else grace)
        return self.pods.get(name)

    async def release_pod(self, _namespace: str, name: str, patch: dict) -> Pod | None:
        self.writes.append(f"release pod {name}")
        pod, meta = self.pods.get(name), patch["metadata"]
        if pod is None or pod.uid != meta["uid"] or pod.version != meta["resourceVersion"]:
            raise Conflict(name)
        self._put_pod(pod, has_finalizer=False)
        if pod.deleting and not pod.grace:
            self.confirm_deletion(name)
        return self.pods.get(name)

    async def delete_service(self, _namespace: str, name: str, uid: str) -> Service | None:
        self.writes.append(f"delete service {name}")
        service = self.services.get(name)
        if service is not None and service.uid == uid:
            self._news.append(("removed", "services", self._renewed(self.services.pop(name))))
        return None

    def is_busy(self) -> bool:
        return False

    async def create_event(self, _namespace: str, body: dict) -> None:
        self.writes.append(f"event {body['reason']}")

    def _begin_to_go(self, pod: Pod, grace: int) -> None:
        """Begin to delete a pod; a second deletion may shorten the grace period of a running pod, not lengthen it."""
        if pod.phase is not Phase.RUNNING or not grace:
            self.confirm_deletion(pod.name)
            return
        deletion_timestamp = self.now + timedelta(seconds=grace)
        if not pod.deleting or (pod.deletion_timestamp and deletion_timestamp < pod.deletion_timestamp):
            self._put_pod(pod, deleting=True, deletion_timestamp=deletion_timestamp, grace=grace)

    def _put_pod(self, pod: Pod, **fields) -> None:
        self.pods[pod.name] = self._renewed(pod, **fields)
        self._news.append(("changed", "pods", self.pods[pod.name]))

    def _renewed(self, item, **fields):
        return replace(item, version=str(self._tick()), **fields)

    def _store_job(self, job: dict) -> None:
        job["metadata"]["resourceVersion"] = str(self._tick())
        self.jobs[job["kind"], job["metadata"]["name"]] = job
        self._news.append(("changed", job["kind"], copy.deepcopy(job)))

    def _tick(self) -> int:
        self.version += 1
        return self.version


def _identity(meta: dict, version: str) -> dict:
    """The fields of a pod or a Service that is created with this metadata."""
    labels = meta["labels"]
    return {
        "name": meta["name"],
        "uid": f"{meta['name']}-{version}",
        "version": version,
        "owner": meta["ownerReferences"][0]["uid"],
        "namespace": "ml",
        "job": labels[f"{LABEL}job-name"],
        "role": labels.get(f"{LABEL}replica-type", ""),
        "index": int(labels.get(f"{LABEL}replica-index", -1)),
    }
