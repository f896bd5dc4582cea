"""What users do to their jobs, in whatever order and however hastily."""

from __future__ import annotations

import itertools
import json
import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime

import pytest

from support import Hand, Refused, Stage
from support.audit_log import Request, requests
from support.jobs import job, pod_spec, pytorchjob, tfjob
from support.pods import container, names, uids
from support.user_client import MERGE, always, eventually
from testbed.control_plane import ControlPlane

pytestmark = [pytest.mark.apiserver, pytest.mark.usefixtures("operator")]

#: Who the operator is to the API server: see conftest.py.
USER = "trainshed"
POLICIES = ("Background", "Foreground", "Orphan")
#: Phases of a job, each with the words of its status by which it is known.
PHASES = {"pending": "Created", "running": "Running", "over": "Succeeded", "paused": "Suspended", "again": "Restarting"}
#: Each phase with each way to delete, by the name of a job.
CASES = {f"{phase}-{policy.lower()}": (phase, policy) for phase, policy in itertools.product(PHASES, POLICIES)}


def test_a_job_may_be_deleted_in_any_way_in_any_phase(hand: Hand):
    with Stage(hand, all_but("pending")) as stage:
        bring_all_to_their_phases(hand, stage)
        orphans = tuple(f"{phase}-orphan-" for phase in PHASES)
        for name, (_, policy) in CASES.items():
            hand.call("DELETE", hand.path("TFJob", name), {"propagationPolicy": policy})
        eventually(lambda: not hand.jobs("TFJob"), 60)  # the garbage collector finds new kinds every 30 s
        eventually(lambda: all(pod["metadata"]["name"].startswith(orphans) for pod in hand.pods()), 30)
        left = {uid(pod) for pod in hand.pods()}
        assert len(left) >= 6  # of those that were pending, running and over
        always(lambda: {uid(pod) for pod in hand.pods()} == left, 2)
        assert not any(pod["metadata"].get("ownerReferences") for pod in hand.pods())


def bring_all_to_their_phases(hand: Hand, stage: Stage) -> None:
    for name, (phase, _) in CASES.items():
        hand.create(tfjob(name, policy={"suspend": phase == "paused"}, restart="ExitCode", Worker=2))
    for name in (name for name, (phase, _) in CASES.items() if phase in ("running", "over", "again")):
        eventually(lambda name=name: hand.state("TFJob", name) == "Running", 20)
    stage.script = all_but("pending", "again")
    for name, (phase, _) in CASES.items():
        if phase in ("over", "again"):
            stage.end(f"{name}-worker-0", 0 if phase == "over" else 137)
    for name, (phase, _) in CASES.items():
        eventually(lambda name=name, word=PHASES[phase]: word in hand.conditions("TFJob", name))


def all_but(*phases: str) -> Callable[[str], str]:
    """All pods run but those of the jobs in these phases, which stay pending."""
    return lambda name: "" if name.startswith(phases) else "Running"


def uid(item: dict) -> str:
    return item["metadata"]["uid"]


def test_pods_that_run_keep_their_template_and_the_next_are_made_from_the_new_one(hand: Hand, stage: Stage):
    wanted = job("TFJob", "new", restart="OnFailure", PS=1, Worker=2)
    hand.create(wanted)
    eventually(lambda: hand.state("TFJob", "new") == "Running")
    before = uids(hand.pods())
    pod_spec(wanted, "Worker")["containers"][0]["image"] = "python:3.12-slim"
    hand.patch_job("TFJob", "new", {"spec": wanted["spec"]})
    always(lambda: uids(hand.pods()) == before, 2)
    hand.delete("pods", "new-worker-1")
    eventually(
        lambda: uid(hand.pod("new-worker-1") or {"metadata": {"uid": before["new-worker-1"]}}) not in before.values()
    )
    images = {pod["metadata"]["name"]: container(pod)["image"] for pod in hand.pods()}
    old, new = "python:3.11-slim", "python:3.12-slim"
    assert images == {"new-ps-0": old, "new-worker-0": old, "new-worker-1": new}


