"""Jobs that grow and shrink while they run, by `kubectl scale` and by hand."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

from support.fake_kubelet import FakeKubelet
from support.jobs import job, pytorchjob, replicas, tfjob
from support.kubectl import kubectl
from support.pods import env, names
from support.user_client import MERGE, UserClient, eventually
from testbed.control_plane import ControlPlane

pytestmark = pytest.mark.usefixtures("shared_operator")

SCALABLE = ("PyTorchJob", "PaddleJob", "JAXJob")
LABEL = "training.kubeflow.org"
Scale = Callable[[str, str, int], str]


@pytest.fixture
def scale(server: ControlPlane, user: UserClient) -> Scale:
    """Run `kubectl scale`; return its output."""

    def scale(kind: str, name: str, count: int) -> str:
        done = kubectl(server, user, "scale", kind.lower(), name, f"--replicas={count}")
        return done.stdout + done.stderr

    return scale


def workers(name: str, count: int) -> list[str]:
    """The names of the first workers of a job."""
    return [f"{name}-worker-{index}" for index in range(count)]


def uids(user: UserClient) -> dict[str, str]:
    """The uid of each pod."""
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in user.pods()}


def settled(user: UserClient, kind: str, name: str, count: int, others: tuple[str, ...] = ()) -> dict:
    """Wait until this number of workers exist, each with its Service, and the status has them; return the scale."""
    wanted = sorted((*others, *workers(name, count)))
    eventually(lambda: names(user.pods()) == wanted, 20)
    eventually(lambda: names(user.core("services")) == wanted)
    path = user.path(kind, name, "scale")
    return eventually(lambda: (now := user.call("GET", path))["status"].get("replicas", 0) == count and now)


def unharmed(user: UserClient, kind: str) -> bool:
    """The job runs, and nothing has been held against it."""
    status = user.job(kind, "s").get("status", {})
    counted = {"restarts", "failure", "attempts", "podsPendingReplacement"} & {
        key for key, value in status.items() if value
    }
    return user.state(kind, "s") == "Running" and not counted


def said_to_be_deleted(user: UserClient) -> set[str]:
    """The pods that the job's events call deleted; those of one reconcile are one event."""
    messages = [message for _, reason, message in user.events("s") if reason == "SuccessfulDeletePod"]
    return {name for message in messages for name in re.findall(r"s-\S+\d", message)}


@pytest.mark.fault("I3")
@pytest.mark.parametrize("kind", SCALABLE)
def test_scaling_up_and_down_restarts_no_other_pod(user: UserClient, kubelet: FakeKubelet, scale: Scale, kind: str):
    user.create(job(kind, "s", Worker=2))
    settled(user, kind, "s", 2)
    first = uids(user)
    for count in (4, 1, 3):
        assert "scaled" in scale(kind, "s", count)
        found = settled(user, kind, "s", count)
        assert found["spec"]["replicas"] == count
        assert found["status"]["selector"] == (
            f"{LABEL}/job-name=s,{LABEL}/operator-name={kind.lower()}-controller,{LABEL}/replica-type=worker"
        )
    assert uids(user)["s-worker-0"] == first["s-worker-0"]
    assert uids(user)["s-worker-1"] != first["s-worker-1"]
    assert unharmed(user, kind)
    eventually(lambda: said_to_be_deleted(user) == set(workers("s", 4)[1:]))
    assert [event for event in user.events("s") if event[0] == "Warning"] == []


def test_the_selector_finds_exactly_the_workers(user: UserClient, kubelet: FakeKubelet):
    user.create(pytorchjob("s", Master=1, Worker=2))
    user.create(pytorchjob("other", Worker=1))
    scale = user.path("PyTorchJob", "s", "scale")
    found = eventually(lambda: (now := user.call("GET", scale)["status"])["replicas"] == 2 and now["selector"])
    path = f"/api/v1/namespaces/{user.namespace}/pods?labelSelector={found}"
    assert names(user.call("GET", path)["items"]) == workers("s", 2)


def test_the_end_of_a_surplus_pod_is_no_failure(user: UserClient, kubelet: FakeKubelet, scale: Scale):
    user.create(pytorchjob("s", Master=1, Worker=2))
    eventually(lambda: user.state("PyTorchJob", "s") == "Running")
    path = f"/api/v1/namespaces/{user.namespace}/pods/s-worker-1"
    user.call("PATCH", path, {"metadata": {"finalizers": ["test/hold"]}}, MERGE)
    scale("PyTorchJob", "s", 1)
    eventually(lambda: "deletionTimestamp" in user.pod("s-worker-1")["metadata"])
    kubelet.end("s-worker-1", 143)
    user.patch_job("PyTorchJob", "s", {"metadata": {"labels": {"reconcile": "again"}}})
    user.call("PATCH", path, {"metadata": {"finalizers": None}}, MERGE)
    settled(user, "PyTorchJob", "s", 1, ("s-master-0",))
    assert unharmed(user, "PyTorchJob")
    kubelet.end("s-master-0", 0)
    eventually(lambda: user.state("PyTorchJob", "s") == "Succeeded")


