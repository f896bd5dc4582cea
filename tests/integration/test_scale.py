"""Jobs that grow and shrink while they run, by `kubectl scale` and by hand."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

from support.fake_kubelet import Stage
from support.jobs import job, pytorchjob, replicas, tfjob
from support.kubectl import kubectl
from support.pods import env, names
from support.user_client import MERGE, Hand, eventually
from testbed.control_plane import ControlPlane

pytestmark = pytest.mark.usefixtures("shared_operator")

SCALABLE = ("PyTorchJob", "PaddleJob", "JAXJob")
LABEL = "training.kubeflow.org"
Scale = Callable[[str, str, int], str]


@pytest.fixture
def scale(server: ControlPlane, hand: Hand) -> Scale:
    """`kubectl scale`; what it says."""

    def scale(kind: str, name: str, count: int) -> str:
        done = kubectl(server, hand, "scale", kind.lower(), name, f"--replicas={count}")
        return done.stdout + done.stderr

    return scale


def workers(name: str, count: int) -> list[str]:
    """The names of the first workers of a job."""
    return [f"{name}-worker-{index}" for index in range(count)]


def uids(hand: Hand) -> dict[str, str]:
    """The uid of each pod."""
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in hand.pods()}


def settled(hand: Hand, kind: str, name: str, count: int, others: tuple[str, ...] = ()) -> dict:
    """So many workers are there, each with its Service, and the status says so; the scale as it is then."""
    wanted = sorted((*others, *workers(name, count)))
    eventually(lambda: names(hand.pods()) == wanted, 20)
    eventually(lambda: names(hand.core("services")) == wanted)
    path = hand.path(kind, name, "scale")
    return eventually(lambda: (now := hand.call("GET", path))["status"].get("replicas", 0) == count and now)


def unharmed(hand: Hand, kind: str) -> bool:
    """The job runs, and nothing has been held against it."""
    status = hand.job(kind, "s").get("status", {})
    counted = {"restarts", "failure", "attempts", "podsPendingReplacement"} & {
        key for key, value in status.items() if value
    }
    return hand.state(kind, "s") == "Running" and not counted


def said_to_be_deleted(hand: Hand) -> set[str]:
    """The pods that the job's events call deleted; those of one look are one event."""
    told = [message for _, reason, message in hand.events("s") if reason == "SuccessfulDeletePod"]
    return {name for message in told for name in re.findall(r"s-\S+\d", message)}


@pytest.mark.parametrize("kind", SCALABLE)
def test_a_job_grows_and_shrinks_without_harm(hand: Hand, stage: Stage, scale: Scale, kind: str):
    hand.create(job(kind, "s", Worker=2))
    settled(hand, kind, "s", 2)
    first = uids(hand)
    for count in (4, 1, 3):
        assert "scaled" in scale(kind, "s", count)
        found = settled(hand, kind, "s", count)
        assert found["spec"]["replicas"] == count
        assert found["status"]["selector"] == (
            f"{LABEL}/job-name=s,{LABEL}/operator-name={kind.lower()}-controller,{LABEL}/replica-type=worker"
        )
    assert uids(hand)["s-worker-0"] == first["s-worker-0"]
    assert uids(hand)["s-worker-1"] != first["s-worker-1"]
    assert unharmed(hand, kind)
    eventually(lambda: said_to_be_deleted(hand) == set(workers("s", 4)[1:]))
    assert [told for told in hand.events("s") if told[0] == "Warning"] == []


@pytest.mark.parametrize("kind", SCALABLE)
def test_the_selector_finds_exactly_the_workers(hand: Hand, stage: Stage, kind: str):
    roles = {"Worker": 2} if kind == "JAXJob" else {"Master": 1, "Worker": 2}
    hand.create(job(kind, "s", **roles))
    hand.create(job(kind, "other", Worker=1))
    found = settled_selector(hand, kind)
    path = f"/api/v1/namespaces/{hand.namespace}/pods?labelSelector={found}"
    assert names(hand.call("GET", path)["items"]) == workers("s", 2)


def settled_selector(hand: Hand, kind: str) -> str:
    """What an autoscaler is told to count."""
    path = hand.path(kind, "s", "scale")
    return eventually(lambda: (now := hand.call("GET", path)["status"])["replicas"] == 2 and now["selector"])


def test_how_a_pod_that_is_not_wanted_ends_is_no_failure(hand: Hand, stage: Stage, scale: Scale):
    hand.create(pytorchjob("s", Master=1, Worker=2))
    eventually(lambda: hand.state("PyTorchJob", "s") == "Running")
    path = f"/api/v1/namespaces/{hand.namespace}/pods/s-worker-1"
    hand.call("PATCH", path, {"metadata": {"finalizers": ["test/hold"]}}, MERGE)
    scale("PyTorchJob", "s", 1)
    eventually(lambda: "deletionTimestamp" in hand.pod("s-worker-1")["metadata"])
    stage.end("s-worker-1", 143)
    hand.patch_job("PyTorchJob", "s", {"metadata": {"labels": {"look": "again"}}})
    hand.call("PATCH", path, {"metadata": {"finalizers": None}}, MERGE)
    settled(hand, "PyTorchJob", "s", 1, ("s-master-0",))
    assert unharmed(hand, "PyTorchJob")
    stage.end("s-master-0", 0)
    eventually(lambda: hand.state("PyTorchJob", "s") == "Succeeded")


