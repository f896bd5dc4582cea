"""What users do: make jobs, change their minds, clean up after themselves; and some who do what nobody should."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.audit.change import USER
from support.audit.words import INDEX, ROLE, owner
from trainshed.api import parse
from trainshed.api.framework import JobDefaults
from trainshed.frameworks import served

from . import orders
from .answers import Refusal
from .merge import merged
from .orders import Order
from .schedule import Step
from .stage import NAMESPACE, Stage

Object = dict[str, Any]
CORE = f"/api/v1/namespaces/{NAMESPACE}"
JOB = "training.kubeflow.org/job-name"
QUOTA = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "0"}}}
#: What jobs own, and where it is.
OWNED = (
    *(("/api/v1", plural) for plural in ("pods", "services", "configmaps", "secrets", "serviceaccounts")),
    *(("/apis/rbac.authorization.k8s.io/v1", plural) for plural in ("roles", "rolebindings")),
    ("/apis/autoscaling/v2", "horizontalpodautoscalers"),
    ("/apis/scheduling.volcano.sh/v1beta1", "podgroups"),
    ("/apis/scheduling.x-k8s.io/v1alpha1", "podgroups"),
)
#: What somebody forges into a status.
FORGERIES: dict[str, Object] = {
    "restarts": {"restarts": 1},
    "verdict": {"conditions": [{"type": "Failed", "status": "True", "reason": "Forged", "message": "so it is"}]},
    "attempts": {"attempts": {"Worker": 7, "Master": "many"}},
    "done": {"replicaStatuses": {"Worker": {"completedIndexes": "0-99999,x"}}},
}


class Users:
    """Those who may write jobs and more; what the server refuses them they take for an answer."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._orders: dict[str, Order] = {}
        self.deeds: dict[str, Callable[[Step], None]] = {
            "create": self._create,
            "set": self._set,
            "annotate": self._annotate,
            "delete": self._delete,
            "begin anew": self._begin_anew,
            "delete pod": lambda step: self._remove("pods", step),
            "delete service": lambda step: self._remove("services", step),
            "end namespace": lambda _: self._end_namespace(),
            "forge": self._forge,
            "strip": self._strip,
            "squat": self._squat,
            "leave": lambda _: self.leave(),
            "impersonate": self._impersonate,
            "quota": self._quota,
            "no quota": lambda _: self.lift_quota(),
        }

    def jobs(self) -> list[tuple[Order, Object]]:
        """The jobs that are there, each as it was ordered and as it is."""
        found = ((order, self._stage.server.object(f"{order.path}/{order.name}")) for order in self._orders.values())
        return [(order, job) for order, job in found if job is not None]

    def leave(self) -> None:
        """Whoever took a name of ours goes, and so does whatever was made unrecognizable."""
        for prefix, plural in OWNED:
            for found in self._stage.server.objects(plural, NAMESPACE):
                labels = found["metadata"].get("labels", {})
                where = f"{prefix}/namespaces/{NAMESPACE}/{plural}/{found['metadata']['name']}"
                if owner(found) and found["metadata"].get("finalizers"):
                    name = found["metadata"]["ownerReferences"][0]["name"]
                    self._ask("PATCH", where, {"metadata": {"labels": {JOB: name}}})  # its operator lets go of it
                elif not owner(found) or JOB not in labels or (plural == "pods" and ROLE not in labels):
                    self._ask("DELETE", where, {"gracePeriodSeconds": 0})

    def lift_quota(self) -> None:
        """There is no quota any more."""
        self._ask("DELETE", f"{CORE}/resourcequotas/few")

    # ------------------------------------------------------------------------------------------------------------------

    def _create(self, step: Step) -> None:
        order: Order = step.how
        self._orders[order.name] = order
        self._ask("POST", order.path, order.document())

    def _set(self, step: Step) -> None:
        self._patch_job(step, orders.patch(*step.how))

    def _annotate(self, step: Step) -> None:
        self._patch_job(step, {"metadata": {"annotations": {orders.SCOPE: step.how}}})

    def _delete(self, step: Step) -> None:
        if found := _one(self.jobs(), step):
            self._ask("DELETE", f"{found[0].path}/{found[0].name}", {"propagationPolicy": step.how})

    def _begin_anew(self, step: Step) -> None:
        """Delete a job and make it again under its name, as soon as that is free."""
        known = list(self._orders.values())
        if not known:
            return
        order = known[step.which % len(known)]
        self._ask("DELETE", f"{order.path}/{order.name}", {"propagationPolicy": step.how})
        if not self._ask("POST", order.path, order.document()):
            self._stage.later(3.0, self._ask, "POST", order.path, order.document())

    def _remove(self, plural: str, step: Step) -> None:
        if found := _one(self._stage.server.objects(plural, NAMESPACE), step):
            grace = {} if step.how is None else {"gracePeriodSeconds": step.how}
            self._ask("DELETE", f"{CORE}/{plural}/{found['metadata']['name']}", grace)

    def _end_namespace(self) -> None:
        """Delete the namespace with all that is in it, and make it again once it is gone."""
        self._ask("DELETE", f"/api/v1/namespaces/{NAMESPACE}")
        for seconds in (5.0, 60.0):
            self._stage.later(seconds, self.make_namespace)

    def make_namespace(self) -> None:
        """Make the namespace, if it is not there."""
        self._ask("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})

    def _forge(self, step: Step) -> None:
        found = _one(self.jobs(), step)
        if found is None:
            return
        order, job = found
        status = FORGERIES.get(step.how) or dict.fromkeys(job.get("status", {}))
        self._ask("PATCH", f"{order.path}/{order.name}/status", {"status": status})

    def _strip(self, step: Step) -> None:
        what = {"labels": {"labels": None}, "owner": {"ownerReferences": None}, "index": {"labels": {INDEX: "77"}}}
        if found := _one(self._stage.server.objects("pods", NAMESPACE), step):
            self._ask("PATCH", f"{CORE}/pods/{found['metadata']['name']}", {"metadata": what[step.how]})

    def _squat(self, step: Step) -> None:
        """Take a name that a job may need; with labels like ours, or without."""
        if not self._orders:
            return
        order = list(self._orders.values())[step.which % len(self._orders)]
        role, count = order.roles[step.which % len(order.roles)]
        name = f"{order.name}-{role.lower()}-{step.which % (count + 1)}"
        labels = {JOB: order.name, ROLE: role.lower()} if step.which % 2 else {}
        self._make(step.how, {"name": name, "labels": labels})

    def _impersonate(self, step: Step) -> None:
        """Make a pod that says that it is a job's."""
        found = _one(self.jobs(), step)
        if found is None:
            return
        order, job = found
        role = order.roles[step.which % len(order.roles)][0].lower()
        index = str(step.which % 4)
        own = {"apiVersion": job["apiVersion"], "kind": job["kind"], "controller": True}
        references = [{**own, "name": order.name, "uid": job["metadata"]["uid"]}]
        labels = {JOB: order.name, ROLE: role, INDEX: index}
        self._make("pods", {"name": f"{order.name}-{role}-{index}", "labels": labels, "ownerReferences": references})

    def _make(self, plural: str, metadata: Object) -> None:
        pod = {"containers": [{"name": "main", "image": "x"}]}
        spec = pod if plural == "pods" else {"clusterIP": "None", "ports": [{"port": 80}]}
        self._ask("POST", f"{CORE}/{plural}", {"metadata": metadata, "spec": spec})

    def _quota(self, step: Step) -> None:
        quota = {**QUOTA, "spec": {"hard": {"pods": str(step.how)}}}
        if not self._ask("PATCH", f"{CORE}/resourcequotas/few", quota):
            self._ask("POST", f"{CORE}/resourcequotas", quota)

    def _patch_job(self, step: Step, patch: Object) -> None:
        """Change a job, unless that is what the server refuses by the CEL rules of the CRD."""
        found = _one(self.jobs(), step)
        if found is None:
            return
        order, job = found
        framework = next(iter(served(order.version, (order.kind,))))
        if not parse.job(merged(job, patch), framework, JobDefaults()).problems:
            self._ask("PATCH", f"{order.path}/{order.name}", patch)

    def _ask(self, verb: str, path: str, body: Object | None = None) -> bool:
        try:
            self._stage.server.request(USER, verb, path, body=body or {})
        except Refusal:
            return False
        return True


def _one(found: list[Any], step: Step) -> Any:
    return found[step.which % len(found)] if found else None
