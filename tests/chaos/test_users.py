"""Actions of users on their jobs, in any order and in quick succession."""

from __future__ import annotations

import itertools
import json
import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime

import pytest

from support import FakeKubelet, Refused, UserClient
from support.audit_log import Request, requests
from support.jobs import job, pod_spec, pytorchjob, tfjob
from support.pods import names
from support.user_client import MERGE, always, eventually
from testbed.control_plane import ControlPlane

pytestmark = [pytest.mark.apiserver, pytest.mark.usefixtures("operator")]

#: The operator's user on the API server: see conftest.py.
USER = "trainshed"
POLICIES = ("Background", "Foreground", "Orphan")
#: Phases of a job, each with the words of its status by which it is known.
PHASES = {"pending": "Created", "running": "Running", "over": "Succeeded", "paused": "Suspended", "again": "Restarting"}
#: Each phase with each way to delete, by the name of a job.
CASES = {f"{phase}-{policy.lower()}": (phase, policy) for phase, policy in itertools.product(PHASES, POLICIES)}


@pytest.mark.fault("I1")
def test_a_job_is_deleted_with_every_propagation_policy_in_every_phase(user: UserClient):
    with FakeKubelet(user, all_but("pending")) as kubelet:
        bring_all_to_their_phases(user, kubelet)
        orphans = tuple(f"{phase}-orphan-" for phase in PHASES)
        for name, (_, policy) in CASES.items():
            user.call("DELETE", user.path("TFJob", name), {"propagationPolicy": policy})
        eventually(lambda: not user.jobs("TFJob"), 60)  # the garbage collector finds new kinds every 30 s
        eventually(lambda: all(pod["metadata"]["name"].startswith(orphans) for pod in user.pods()), 30)
        left = {uid(pod) for pod in user.pods()}
        assert len(left) >= 6  # of those that were pending, running and over
        always(lambda: {uid(pod) for pod in user.pods()} == left, 2)
        assert not any(pod["metadata"].get("ownerReferences") for pod in user.pods())


def bring_all_to_their_phases(user: UserClient, kubelet: FakeKubelet) -> None:
    for name, (phase, _) in CASES.items():
        user.create(tfjob(name, policy={"suspend": phase == "paused"}, restart="ExitCode", Worker=2))
    for name in (name for name, (phase, _) in CASES.items() if phase in ("running", "over", "again")):
        eventually(lambda name=name: user.state("TFJob", name) == "Running", 20)
    kubelet.script = all_but("pending", "again")
    for name, (phase, _) in CASES.items():
        if phase in ("over", "again"):
            kubelet.end(f"{name}-worker-0", 0 if phase == "over" else 137)
    for name, (phase, _) in CASES.items():
        eventually(lambda name=name, word=PHASES[phase]: word in user.conditions("TFJob", name))


def all_but(*phases: str) -> Callable[[str], str]:
    """All pods run but those of the jobs in these phases, which stay pending."""
    return lambda name: "" if name.startswith(phases) else "Running"


def uid(item: dict) -> str:
    return item["metadata"]["uid"]


@pytest.mark.fault("I6")
@pytest.mark.parametrize("ends", [False, True], ids=["they run on", "they fail"])
def test_deadline_ttl_and_limit_work_together(ends: bool, user: UserClient, kubelet: FakeKubelet):
    kubelet.script = (lambda _name: "137") if ends else (lambda _name: "Running")
    limits = {"activeDeadlineSeconds": 2, "ttlSecondsAfterFinished": 0, "backoffLimit": 0}
    chosen = {
        f"a{number}": dict(itertools.compress(limits.items(), which))
        for number, which in enumerate(itertools.product((True, False), repeat=3))
    }
    for name, policy in chosen.items():
        user.create(tfjob(name, policy=policy, restart="ExitCode", Worker=1))
    doomed = {name for name, policy in chosen.items() if ends_by_itself(policy, failing=ends)}
    mortal = {name for name in doomed if "ttlSecondsAfterFinished" in chosen[name]}
    eventually(lambda: set(names(user.jobs("TFJob"))) == chosen.keys() - mortal, 12)
    eventually(lambda: {name for name in names(user.jobs("TFJob")) if failed(user, name)} == doomed - mortal, 12)
    always(lambda: set(names(user.jobs("TFJob"))) == chosen.keys() - mortal, 1)
    for name in doomed - mortal:
        found = user.job("TFJob", name)["status"]
        lived = datetime.fromisoformat(found["completionTime"]) - datetime.fromisoformat(found["startTime"])
        assert lived.total_seconds() <= 3, name


