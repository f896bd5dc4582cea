"""One headless Service for a job, on a real API server: its life, names that are taken, and the change of the form."""

from __future__ import annotations

import re

import pytest

from support.fake_kubelet import FakeKubelet
from support.jobs import job, pod_spec, pytorchjob, tfjob
from support.operator import Operators
from support.pods import names
from support.user_client import UserClient, always, eventually
from testbed.control_plane import ControlPlane

FORM = "trainshed.dev/services"
KIND = "PyTorchJob"


def asking(document: dict, form: str | None = "Job") -> dict:
    """The job with the annotation that asks for one Service."""
    document["metadata"]["annotations"] = {FORM: form} if form else {}
    return document


def service_names(user: UserClient) -> list[str]:
    """The names of the Services in the user's namespace."""
    return names(user.core("services"))


@pytest.mark.usefixtures("shared_operator")
@pytest.mark.parametrize("kind", ["TFJob", KIND, "XGBoostJob", "PaddleJob"])
def test_a_job_has_one_service_from_its_begin_to_its_end(user: UserClient, kubelet: FakeKubelet, kind: str):
    leader = "Chief" if kind == "TFJob" else "Master"
    roles = {leader: 1, "Worker": 3}
    user.create(asking(job(kind, "one", policy={"cleanPodPolicy": "All"}, **roles)))
    eventually(lambda: user.state(kind, "one") == "Running", 20)
    (service,) = user.core("services")
    assert (service["metadata"]["name"], service["spec"]["clusterIP"]) == ("one", "None")
    assert service["spec"]["publishNotReadyAddresses"] is True
    pods = eventually(lambda: len(found := user.pods("one")) == 4 and found)
    for pod in pods:
        spec, labels = pod["spec"], pod["metadata"]["labels"]
        assert (spec["hostname"], spec["subdomain"]) == (pod["metadata"]["name"], "one")
        assert spec["dnsConfig"]["searches"] == [f"one.{user.namespace}.svc.cluster.local"]
        assert service["spec"]["selector"].items() <= labels.items()
    kubelet.end(f"one-{leader.lower()}-0", 0)
    eventually(lambda: user.state(kind, "one") == "Succeeded", 20)
    eventually(lambda: service_names(user) == user.pods() == [], 20)
    deletions = eventually(lambda: [said for _, _, said in user.events("one") if re.match("Deleted service", said)])
    assert deletions == ["Deleted service: one"]
    assert [said for _, _, said in user.events("one") if re.match("Created service", said)] == ["Created service: one"]


@pytest.mark.usefixtures("shared_operator", "kubelet")
def test_the_service_of_another_owner_blocks_the_job_until_it_is_gone(user: UserClient):
    theirs = {"metadata": {"name": "taken"}, "spec": {"clusterIP": "None", "selector": {"app": "theirs"}}}
    user.make("services", theirs)
    user.create(asking(pytorchjob("taken", Master=1)))
    blocked = eventually(lambda: user.conditions(KIND, "taken").get("Blocked"))
    assert blocked["reason"] == "NameConflict"
    assert blocked["message"].startswith("service taken already exists and is not controlled by this job;")
    assert user.core("services")[0]["spec"]["selector"] == {"app": "theirs"}
    user.delete("services", "taken")
    eventually(lambda: user.state(KIND, "taken") == "Running", 60)
    assert user.core("services")[0]["metadata"]["ownerReferences"][0]["name"] == "taken"


@pytest.mark.usefixtures("shared_operator", "kubelet")
@pytest.mark.parametrize(("before", "after"), [(None, "Job"), ("Job", "Replica")])
def test_a_running_job_changes_its_form_when_its_pods_are_created_again(user: UserClient, before: str, after: str):
    forms = {"Job": ["s"], "Replica": ["s-master-0", "s-worker-0"], None: ["s-master-0", "s-worker-0"]}
    user.create(asking(pytorchjob("s", Master=1, Worker=1), before))
    eventually(lambda: user.state(KIND, "s") == "Running", 20)
    assert service_names(user) == forms[before]
    user.patch_job(KIND, "s", {"metadata": {"annotations": {FORM: after}}})
    always(lambda: service_names(user) == forms[before] and len(user.pods()) == 2, 2)
    user.delete("services", forms[before][0])
    eventually(lambda: service_names(user) == forms[before])
    user.patch_job(KIND, "s", {"spec": {"runPolicy": {"suspend": True}}})
    eventually(lambda: service_names(user) == user.pods() == [], 20)
    user.patch_job(KIND, "s", {"spec": {"runPolicy": {"suspend": False}}})
    eventually(lambda: user.state(KIND, "s") == "Running", 20)
    assert service_names(user) == forms[after]
    assert {pod["spec"].get("subdomain") for pod in user.pods()} == {"s" if after == "Job" else None}


@pytest.mark.usefixtures("shared_operator")
def test_a_template_with_a_host_name_of_its_own_is_refused(user: UserClient):
    document = asking(tfjob("own", Worker=1))
    pod_spec(document, "Worker")["subdomain"] = "theirs"
    user.create(document)
    failed = eventually(lambda: user.conditions("TFJob", "own").get("Failed"))
    assert "spec.tfReplicaSpecs[Worker].template.spec.subdomain is set" in failed["message"]
    assert user.core("services") == []


def test_an_upgrade_with_another_default_leaves_running_jobs_as_they_are(
    second_server: ControlPlane, second_user: UserClient, operators: Operators
):
    def begin(*flags: str) -> None:
        where = f"--namespace={user.namespace}"
        operators.begin(second_server.kubeconfig, where, "--no-leader-elect", *flags)

    user = second_user
    with FakeKubelet(user):
        begin()
        user.create(pytorchjob("old", Master=1, Worker=1))
        eventually(lambda: user.state(KIND, "old") == "Running", 20)
        operators.end()
        begin("--default-services=Job")
        user.create(pytorchjob("new", Master=1, Worker=1))
        user.create(asking(pytorchjob("v1s", Master=1), "Replica"))
        own = pytorchjob("own", Master=1)
        pod_spec(own, "Master")["hostname"] = "theirs"
        user.create(own)
        eventually(lambda: all(user.state(KIND, name) == "Running" for name in ("new", "v1s", "own")), 20)
        wanted = ["new", "old-master-0", "old-worker-0", "own-master-0", "v1s-master-0"]
        always(lambda: service_names(user) == wanted, 2)
