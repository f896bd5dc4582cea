"""Pods and Services that are lost, too many or too few (TO-116 to TO-121)."""

from __future__ import annotations

import pytest

from support import FakeKubelet, UserClient
from support.jobs import KINDS, job, template
from support.user_client import always, eventually

from .created_objects import created_pods, owners, pods, resize, services, uids
from .row import differs, same

pytestmark = pytest.mark.usefixtures("operator")

TF, PT, *_ = KINDS


def dynamic(workers: int) -> dict:
    """A TFJob whose workers come and go."""
    wanted = job(TF, "a", PS=1, Worker=workers)
    wanted["spec"]["enableDynamicWorker"] = True
    return wanted


@differs("TO-116", "D16", "a deleted pod of a running PyTorchJob is created again under its name, and so are its peers")
def test_a_deleted_pod_comes_back_under_its_name(user: UserClient, kubelet: FakeKubelet):
    names = ("a-master-0", "a-worker-0")
    before = uids(created_pods(user, job(PT, "a", restart="OnFailure", Master=1, Worker=1), *names))
    eventually(lambda: user.state(PT, "a") == "Running")
    user.delete("pods", "a-worker-0")
    after = eventually(lambda: found if len(found := uids(pods(user, *names))) == 2 and found != before else None)
    assert after["a-worker-0"] != before["a-worker-0"]
    eventually(lambda: uids(pods(user, *names))["a-master-0"] != before["a-master-0"])
    eventually(lambda: user.state(PT, "a") == "Running")
    assert "Failed" not in user.conditions(PT, "a")


@same("TO-117", "a deleted Service is created again")
def test_a_deleted_service_comes_back(user: UserClient):
    created_pods(user, job(TF, "a", Worker=1), "a-worker-0")
    before = eventually(lambda: services(user).get("a-worker-0"))
    user.delete("services", "a-worker-0")
    after = eventually(lambda: services(user).get("a-worker-0"))
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert after["spec"]["ports"] == before["spec"]["ports"]


@same("TO-118", "dynamic workers: one more pod than is wanted is deleted")
def test_a_worker_too_many_goes(user: UserClient, kubelet: FakeKubelet):
    before = uids(created_pods(user, dynamic(3), "a-ps-0", "a-worker-0", "a-worker-1", "a-worker-2"))
    resize(user, TF, "a", Worker=2)
    after = uids(pods(user, "a-ps-0", "a-worker-0", "a-worker-1"))
    assert after.items() <= before.items()
    eventually(lambda: set(services(user)) == set(after))


@same("TO-119", "dynamic workers: two that are wanted and not there are made")
def test_workers_too_few_are_made(user: UserClient, kubelet: FakeKubelet):
    before = uids(created_pods(user, dynamic(1), "a-ps-0", "a-worker-0"))
    resize(user, TF, "a", Worker=3)
    after = uids(pods(user, "a-ps-0", "a-worker-0", "a-worker-1", "a-worker-2"))
    assert before.items() <= after.items()


@pytest.mark.fault("I3")
@differs("TO-120", "D12", "zero parameter servers stay zero; v1 creates one and deletes it, again and again")
def test_no_replicas_are_none(user: UserClient, kubelet: FakeKubelet):
    created_pods(user, job(TF, "a", PS=0, Worker=1), "a-worker-0")
    eventually(lambda: user.state(TF, "a") == "Running")
    always(lambda: set(pods(user, "a-worker-0")) == set(services(user)) == {"a-worker-0"})
    assert kubelet.created == ["a-worker-0"]
    assert [event for event in user.events("a") if "a-ps-0" in event[2]] == []


@differs("TO-121", "D31", "a pod beyond a gap goes, and nothing is made in the gap; v1 makes that pod and deletes it")
def test_a_gap_is_not_filled(user: UserClient, kubelet: FakeKubelet):
    three = ("a-worker-0", "a-worker-1", "a-worker-2")
    before = uids(created_pods(user, job(TF, "a", Worker=3), *three))
    stray = template("tensorflow") | {"metadata": {"name": "a-worker-4", "ownerReferences": owners(user, TF, "a")}}
    stray["metadata"]["labels"] = user.pod("a-worker-2")["metadata"]["labels"] | {
        "training.kubeflow.org/replica-index": "4"
    }
    user.make("pods", stray)
    eventually(lambda: "Deleted pod: a-worker-4" in [event[2] for event in user.events("a")])
    assert uids(pods(user, *three)) == before
    always(lambda: uids(pods(user, *three)) == before)
    assert [event for event in user.events("a") if "a-worker-3" in event[2]] == []