@pytest.mark.parametrize("ends", [False, True], ids=["they run on", "they fail"])
def test_deadline_ttl_and_limit_work_together(ends: bool, hand: Hand, stage: Stage):
    stage.script = (lambda _name: "137") if ends else (lambda _name: "Running")
    limits = {"activeDeadlineSeconds": 2, "ttlSecondsAfterFinished": 0, "backoffLimit": 0}
    chosen = {
        f"a{number}": dict(itertools.compress(limits.items(), which))
        for number, which in enumerate(itertools.product((True, False), repeat=3))
    }
    for name, policy in chosen.items():
        hand.create(tfjob(name, policy=policy, restart="ExitCode", Worker=1))
    doomed = {name for name, policy in chosen.items() if ends_by_itself(policy, failing=ends)}
    mortal = {name for name in doomed if "ttlSecondsAfterFinished" in chosen[name]}
    eventually(lambda: set(names(hand.jobs("TFJob"))) == chosen.keys() - mortal, 12)
    eventually(lambda: {name for name in names(hand.jobs("TFJob")) if failed(hand, name)} == doomed - mortal, 12)
    always(lambda: set(names(hand.jobs("TFJob"))) == chosen.keys() - mortal, 1)
    for name in doomed - mortal:
        found = hand.job("TFJob", name)["status"]
        lived = datetime.fromisoformat(found["completionTime"]) - datetime.fromisoformat(found["startTime"])
        assert lived.total_seconds() <= 3, name


def ends_by_itself(policy: dict, *, failing: bool) -> bool:
    return "activeDeadlineSeconds" in policy or (failing and "backoffLimit" in policy)


def failed(hand: Hand, name: str) -> bool:
    return "Failed" in hand.conditions("TFJob", name)


def test_a_namespace_may_be_deleted_with_all_that_runs_in_it(server: ControlPlane, hand: Hand, stage: Stage):
    hand.create(job("TFJob", "a", restart="OnFailure", PS=2, Worker=2))
    hand.create(pytorchjob("b", Master=1, Worker=2))
    eventually(lambda: hand.state("TFJob", "a") == hand.state("PyTorchJob", "b") == "Running")
    hold(hand, "a-worker-1")
    before = len(asked(server, hand))
    hand.call("DELETE", f"/api/v1/namespaces/{hand.namespace}")
    time.sleep(8)
    assert names(hand.pods()) == ["a-worker-1"]
    tried = Counter(request.what for request in asked(server, hand)[before:])
    assert tried["create pods"] <= 10, tried
    assert tried.total() <= 60, tried
    hold(hand, "a-worker-1", held=False)
    eventually(lambda: gone(hand), 30)


def asked(server: ControlPlane, hand: Hand) -> list[Request]:
    """What the operator has asked for in this namespace so far."""
    return requests(server, USER, hand.namespace)


def hold(hand: Hand, name: str, *, held: bool = True) -> None:
    """Keep a pod from going when it is deleted, by a finalizer; or no longer."""
    patch = {"metadata": {"finalizers": ["test.example/hold"] if held else None}}
    hand.call("PATCH", f"/api/v1/namespaces/{hand.namespace}/pods/{name}", patch, MERGE)


def gone(hand: Hand) -> bool:
    try:
        hand.call("GET", f"/api/v1/namespaces/{hand.namespace}")
    except Refused as refused:
        return refused.code == 404
    return False


def test_what_was_exported_may_be_applied_again(hand: Hand, stage: Stage):
    hand.create(job("TFJob", "back", restart="ExitCode", PS=1, Worker=1))
    eventually(lambda: hand.state("TFJob", "back") == "Running")
    stage.end("back-worker-0", 137)
    eventually(lambda: stage.created.count("back-worker-0") == 2 and hand.state("TFJob", "back") == "Running", 20)
    exported = hand.job("TFJob", "back")
    assert exported["status"]["restarts"] == 1
    kopfs = {"spec": exported["spec"], "metadata": {"labels": {}, "annotations": {}}}
    exported["metadata"]["annotations"] = {
        "kopf.zalando.org/last-handled-configuration": json.dumps(kopfs),
        "kopf.zalando.org/touch-dummy": "2026-01-01T00:00:00",
        "kubectl.kubernetes.io/last-applied-configuration": json.dumps(exported),
        "trainshed.dev/restart-attempt": "7",
    }
    hand.delete_job("TFJob", "back")
    eventually(lambda: not hand.pods() and hand.job("TFJob", "back") is None, 20)
    del exported["metadata"]["resourceVersion"]
    again = hand.create(exported)
    assert again["metadata"]["uid"] != exported["metadata"]["uid"]
    eventually(lambda: hand.state("TFJob", "back") == "Running")
    assert not hand.job("TFJob", "back")["status"].get("restarts")
    owners = {pod["metadata"]["ownerReferences"][0]["uid"] for pod in hand.pods()}
    assert owners == {again["metadata"]["uid"]}
    assert "kopf.zalando.org/KopfFinalizerMarker" not in hand.job("TFJob", "back")["metadata"].get("finalizers", ())