def test_an_elastic_jobs_bounds_stay_what_they_are(user: UserClient, kubelet: FakeKubelet, scale: Scale):
    wanted = pytorchjob("s", Worker=2)
    wanted["spec"]["elasticPolicy"] = {"minReplicas": 1, "maxReplicas": 3}
    user.create(wanted)
    settled(user, "PyTorchJob", "s", 2)
    first = uids(user)
    scale("PyTorchJob", "s", 3)
    settled(user, "PyTorchJob", "s", 3)
    assert {name: uids(user)[name] for name in first} == first
    environments = [env(pod) for pod in user.pods()]
    assert [found["PET_NNODES"] for found in environments] == ["1:3"] * 3
    assert [found["PET_RDZV_ENDPOINT"] for found in environments] == ["s-worker-0:23456"] * 3
    assert all(not {"RANK", "WORLD_SIZE", "MASTER_ADDR"} & set(found) for found in environments)


@pytest.mark.parametrize(
    ("wanted", "variables"),
    [
        (pytorchjob("s", Master=1, Worker=1), ("WORLD_SIZE", "RANK")),
        (pytorchjob("s", Master=1, Worker=1), ("PET_NNODES", "PET_NODE_RANK")),
        (pytorchjob("s", Worker=2), ("WORLD_SIZE", "RANK")),
        (job("JAXJob", "s", Worker=2), ("NUM_PROCESSES", "PROCESS_ID")),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else value[0],
)
def test_running_pods_keep_their_environment_when_the_job_is_scaled(
    user: UserClient, kubelet: FakeKubelet, scale: Scale, wanted: dict, variables: tuple[str, str]
):
    kind, (size, rank) = wanted["kind"], variables
    user.create(wanted)
    eventually(lambda: user.state(kind, "s") == "Running")
    first = uids(user)
    scale(kind, "s", 3)
    others = tuple(name for name in first if "master" in name)
    settled(user, kind, "s", 3, others)
    assert {name: uids(user)[name] for name in first} == first
    whole = str(len(others) + 3)
    for pod in user.pods():
        old = pod["metadata"]["name"] in first
        assert env(pod)[size] == ("2" if old else whole)
    assert [env(pod)[rank] for pod in user.pods()] == [str(index) for index in range(int(whole))]


@pytest.mark.fault("I3")
def test_a_jax_job_may_be_scaled_to_zero(user: UserClient, kubelet: FakeKubelet, scale: Scale):
    user.create(job("JAXJob", "s", Worker=2))
    settled(user, "JAXJob", "s", 2)
    scale("JAXJob", "s", 0)
    settled(user, "JAXJob", "s", 0)
    assert "Succeeded" not in user.conditions("JAXJob", "s")
    scale("JAXJob", "s", 1)
    settled(user, "JAXJob", "s", 1)
    kubelet.end("s-worker-0", 0)
    eventually(lambda: user.state("JAXJob", "s") == "Succeeded")


def test_a_pytorch_job_cannot_be_scaled_to_zero(user: UserClient, kubelet: FakeKubelet, scale: Scale):
    user.create(pytorchjob("s", Worker=2))
    settled(user, "PyTorchJob", "s", 2)
    assert "must be at least 1" in scale("PyTorchJob", "s", 0)
    assert replicas(user.job("PyTorchJob", "s"), "Worker")["replicas"] == 2


def test_a_finished_job_is_not_restarted_by_scaling(user: UserClient, kubelet: FakeKubelet, scale: Scale):
    user.create(pytorchjob("s", Master=1, Worker=1))
    eventually(lambda: user.state("PyTorchJob", "s") == "Running")
    kubelet.end("s-master-0", 0)
    eventually(lambda: user.state("PyTorchJob", "s") == "Succeeded")
    before = uids(user)
    scale("PyTorchJob", "s", 3)
    user.create(pytorchjob("later", Master=1))
    eventually(lambda: user.state("PyTorchJob", "later") == "Running")
    assert {name: uid for name, uid in uids(user).items() if name.startswith("s-")} == before


def test_a_suspended_job_resumes_with_its_new_scale(user: UserClient, kubelet: FakeKubelet, scale: Scale):
    user.create(job("PaddleJob", "s", policy={"suspend": True}, Worker=1))
    eventually(lambda: user.state("PaddleJob", "s") == "Suspended")
    scale("PaddleJob", "s", 3)
    user.patch_job("PaddleJob", "s", {"spec": {"runPolicy": {"suspend": False}}})
    settled(user, "PaddleJob", "s", 3)


def test_dynamic_tensorflow_workers_are_scaled(user: UserClient, kubelet: FakeKubelet):
    wanted = tfjob("s", PS=2, Worker=1)
    wanted["spec"]["enableDynamicWorker"] = True
    user.create(wanted)
    servers = ("s-ps-0", "s-ps-1")
    eventually(lambda: names(user.pods()) == [*servers, "s-worker-0"])
    first = uids(user)
    addresses = [f"{name}.{user.namespace}.svc:2222" for name in servers]
    for count in (3, 2, 3, 1):
        user.patch_job("TFJob", "s", {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": count}}}})
        eventually(lambda count=count: names(user.pods()) == [*servers, *workers("s", count)])
        eventually(lambda count=count: names(user.core("services")) == [*servers, *workers("s", count)])
        assert {name: uids(user)[name] for name in first} == first
        for index, pod in enumerate(user.pods()[2:]):
            here = f"s-worker-{index}.{user.namespace}.svc:2222"
            assert json.loads(env(pod)["TF_CONFIG"]) == {
                "cluster": {"worker": {str(index): here}, "ps": addresses},
                "task": {"type": "worker", "index": index},
            }
    server = json.loads(env(user.pods()[0])["TF_CONFIG"])
    assert server == {"cluster": {"worker": {}, "ps": addresses[:1]}, "task": {"type": "ps", "index": 0}}
    eventually(lambda: unharmed(user, "TFJob"))