def ends_by_itself(policy: dict, *, failing: bool) -> bool:
    return "activeDeadlineSeconds" in policy or (failing and "backoffLimit" in policy)


def failed(user: UserClient, name: str) -> bool:
    return "Failed" in user.conditions("TFJob", name)


@pytest.mark.fault("I7")
def test_a_namespace_may_be_deleted_with_all_that_runs_in_it(
    server: ControlPlane, user: UserClient, kubelet: FakeKubelet
):
    user.create(job("TFJob", "a", restart="OnFailure", PS=2, Worker=2))
    user.create(pytorchjob("b", Master=1, Worker=2))
    eventually(lambda: user.state("TFJob", "a") == user.state("PyTorchJob", "b") == "Running")
    hold(user, "a-worker-1")
    before = len(asked(server, user))
    user.call("DELETE", f"/api/v1/namespaces/{user.namespace}")
    time.sleep(8)
    assert names(user.pods()) == ["a-worker-1"]
    tried = Counter(request.what for request in asked(server, user)[before:])
    assert tried["create pods"] <= 10, tried
    assert tried.total() <= 60, tried
    hold(user, "a-worker-1", held=False)
    eventually(lambda: gone(user), 30)


def asked(server: ControlPlane, user: UserClient) -> list[Request]:
    """Return the requests of the operator in this namespace so far."""
    return requests(server, USER, user.namespace)


def hold(user: UserClient, name: str, *, held: bool = True) -> None:
    """Keep a pod from going when it is deleted, by a finalizer; or no longer."""
    patch = {"metadata": {"finalizers": ["test.example/hold"] if held else None}}
    user.call("PATCH", f"/api/v1/namespaces/{user.namespace}/pods/{name}", patch, MERGE)


def gone(user: UserClient) -> bool:
    try:
        user.call("GET", f"/api/v1/namespaces/{user.namespace}")
    except Refused as refused:
        return refused.code == 404
    return False


@pytest.mark.fault("I9")
def test_what_was_exported_may_be_applied_again(user: UserClient, kubelet: FakeKubelet):
    user.create(job("TFJob", "back", restart="ExitCode", PS=1, Worker=1))
    eventually(lambda: user.state("TFJob", "back") == "Running")
    kubelet.end("back-worker-0", 137)
    eventually(lambda: kubelet.created.count("back-worker-0") == 2 and user.state("TFJob", "back") == "Running", 20)
    exported = user.job("TFJob", "back")
    assert exported["status"]["restarts"] == 1
    kopfs = {"spec": exported["spec"], "metadata": {"labels": {}, "annotations": {}}}
    exported["metadata"]["annotations"] = {
        "kopf.zalando.org/last-handled-configuration": json.dumps(kopfs),
        "kopf.zalando.org/touch-dummy": "2026-01-01T00:00:00",
        "kubectl.kubernetes.io/last-applied-configuration": json.dumps(exported),
        "trainshed.dev/restart-attempt": "7",
    }
    user.delete_job("TFJob", "back")
    eventually(lambda: not user.pods() and user.job("TFJob", "back") is None, 20)
    del exported["metadata"]["resourceVersion"]
    again = user.create(exported)
    assert again["metadata"]["uid"] != exported["metadata"]["uid"]
    eventually(lambda: user.state("TFJob", "back") == "Running")
    assert not user.job("TFJob", "back")["status"].get("restarts")
    owners = {pod["metadata"]["ownerReferences"][0]["uid"] for pod in user.pods()}
    assert owners == {again["metadata"]["uid"]}
    assert "kopf.zalando.org/KopfFinalizerMarker" not in user.job("TFJob", "back")["metadata"].get("finalizers", ())


