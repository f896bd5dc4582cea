"""The steps in which users create, change and delete jobs, and interfere with the objects of jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.audit.api_fields import INDEX, ROLE, owner, recorded
from support.audit.change import USER
from trainshed.api import parse
from trainshed.api.framework import JobDefaults
from trainshed.frameworks import served
from trainshed.memory.errors import StatusError
from trainshed.memory.versioned_store import merge_patch

from .cluster import NAMESPACE, Cluster
from .schedule import SCOPE, SERVICES, JobRequest, Step, patch

Object = dict[str, Any]
CORE = f"/api/v1/namespaces/{NAMESPACE}"
JOB = "training.kubeflow.org/job-name"
QUOTA = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "0"}}}
#: The prefix and the plural of everything that jobs own.
OWNED = (
    *(("/api/v1", plural) for plural in ("pods", "services", "configmaps", "secrets", "serviceaccounts")),
    *(("/apis/rbac.authorization.k8s.io/v1", plural) for plural in ("roles", "rolebindings")),
    ("/apis/autoscaling/v2", "horizontalpodautoscalers"),
    ("/apis/scheduling.volcano.sh/v1beta1", "podgroups"),
    ("/apis/scheduling.x-k8s.io/v1alpha1", "podgroups"),
)
FORGED_STATUS: dict[str, Object] = {
    "restarts": {"restarts": 1},
    "verdict": {"conditions": [{"type": "Failed", "status": "True", "reason": "Forged", "message": "forged"}]},
    "attempts": {"attempts": {"Worker": 7, "Master": "many"}},
    "done": {"replicaStatuses": {"Worker": {"completedIndexes": "0-99999,x"}}},
}


class Users:
    """Executes the steps of users; requests that the server refuses are ignored."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._requests: dict[str, JobRequest] = {}
        self.handlers: dict[str, Callable[[Step], None]] = {
            "create": self._create,
            "set field": lambda step: self._patch_job(step, patch(*step.how)),
            "set scope": lambda step: self._patch_job(step, {"metadata": {"annotations": {SCOPE: step.how}}}),
            "set services": lambda step: self._patch_job(step, {"metadata": {"annotations": {SERVICES: step.how}}}),
            "delete job": self._delete,
            "recreate job": self._recreate,
            "delete pod": lambda step: self._remove("pods", step),
            "delete service": lambda step: self._remove("services", step),
            "delete namespace": lambda _: self._delete_namespace(),
            "forge status": self._forge_status,
            "remove metadata": self._remove_metadata,
            "occupy name": self._occupy_name,
            "delete foreign objects": lambda _: self.delete_foreign_objects(),
            "create foreign pod": self._create_foreign_pod,
            "change record": self._change_record,
            "quota": self._quota,
            "no quota": lambda _: self.remove_quota(),
        }

    def jobs(self) -> list[tuple[JobRequest, Object]]:
        """Return the jobs that exist, each with its request."""
        requests = self._requests.values()
        found = ((job, self._cluster.server.object(f"{job.path}/{job.name}")) for job in requests)
        return [(request, job) for request, job in found if job is not None]

    def delete_foreign_objects(self) -> None:
        """Delete objects that occupy names of jobs, and objects of jobs that have lost their labels or owner."""
        for prefix, plural in OWNED:
            for found in self._cluster.server.objects(plural, NAMESPACE):
                labels = found["metadata"].get("labels", {})
                if recorded(found):
                    continue  # it is of a job, which does not control it
                path = f"{prefix}/namespaces/{NAMESPACE}/{plural}/{found['metadata']['name']}"
                if owner(found) and found["metadata"].get("finalizers"):
                    name = found["metadata"]["ownerReferences"][0]["name"]
                    self._ask(
                        "PATCH", path, {"metadata": {"labels": {JOB: name}}}
                    )  # the operator removes the finalizer
                elif not owner(found) or JOB not in labels or (plural == "pods" and ROLE not in labels):
                    self._ask("DELETE", path, {"gracePeriodSeconds": 0})

    def remove_quota(self) -> None:
        """Delete the quota."""
        self._ask("DELETE", f"{CORE}/resourcequotas/few")

    def make_namespace(self) -> None:
        """Create the namespace, if it does not exist."""
        self._ask("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})

    # ------------------------------------------------------------------------------------------------------------------

    def _create(self, step: Step) -> None:
        request: JobRequest = step.how
        self._requests[request.name] = request
        self._ask("POST", request.path, request.document())

    def _delete(self, step: Step) -> None:
        if found := _selected(self.jobs(), step):
            self._ask("DELETE", f"{found[0].path}/{found[0].name}", {"propagationPolicy": step.how})

    def _recreate(self, step: Step) -> None:
        """Delete a job and create it again under its name, as soon as the name is free."""
        request = _selected(list(self._requests.values()), step)
        if request is None:
            return
        self._ask("DELETE", f"{request.path}/{request.name}", {"propagationPolicy": step.how})
        if not self._ask("POST", request.path, request.document()):
            self._cluster.later(3.0, self._ask, "POST", request.path, request.document())

    def _remove(self, plural: str, step: Step) -> None:
        if found := _selected(self._cluster.server.objects(plural, NAMESPACE), step):
            grace = {} if step.how is None else {"gracePeriodSeconds": step.how}
            self._ask("DELETE", f"{CORE}/{plural}/{found['metadata']['name']}", grace)

    def _delete_namespace(self) -> None:
        """Delete the namespace with its content, and create it again once it is gone."""
        self._ask("DELETE", f"/api/v1/namespaces/{NAMESPACE}")
        for seconds in (5.0, 60.0):
            self._cluster.later(seconds, self.make_namespace)

    def _forge_status(self, step: Step) -> None:
        found = _selected(self.jobs(), step)
        if found is None:
            return
        request, job = found
        status = FORGED_STATUS.get(step.how) or dict.fromkeys(job.get("status", {}))
        self._ask("PATCH", f"{request.path}/{request.name}/status", {"status": status})

    def _remove_metadata(self, step: Step) -> None:
        what = {"labels": {"labels": None}, "owner": {"ownerReferences": None}, "index": {"labels": {INDEX: "77"}}}
        if found := _selected(self._cluster.server.objects("pods", NAMESPACE), step):
            self._ask("PATCH", f"{CORE}/pods/{found['metadata']['name']}", {"metadata": what[step.how]})

    def _occupy_name(self, step: Step) -> None:
        """Create an object with a name that a job may need, with the job's labels or without."""
        request = _selected(list(self._requests.values()), step)
        if request is None:
            return
        role, count = request.roles[step.which % len(request.roles)]
        name = f"{request.name}-{role.lower()}-{step.which % (count + 1)}"
        labels = {JOB: request.name, ROLE: role.lower()} if step.which % 2 else {}
        self._make(step.how, {"name": name, "labels": labels})

    def _create_foreign_pod(self, step: Step) -> None:
        """Create a pod with the labels and the owner of a job's pods."""
        found = _selected(self.jobs(), step)
        if found is None:
            return
        request, job = found
        role = request.roles[step.which % len(request.roles)][0].lower()
        index = str(step.which % 4)
        own = {"apiVersion": job["apiVersion"], "kind": job["kind"], "controller": True}
        references = [{**own, "name": request.name, "uid": job["metadata"]["uid"]}]
        labels = {JOB: request.name, ROLE: role, INDEX: index}
        self._make("pods", {"name": f"{request.name}-{role}-{index}", "labels": labels, "ownerReferences": references})

    def _change_record(self, step: Step) -> None:
        """Delete the decisions about a job, or add something to them."""
        rings = [one for one in self._cluster.server.objects("configmaps", NAMESPACE) if recorded(one)]
        if found := _selected(rings, step):
            change = {"binaryData": {"part-00000077": "AAAA"}} if step.how == "change" else {}
            path = f"{CORE}/configmaps/{found['metadata']['name']}"
            self._ask("PATCH" if change else "DELETE", path, change)

    def _make(self, plural: str, metadata: Object) -> None:
        pod = {"containers": [{"name": "main", "image": "x"}]}
        spec = pod if plural == "pods" else {"clusterIP": "None", "ports": [{"port": 80}]}
        self._ask("POST", f"{CORE}/{plural}", {"metadata": metadata, "spec": spec})

    def _quota(self, step: Step) -> None:
        quota = {**QUOTA, "spec": {"hard": {"pods": str(step.how)}}}
        if not self._ask("PATCH", f"{CORE}/resourcequotas/few", quota):
            self._ask("POST", f"{CORE}/resourcequotas", quota)

    def _patch_job(self, step: Step, change: Object) -> None:
        """Change a job, unless the real server would refuse it by a CEL rule of the CRD."""
        found = _selected(self.jobs(), step)
        if found is None:
            return
        request, job = found
        framework = next(iter(served(request.version, (request.kind,))))
        if not parse.job(merge_patch(job, change), framework, JobDefaults()).problems:
            self._ask("PATCH", f"{request.path}/{request.name}", change)

    def _ask(self, verb: str, path: str, body: Object | None = None) -> bool:
        try:
            self._cluster.server.request(USER, verb, path, body=body or {})
        except StatusError:
            return False
        return True


def _selected(found: list[Any], step: Step) -> Any:
    return found[step.which % len(found)] if found else None
