"""The pods, Services and other objects of a job by name, as soon as they exist."""

from __future__ import annotations

from collections.abc import Callable

from support import UserClient
from support.jobs import KINDS
from support.pods import container
from support.user_client import eventually

#: The API groups of objects outside of the core group.
RBAC, SCALING = "/apis/rbac.authorization.k8s.io/v1", "/apis/autoscaling/v2"


def created_pods(user: UserClient, wanted: dict, *names: str) -> dict[str, dict]:
    """Create the job, and return its pods by name, once these and no others exist."""
    user.create(wanted)
    return pods(user, *names)


def pods(user: UserClient, *names: str) -> dict[str, dict]:
    """Wait until these pods and no others exist; return them by name."""
    return eventually(lambda: found if set(found := by_name(user.pods())) == set(names) else None)


def services(user: UserClient) -> dict[str, dict]:
    """The Services by name."""
    return by_name(user.core("services"))


def list_by_name(user: UserClient, plural: str, group: str = "/api/v1") -> dict[str, dict]:
    """All objects of a kind by name."""
    return by_name(user.call("GET", f"{group}/namespaces/{user.namespace}/{plural}")["items"])


def by_name(objects: list[dict]) -> dict[str, dict]:
    """Objects by name."""
    return {found["metadata"]["name"]: found for found in objects}


def uids(objects: dict[str, dict]) -> dict[str, str]:
    """The uid of each object."""
    return {name: found["metadata"]["uid"] for name, found in objects.items()}


def resize(user: UserClient, kind: str, name: str, **roles: int) -> None:
    """Change the number of replicas of roles."""
    wanted = {role: {"replicas": count} for role, count in roles.items()}
    user.patch_job(kind, name, {"spec": {KINDS[kind].field: wanted}})


def owners(user: UserClient, kind: str, name: str) -> list[dict]:
    """The owner references of a job's objects: one, the controller."""
    uid = user.job(kind, name)["metadata"]["uid"]
    reference = {"apiVersion": "kubeflow.org/v1", "kind": kind, "name": name, "uid": uid}
    return [reference | {"controller": True, "blockOwnerDeletion": True}]


def labels(found: dict) -> dict[str, str]:
    """The labels of an object, without the prefix of v1's."""
    return {
        key.removeprefix("training.kubeflow.org/"): value for key, value in found["metadata"].get("labels", {}).items()
    }


def variables(pod: dict, name: str = "") -> list[tuple[str, str]]:
    """The environment of a container in order; for a fieldRef, the path of the field."""
    return [(entry["name"], _value(entry)) for entry in container(pod, name).get("env", [])]


def first_event(operator_says: Callable[[], list[tuple[str, str, str]]], reason: str) -> tuple[str, str, str]:
    """The first event with this reason."""
    return eventually(lambda: next((event for event in operator_says() if event[1] == reason), None))


def _value(entry: dict) -> str:
    source = entry.get("valueFrom")
    return source["fieldRef"]["fieldPath"] if source else entry.get("value", "")