@pytest.mark.parametrize("lost", ["labels", "ownerReferences"])
def test_a_pod_that_was_taken_from_its_job_by_hand_is_nobodys(
    lost: str, server: ControlPlane, hand: Hand, stage: Stage
):
    hand.create(job("TFJob", "rent", restart="OnFailure", PS=1, Worker=2))
    eventually(lambda: hand.state("TFJob", "rent") == "Running")
    path = f"/api/v1/namespaces/{hand.namespace}/pods/rent-worker-1"
    taken = uid(hand.call("PATCH", path, {"metadata": {lost: None}}, MERGE))
    blocked = eventually(lambda: hand.conditions("TFJob", "rent").get("Blocked"))
    assert blocked["reason"] == ("LabelRemoved" if lost == "labels" else "NameConflict")
    assert "rent-worker-1" in blocked["message"]
    before = len(asked(server, hand))
    time.sleep(6)
    tried = Counter(request.what for request in asked(server, hand)[before:])
    assert tried["create pods"] <= 4, tried  # after 1, 2 and 4 s, and once for what it was told meanwhile
    pod = hand.pod("rent-worker-1")
    assert uid(pod) == taken
    assert not pod["metadata"].get(lost)
    hand.delete("pods", "rent-worker-1")
    eventually(lambda: uid(hand.pod("rent-worker-1") or pod) != taken, 30)
    eventually(lambda: "Blocked" not in hand.conditions("TFJob", "rent"), 30)


def test_a_status_that_was_wiped_or_forged_is_worked_out_again(hand: Hand, stage: Stage):
    hand.create(job("TFJob", "lie", restart="ExitCode", PS=1, Worker=2))
    eventually(lambda: hand.state("TFJob", "lie") == "Running")
    made = {uid(pod) for pod in hand.pods()}
    path = hand.path("TFJob", "lie", "status")
    whole = hand.job("TFJob", "lie")["status"]
    hand.call("PUT", path, hand.job("TFJob", "lie") | {"status": {}})
    eventually(lambda: hand.state("TFJob", "lie") == "Running")
    eventually(lambda: hand.job("TFJob", "lie")["status"]["replicaStatuses"] == whole["replicaStatuses"])
    forged = {"replicaStatuses": {"Worker": {"active": 9, "failed": 9}, "PS": None}, "restarts": 1}
    hand.call("PATCH", path, {"status": forged}, MERGE)
    eventually(lambda: hand.job("TFJob", "lie")["status"]["replicaStatuses"] == whole["replicaStatuses"])
    assert {uid(pod) for pod in hand.pods()} == made
    stage.end("lie-worker-0", 0)
    eventually(lambda: hand.state("TFJob", "lie") == "Succeeded")
    hand.call("PUT", path, hand.job("TFJob", "lie") | {"status": {}})
    eventually(lambda: hand.state("TFJob", "lie") == "Succeeded")
    assert {uid(pod) for pod in hand.pods()} == made


def test_a_queue_lets_a_job_in_takes_it_back_and_lets_it_in_elsewhere(hand: Hand, stage: Stage):
    """What Kueue does: a job is created suspended, and gets its nodes in the same write that resumes it."""
    hand.create(tfjob("turn", policy={"suspend": True}, Worker=2))
    eventually(lambda: hand.state("TFJob", "turn") == "Suspended")
    for pool in ("red", "blue"):
        wanted = tfjob("turn", policy={"suspend": False}, Worker=2)
        pod_spec(wanted, "Worker")["nodeSelector"] = {"pool": pool}
        hand.patch_job("TFJob", "turn", {"spec": wanted["spec"]})
        eventually(lambda: active(hand, "turn") == 2)
        assert [pod["spec"]["nodeSelector"] for pod in hand.pods()] == [{"pool": pool}] * 2
        hold(hand, "turn-worker-0")
        hand.patch_job("TFJob", "turn", {"spec": {"runPolicy": {"suspend": True}}})
        eventually(lambda: hand.state("TFJob", "turn") == "Suspended" and active(hand, "turn") == 1)
        always(lambda: active(hand, "turn") == 1)  # its place is free only once it is gone
        hold(hand, "turn-worker-0", held=False)
        eventually(lambda: active(hand, "turn") == 0 and not hand.pods())


def active(hand: Hand, name: str) -> int:
    counts = hand.job("TFJob", name)["status"].get("replicaStatuses", {})
    return sum(count.get("active", 0) for count in counts.values())