def test_an_elastic_jobs_bounds_stay_what_they_are(hand: Hand, stage: Stage, scale: Scale):
    wanted = pytorchjob("s", Worker=2)
    wanted["spec"]["elasticPolicy"] = {"minReplicas": 1, "maxReplicas": 3}
    hand.create(wanted)
    settled(hand, "PyTorchJob", "s", 2)
    first = uids(hand)
    scale("PyTorchJob", "s", 3)
    settled(hand, "PyTorchJob", "s", 3)
    assert {name: uids(hand)[name] for name in first} == first
    told = [env(pod) for pod in hand.pods()]
    assert [found["PET_NNODES"] for found in told] == ["1:3"] * 3
    assert [found["PET_RDZV_ENDPOINT"] for found in told] == ["s-worker-0:23456"] * 3
    assert all(not {"RANK", "WORLD_SIZE", "MASTER_ADDR"} & set(found) for found in told)


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
def test_who_runs_already_is_told_nothing_new(
    hand: Hand, stage: Stage, scale: Scale, wanted: dict, variables: tuple[str, str]
):
    kind, (size, rank) = wanted["kind"], variables
    hand.create(wanted)
    eventually(lambda: hand.state(kind, "s") == "Running")
    first = uids(hand)
    scale(kind, "s", 3)
    others = tuple(name for name in first if "master" in name)
    settled(hand, kind, "s", 3, others)
    assert {name: uids(hand)[name] for name in first} == first
    whole = str(len(others) + 3)
    for pod in hand.pods():
        old = pod["metadata"]["name"] in first
        assert env(pod)[size] == ("2" if old else whole)
    assert [env(pod)[rank] for pod in hand.pods()] == [str(index) for index in range(int(whole))]


def test_a_jax_job_may_have_no_workers_for_a_while(hand: Hand, stage: Stage, scale: Scale):
    hand.create(job("JAXJob", "s", Worker=2))
    settled(hand, "JAXJob", "s", 2)
    scale("JAXJob", "s", 0)
    settled(hand, "JAXJob", "s", 0)
    assert "Succeeded" not in hand.conditions("JAXJob", "s")
    scale("JAXJob", "s", 1)
    settled(hand, "JAXJob", "s", 1)
    stage.end("s-worker-0", 0)
    eventually(lambda: hand.state("JAXJob", "s") == "Succeeded")


def test_a_pytorch_job_keeps_a_worker(hand: Hand, stage: Stage, scale: Scale):
    hand.create(pytorchjob("s", Worker=2))
    settled(hand, "PyTorchJob", "s", 2)
    assert "must be at least 1" in scale("PyTorchJob", "s", 0)
    assert replicas(hand.job("PyTorchJob", "s"), "Worker")["replicas"] == 2


def test_a_job_that_is_over_stays_over_when_it_is_scaled(hand: Hand, stage: Stage, scale: Scale):
    hand.create(pytorchjob("s", Master=1, Worker=1))
    eventually(lambda: hand.state("PyTorchJob", "s") == "Running")
    stage.end("s-master-0", 0)
    eventually(lambda: hand.state("PyTorchJob", "s") == "Succeeded")
    before = uids(hand)
    scale("PyTorchJob", "s", 3)
    hand.create(pytorchjob("later", Master=1))
    eventually(lambda: hand.state("PyTorchJob", "later") == "Running")
    assert {name: uid for name, uid in uids(hand).items() if name.startswith("s-")} == before


def test_a_suspended_job_gets_as_many_as_it_was_scaled_to(hand: Hand, stage: Stage, scale: Scale):
    hand.create(job("PaddleJob", "s", policy={"suspend": True}, Worker=1))
    eventually(lambda: hand.state("PaddleJob", "s") == "Suspended")
    scale("PaddleJob", "s", 3)
    hand.patch_job("PaddleJob", "s", {"spec": {"runPolicy": {"suspend": False}}})
    settled(hand, "PaddleJob", "s", 3)


def test_dynamic_tensorflow_workers_come_and_go(hand: Hand, stage: Stage):
    wanted = tfjob("s", PS=2, Worker=1)
    wanted["spec"]["enableDynamicWorker"] = True
    hand.create(wanted)
    servers = ("s-ps-0", "s-ps-1")
    eventually(lambda: names(hand.pods()) == [*servers, "s-worker-0"])
    first = uids(hand)
    addresses = [f"{name}.{hand.namespace}.svc:2222" for name in servers]
    for count in (3, 2, 3, 1):
        hand.patch_job("TFJob", "s", {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": count}}}})
        eventually(lambda count=count: names(hand.pods()) == [*servers, *workers("s", count)])
        eventually(lambda count=count: names(hand.core("services")) == [*servers, *workers("s", count)])
        assert {name: uids(hand)[name] for name in first} == first
        for index, pod in enumerate(hand.pods()[2:]):
            here = f"s-worker-{index}.{hand.namespace}.svc:2222"
            assert json.loads(env(pod)["TF_CONFIG"]) == {
                "cluster": {"worker": {str(index): here}, "ps": addresses},
                "task": {"type": "worker", "index": index},
            }
    server = json.loads(env(hand.pods()[0])["TF_CONFIG"])
    assert server == {"cluster": {"worker": {}, "ps": addresses[:1]}, "task": {"type": "ps", "index": 0}}
    eventually(lambda: unharmed(hand, "TFJob"))