@pytest.mark.fault("I10")
@pytest.mark.parametrize("lost", ["labels", "ownerReferences"])
def test_a_pod_without_its_labels_or_owner_is_left_alone(
    lost: str, server: ControlPlane, user: UserClient, kubelet: FakeKubelet
):
    user.create(job("TFJob", "rent", restart="OnFailure", PS=1, Worker=2))
    eventually(lambda: user.state("TFJob", "rent") == "Running")
    path = f"/api/v1/namespaces/{user.namespace}/pods/rent-worker-1"
    taken = uid(user.call("PATCH", path, {"metadata": {lost: None}}, MERGE))
    blocked = eventually(lambda: user.conditions("TFJob", "rent").get("Blocked"))
    assert blocked["reason"] == ("LabelRemoved" if lost == "labels" else "NameConflict")
    assert "rent-worker-1" in blocked["message"]
    before = len(asked(server, user))
    time.sleep(6)
    tried = Counter(request.what for request in asked(server, user)[before:])
    assert tried["create pods"] <= 4, tried  # after 1, 2 and 4 s, and once for a watch event in between
    pod = user.pod("rent-worker-1")
    assert uid(pod) == taken
    assert not pod["metadata"].get(lost)
    user.delete("pods", "rent-worker-1")
    eventually(lambda: uid(user.pod("rent-worker-1") or pod) != taken, 30)
    eventually(lambda: "Blocked" not in user.conditions("TFJob", "rent"), 30)


@pytest.mark.fault("I11")
def test_a_status_that_was_deleted_or_forged_is_restored(user: UserClient, kubelet: FakeKubelet):
    user.create(job("TFJob", "lie", restart="ExitCode", PS=1, Worker=2))
    eventually(lambda: user.state("TFJob", "lie") == "Running")
    made = {uid(pod) for pod in user.pods()}
    path = user.path("TFJob", "lie", "status")
    whole = user.job("TFJob", "lie")["status"]
    user.call("PUT", path, user.job("TFJob", "lie") | {"status": {}})
    eventually(lambda: user.state("TFJob", "lie") == "Running")
    eventually(lambda: user.job("TFJob", "lie")["status"]["replicaStatuses"] == whole["replicaStatuses"])
    forged = {"replicaStatuses": {"Worker": {"active": 9, "failed": 9}, "PS": None}, "restarts": 1}
    user.call("PATCH", path, {"status": forged}, MERGE)
    eventually(lambda: user.job("TFJob", "lie")["status"]["replicaStatuses"] == whole["replicaStatuses"])
    assert {uid(pod) for pod in user.pods()} == made
    kubelet.end("lie-worker-0", 0)
    eventually(lambda: user.state("TFJob", "lie") == "Succeeded")
    user.call("PUT", path, user.job("TFJob", "lie") | {"status": {}})
    eventually(lambda: user.state("TFJob", "lie") == "Succeeded")
    assert {uid(pod) for pod in user.pods()} == made


@pytest.mark.fault("I12")
def test_a_queue_admits_a_job_evicts_it_and_admits_it_on_other_nodes(user: UserClient, kubelet: FakeKubelet):
    """As Kueue does: a job is created suspended, and one write resumes it and sets its node selector."""
    user.create(tfjob("turn", policy={"suspend": True}, Worker=2))
    eventually(lambda: user.state("TFJob", "turn") == "Suspended")
    for pool in ("red", "blue"):
        wanted = tfjob("turn", policy={"suspend": False}, Worker=2)
        pod_spec(wanted, "Worker")["nodeSelector"] = {"pool": pool}
        user.patch_job("TFJob", "turn", {"spec": wanted["spec"]})
        eventually(lambda: active(user, "turn") == 2)
        assert [pod["spec"]["nodeSelector"] for pod in user.pods()] == [{"pool": pool}] * 2
        hold(user, "turn-worker-0")
        user.patch_job("TFJob", "turn", {"spec": {"runPolicy": {"suspend": True}}})
        eventually(lambda: user.state("TFJob", "turn") == "Suspended" and active(user, "turn") == 1)
        always(lambda: active(user, "turn") == 1)  # its place is free only once it is gone
        hold(user, "turn-worker-0", held=False)
        eventually(lambda: active(user, "turn") == 0 and not user.pods())


def active(user: UserClient, name: str) -> int:
    counts = user.job("TFJob", name)["status"].get("replicaStatuses", {})
    return sum(count.get("active", 0) for count in counts.values())
