"""Objects by which the operators of a cluster are recognized: Deployments, ClusterRoleBindings and webhooks."""

from __future__ import annotations

V1, OWN = "kubeflow/training-operator:v1-1", "ghcr.io/trainshed/trainshed:1"
LABELS = {"control-plane": "kubeflow-training-operator"}


def deployment(image=V1, *, pods=1, ready=None, name="training-operator", labels=None, beside=(), **container) -> dict:
    """A Deployment in namespace kubeflow, with the service account `default`."""
    containers = [*beside, {"name": "operator", "image": image, **container}]
    metadata = {"name": name, "namespace": "kubeflow", "labels": labels or {}}
    status = {"replicas": pods, "readyReplicas": pods if ready is None else ready} if pods else {}
    return {"metadata": metadata, "spec": {"template": {"spec": {"containers": containers}}}, "status": status}


def moved(item: dict, namespace: str, account: str = "default") -> dict:
    """The Deployment in another namespace, with another service account."""
    template = {"spec": item["spec"]["template"]["spec"] | {"serviceAccountName": account}}
    return item | {"metadata": item["metadata"] | {"namespace": namespace}, "spec": {"template": template}}


def binding(*accounts: str, name: str = "training-operator", labels: dict | None = None) -> dict:
    """A ClusterRoleBinding of the ClusterRole of this name, with service accounts such as `kubeflow/default`."""
    subjects = [
        dict(zip(("kind", "namespace", "name"), ("ServiceAccount", *account.split("/")), strict=True))
        for account in accounts
    ]
    return {"metadata": {"name": name, "labels": labels or {}}, "roleRef": {"name": name}, "subjects": subjects}


ENTITLED = binding("kubeflow/default")


def webhook(name="validator.training-operator.kubeflow.org", service="training-operator") -> dict:
    """v1's webhook configuration."""
    client = {"service": {"name": service, "namespace": "kubeflow"}}
    return {"metadata": {"name": name}, "webhooks": [{"clientConfig": client}]}
