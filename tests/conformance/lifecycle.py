"""Creates jobs, ends their pods, and reads their status, for the tests of the lifecycle."""

from __future__ import annotations

from support import FakeKubelet, UserClient
from support.user_client import eventually

MERGE = "application/merge-patch+json"
NOW = "2026-01-01T00:00:00Z"


def create_with_pods(user: UserClient, wanted: dict, pods: int) -> dict:
    """Create a job; return it once it has this number of pods."""
    made = user.create(wanted)
    eventually(lambda: len(user.pods(made["metadata"]["name"])) == pods)
    return made


def create_running(user: UserClient, wanted: dict, pods: int) -> dict:
    """Create a job; return it once the status counts all its pods as active."""
    made = user.create(wanted)
    name = made["metadata"]["name"]
    eventually(lambda: len(user.pods(name)) == pods and active_pods(user, made["kind"], name) == pods, 20)
    return made


def active_pods(user: UserClient, kind: str, name: str) -> int:
    """The number of active replicas of all roles in the status."""
    return sum(count.get("active", 0) for count in replica_statuses(user, kind, name).values())


def replica_statuses(user: UserClient, kind: str, name: str) -> dict[str, dict]:
    """`status.replicaStatuses` by role."""
    return status(user, kind, name).get("replicaStatuses", {})


def status(user: UserClient, kind: str, name: str) -> dict:
    """The status of a job, or an empty one."""
    return (user.job(kind, name) or {}).get("status", {})


def condition_types(user: UserClient, kind: str, name: str) -> list[str]:
    """The types of the conditions in order; a false one has a minus."""
    conditions = status(user, kind, name).get("conditions", [])
    return [("" if condition["status"] == "True" else "-") + condition["type"] for condition in conditions]


def wait_for_conditions(user: UserClient, kind: str, name: str, *wanted: str, within: float = 10) -> dict[str, dict]:
    """Wait until the job has exactly these conditions; return them by type."""
    eventually(lambda: condition_types(user, kind, name) == list(wanted) or None, within)
    return user.conditions(kind, name)


def end_pods(kubelet: FakeKubelet, codes: dict[str, int]) -> None:
    """End pods with these exit codes, one after the other."""
    for name, code in codes.items():
        kubelet.end(name, code)


def set_condition(user: UserClient, kind: str, name: str, verdict: str, **fields: str) -> None:
    """Write a terminal condition into the status of a job, as another client."""
    condition = {"type": verdict, "status": "True", "reason": f"{kind}{verdict}", "message": "as found"}
    status = {"conditions": [condition | {"lastUpdateTime": NOW, "lastTransitionTime": NOW}], **fields}
    user.call("PATCH", user.path(kind, name, "status"), {"status": status}, MERGE)


def set_pod_finalizer(user: UserClient, name: str, *, held: bool = True) -> None:
    """Add a finalizer to a pod, so that a deletion does not end; or remove it."""
    patch = {"metadata": {"finalizers": ["test.example/hold"] if held else None}}
    user.call("PATCH", f"/api/v1/namespaces/{user.namespace}/pods/{name}", patch, MERGE)


def suspend(user: UserClient, kind: str, name: str, *, suspended: bool = True) -> None:
    """Suspend a job, or resume it."""
    user.patch_job(kind, name, {"spec": {"runPolicy": {"suspend": suspended}}})
