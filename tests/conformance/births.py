"""What has come of a job: its pods, Services and other objects by name, once they are there."""

from __future__ import annotations

from collections.abc import Callable

from support import Hand
from support.jobs import KINDS
from support.pods import container
from support.user_client import eventually

#: Where objects live that are not of the core.
RBAC, SCALING = "/apis/rbac.authorization.k8s.io/v1", "/apis/autoscaling/v2"


def born(hand: Hand, wanted: dict, *names: str) -> dict[str, dict]:
    """Create the job; its pods by name, once they are these and no others."""
    hand.create(wanted)
    return pods(hand, *names)


def pods(hand: Hand, *names: str) -> dict[str, dict]:
    """The pods by name, once they are these and no others."""
    return eventually(lambda: found if set(found := by_name(hand.pods())) == set(names) else None)


def services(hand: Hand) -> dict[str, dict]:
    """The Services by name."""
    return by_name(hand.core("services"))


def listed(hand: Hand, plural: str, group: str = "/api/v1") -> dict[str, dict]:
    """All objects of a kind by name."""
    return by_name(hand.call("GET", f"{group}/namespaces/{hand.namespace}/{plural}")["items"])


def by_name(objects: list[dict]) -> dict[str, dict]:
    """The same by name."""
    return {found["metadata"]["name"]: found for found in objects}


def uids(objects: dict[str, dict]) -> dict[str, str]:
    """Which objects they are."""
    return {name: found["metadata"]["uid"] for name, found in objects.items()}


def resize(hand: Hand, kind: str, name: str, **roles: int) -> None:
    """Ask for so many replicas of each role from now on."""
    wanted = {role: {"replicas": count} for role, count in roles.items()}
    hand.patch_job(kind, name, {"spec": {KINDS[kind].field: wanted}})


def owners(hand: Hand, kind: str, name: str) -> list[dict]:
    """The owner references of what a job has made: one, and it controls."""
    uid = hand.job(kind, name)["metadata"]["uid"]
    reference = {"apiVersion": "kubeflow.org/v1", "kind": kind, "name": name, "uid": uid}
    return [reference | {"controller": True, "blockOwnerDeletion": True}]


def labels(found: dict) -> dict[str, str]:
    """An object's labels, v1's without what they all begin with."""
    return {
        key.removeprefix("training.kubeflow.org/"): value for key, value in found["metadata"].get("labels", {}).items()
    }


def variables(pod: dict, name: str = "") -> list[tuple[str, str]]:
    """The environment of a container as it stands there; of a source the path of its field."""
    return [(entry["name"], _value(entry)) for entry in container(pod, name).get("env", [])]


def told(operator_says: Callable[[], list[tuple[str, str, str]]], reason: str) -> tuple[str, str, str]:
    """The first event with this reason."""
    return eventually(lambda: next((event for event in operator_says() if event[1] == reason), None))


def _value(entry: dict) -> str:
    source = entry.get("valueFrom")
    return source["fieldRef"]["fieldPath"] if source else entry.get("value", "")
