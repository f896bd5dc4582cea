"""Jobs that are suspended and resumed, or managed by another controller, of every kind (TO-220 to TO-230)."""

from __future__ import annotations

from datetime import datetime

import pytest

from support import FakeKubelet, Refused, UserClient
from support.jobs import job
from support.pods import names
from support.user_client import always, eventually

from .lifecycle import (
    active_pods,
    condition_types,
    create_running,
    replica_statuses,
    set_pod_finalizer,
    status,
    suspend,
    wait_for_conditions,
)
from .row import differs, same

pytestmark = pytest.mark.usefixtures("operator")

TF, PT = "TFJob", "PyTorchJob"
ROLES = {
    "TFJob": {"PS": 1, "Worker": 1},
    "PyTorchJob": {"Master": 1, "Worker": 1},
    "MPIJob": {"Launcher": 1, "Worker": 1},
    "XGBoostJob": {"Master": 1, "Worker": 1},
    "PaddleJob": {"Master": 1, "Worker": 1},
    "JAXJob": {"Worker": 2},
}
#: v1 names the namespace when it speaks of some kinds as running.
QUALIFIED = ("TFJob", "JAXJob")
ELSEWHERE = "kueue.x-k8s.io/multikueue"


def services(user: UserClient, kind: str) -> int:
    """Return the number of Services that the job should have: MPI has none."""
    return len(user.core("services")) + (2 if kind == "MPIJob" else 0)


@same("TO-220", "created suspended: no pods, no Services, no start time, just Created and Suspended")
@same("TO-221", "resumed and running: the kind's own words")
@same("TO-222", "suspended: pods and Services go, nothing is active, the start time stays")
@same("TO-223", "resumed: pods and Services are back, and the start time is a new one")
@pytest.mark.parametrize("kind", ROLES)
def test_a_job_is_suspended_and_resumed(user: UserClient, kubelet: FakeKubelet, kind: str):
    create_running(user, job(kind, "a", **ROLES[kind]), 2)
    name = f"{user.namespace}/a" if kind in QUALIFIED else "a"
    running = wait_for_conditions(user, kind, "a", "Created", "Running")["Running"]
    assert (running["reason"], running["message"]) == (f"{kind}Running", f"{kind} {name} is running.")
    started = status(user, kind, "a")["startTime"]

    suspend(user, kind, "a")
    found = wait_for_conditions(user, kind, "a", "Created", "-Running", "Suspended")
    assert found["Running"]["reason"] == f"{kind}Suspended"
    eventually(lambda: not user.pods() and services(user, kind) == (2 if kind == "MPIJob" else 0))
    always(lambda: not user.pods())
    eventually(lambda: active_pods(user, kind, "a") == 0)
    assert status(user, kind, "a")["startTime"] == started

    suspend(user, kind, "a", suspended=False)
    found = wait_for_conditions(user, kind, "a", "Created", "-Suspended", "Running")
    assert found["Suspended"]["reason"] == f"{kind}Resumed"
    assert found["Suspended"]["message"] == f"{kind} a is resumed."
    eventually(lambda: len(user.pods()) == services(user, kind) == 2)
    assert status(user, kind, "a")["startTime"] != started

    user.create(job(kind, "b", policy={"suspend": True}, **ROLES[kind]))
    found = wait_for_conditions(user, kind, "b", "Created", "Suspended")
    assert found["Created"]["message"] == f"{kind} b is created."
    assert found["Suspended"]["message"] == f"{kind} b is suspended."
    always(lambda: not user.pods("b") and "startTime" not in status(user, kind, "b"))


@pytest.mark.parametrize(
    "kind",
    [
        *(
            pytest.param(kind, marks=same("TO-224", "managed elsewhere: left alone, suspended or not"))
            for kind in ROLES
            if kind != "JAXJob"
        ),
        pytest.param("JAXJob", marks=differs("TO-225", "D7", "JAXJob, managed elsewhere: left alone as well")),
    ],
)
def test_a_job_that_somebody_else_manages(user: UserClient, kubelet: FakeKubelet, kind: str):
    user.create(job(kind, "a", policy={"managedBy": ELSEWHERE, "suspend": True}, **ROLES[kind]))
    always(lambda: not user.pods() and not user.core("services") and not status(user, kind, "a"), 0.7)
    suspend(user, kind, "a", suspended=False)
    always(lambda: not user.pods() and not user.core("services") and not status(user, kind, "a"), 0.7)


