"""How the lifecycle tests let a job live: who is there, what becomes of them, and what the status says then."""

from __future__ import annotations

from support import Hand, Stage
from support.user_client import eventually

MERGE = "application/merge-patch+json"
NOW = "2026-01-01T00:00:00Z"


def born(hand: Hand, wanted: dict, pods: int) -> dict:
    """Create a job; return it once so many pods of its own are there."""
    made = hand.create(wanted)
    eventually(lambda: len(hand.pods(made["metadata"]["name"])) == pods)
    return made


def alive(hand: Hand, wanted: dict, pods: int) -> dict:
    """Create a job; return it once all its pods run and the status has counted them."""
    made = hand.create(wanted)
    name = made["metadata"]["name"]
    eventually(lambda: len(hand.pods(name)) == pods and active(hand, made["kind"], name) == pods, 20)
    return made


def active(hand: Hand, kind: str, name: str) -> int:
    """How many replicas the status says are active, in sum."""
    return sum(count.get("active", 0) for count in tallies(hand, kind, name).values())


def tallies(hand: Hand, kind: str, name: str) -> dict[str, dict]:
    """The counts of each role."""
    return status(hand, kind, name).get("replicaStatuses", {})


def status(hand: Hand, kind: str, name: str) -> dict:
    """The status of a job, or an empty one."""
    return (hand.job(kind, name) or {}).get("status", {})


def says(hand: Hand, kind: str, name: str) -> list[str]:
    """The conditions in order, those that are false with a minus."""
    conditions = status(hand, kind, name).get("conditions", [])
    return [("" if condition["status"] == "True" else "-") + condition["type"] for condition in conditions]


def becomes(hand: Hand, kind: str, name: str, *wanted: str, within: float = 10) -> dict[str, dict]:
    """Wait until the conditions are just these; returns them by type."""
    eventually(lambda: says(hand, kind, name) == list(wanted) or None, within)
    return hand.conditions(kind, name)


def end_all(stage: Stage, codes: dict[str, int]) -> None:
    """Pods end with these exit codes, one after the other."""
    for name, code in codes.items():
        stage.end(name, code)


def decree(hand: Hand, kind: str, name: str, verdict: str, **fields: str) -> None:
    """Write a verdict into a job's status, as somebody has left it."""
    condition = {"type": verdict, "status": "True", "reason": f"{kind}{verdict}", "message": "as found"}
    told = {"conditions": [condition | {"lastUpdateTime": NOW, "lastTransitionTime": NOW}], **fields}
    hand.call("PATCH", hand.path(kind, name, "status"), {"status": told}, MERGE)


def hold(hand: Hand, name: str, *, held: bool = True) -> None:
    """Keep a pod from going when it is deleted, by a finalizer; or no longer."""
    patch = {"metadata": {"finalizers": ["test.example/hold"] if held else None}}
    hand.call("PATCH", f"/api/v1/namespaces/{hand.namespace}/pods/{name}", patch, MERGE)


def suspend(hand: Hand, kind: str, name: str, *, suspended: bool = True) -> None:
    """Suspend a job, or resume it."""
    hand.patch_job(kind, name, {"spec": {"runPolicy": {"suspend": suspended}}})