@same("TO-226", "managedBy: the operator's name or none means the operator; only two names are accepted")
def test_whose_job_it_is(user: UserClient, kubelet: FakeKubelet):
    create_running(user, job(TF, "said", policy={"managedBy": "kubeflow.org/training-operator"}, Worker=1), 1)
    create_running(user, job(TF, "unsaid", Worker=1), 1)
    user.create(job(TF, "theirs", policy={"managedBy": ELSEWHERE}, Worker=1))
    for manager in ("", "another"):
        with pytest.raises(Refused, match="managedBy"):
            user.create(job(TF, "strange", policy={"managedBy": manager}, Worker=1))
    always(lambda: names(user.pods()) == ["said-worker-0", "unsaid-worker-0"])


@same("TO-227", "a job that is over and is suspended stays as it is")
def test_it_is_too_late_to_suspend(user: UserClient, kubelet: FakeKubelet):
    create_running(user, job(TF, "a", Worker=2), 2)
    kubelet.end("a-worker-0", 0)
    wait_for_conditions(user, TF, "a", "Created", "-Running", "Succeeded")
    before = status(user, TF, "a")
    suspend(user, TF, "a")
    always(lambda: status(user, TF, "a") == before and len(user.pods()) == 2)


@same("TO-228", "suspended with one pod succeeded and one running: both go, the success stays counted")
def test_a_success_outlives_its_pod(user: UserClient, kubelet: FakeKubelet):
    create_running(user, job(PT, "a", Worker=2), 2)
    kubelet.end("a-worker-1", 0)
    eventually(lambda: replica_statuses(user, PT, "a")["Worker"].get("succeeded") == 1)
    suspend(user, PT, "a")
    eventually(lambda: not user.pods() and "Suspended" in condition_types(user, PT, "a"))
    eventually(lambda: active_pods(user, PT, "a") == 0)
    assert replica_statuses(user, PT, "a")["Worker"]["succeeded"] == 1


@differs("TO-229", "D3", "resumed while old pods terminate: the job waits for them, and does not fail")
def test_a_hasty_resume(user: UserClient, kubelet: FakeKubelet):
    for kind in (TF, PT):
        name = kind.lower()
        create_running(user, job(kind, name, restart="OnFailure", Worker=2), 2)
        held = f"{name}-worker-1"
        uid = user.pod(held)["metadata"]["uid"]
        set_pod_finalizer(user, held)
        suspend(user, kind, name)
        eventually(lambda held=held: "deletionTimestamp" in user.pod(held)["metadata"])
        suspend(user, kind, name, suspended=False)
        always(lambda kind=kind, name=name: "Failed" not in condition_types(user, kind, name))
        set_pod_finalizer(user, held, held=False)
        eventually(lambda held=held, uid=uid: (user.pod(held) or {"metadata": {"uid": uid}})["metadata"]["uid"] != uid)
        eventually(
            lambda kind=kind, name=name: condition_types(user, kind, name) == ["Created", "-Suspended", "Running"]
        )


@same("TO-230", "after a resume the deadline is counted again from the start")
def test_a_deadline_begins_anew(user: UserClient, kubelet: FakeKubelet):
    create_running(user, job(TF, "a", policy={"activeDeadlineSeconds": 3}, Worker=1), 1)
    suspend(user, TF, "a")
    eventually(lambda: not user.pods())
    always(lambda: "Failed" not in condition_types(user, TF, "a"), 3.5)
    suspend(user, TF, "a", suspended=False)
    eventually(lambda: user.state(TF, "a") == "Running")
    eventually(lambda: user.state(TF, "a") == "Failed", 8)
    found = status(user, TF, "a")
    times = [datetime.fromisoformat(found[field]) for field in ("startTime", "completionTime")]
    assert 2 <= (times[1] - times[0]).total_seconds() <= 5
