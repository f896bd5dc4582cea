"""Jobs whose pods the real Kueue admits as a group, with its job frameworks for the kinds of kubeflow.org off."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import yaml

from docs import how_to
from docs.commands import ROOT
from support.fake_kubelet import FakeKubelet, Times
from support.jobs import job, replicas
from support.kubectl import kubectl
from support.kueue import API, PRIORITY_LABEL, Kueue, Queues
from support.kueue_jobs import over, queued
from support.people import Person
from support.user_client import UserClient, eventually
from trainshed.api.job_annotations import KUEUE

from .conftest import Bed

#: Seconds in which something has to become true, on a machine with much else to do.
LONG = 240


@pytest.fixture(scope="module")
def kueue(bed: Bed) -> Iterator[Kueue]:
    """Kueue as its manifests install it, but that it knows no kind of kubeflow.org."""
    alone = {"leaderElect": False}  # it would end where a machine with much else to do lets it miss its Lease
    settings = {"integrations": {"frameworks": ["pod"]}, "leaderElection": alone}
    with Kueue.installed(bed.plane, bed.services, bed.folder / "kueue", **settings) as kueue:
        yield kueue


@pytest.fixture
def user(bed: Bed, kueue: Kueue, operator: object) -> UserClient:
    """A user in a namespace of its own."""
    return UserClient.somewhere(bed.kubeconfig)


def ungrouped(body: dict, **labels: str) -> dict:
    """The job of v1 in the user's queue."""
    kind = body["apiVersion"]
    return queued(body, **labels) | {"apiVersion": kind}


def grouped(body: dict, **labels: str) -> dict:
    """The job in the user's queue, its pods as a group."""
    body = ungrouped(body, **labels)
    body["metadata"]["annotations"] = {KUEUE: "PodGroup"}
    return body


def groups(user: UserClient) -> dict[str, tuple[dict[str, int], dict[str, str]]]:
    """The Workloads by name: the pods of each pod set by role, and the conditions that are true with their reasons."""
    found = user.call("GET", f"{API}/namespaces/{user.namespace}/workloads")["items"]
    return {
        item["metadata"]["name"]: (
            {each["name"].partition("-")[0]: each["count"] for each in item["spec"]["podSets"]},
            {
                each["type"]: each["reason"]
                for each in item.get("status", {}).get("conditions", [])
                if each["status"] == "True"
            },
        )
        for item in found
    }


def is_in(user: UserClient, kind: str, name: str, wanted: str) -> Callable[[], bool]:
    return lambda: user.state(kind, name) == wanted


def test_the_example_of_the_documentation_is_admitted_as_a_group_and_runs(bed, user):
    _, queues, body, _, changes = how_to.code(ROOT / "docs" / "kueue.md", "yaml")
    grouped_example = yaml.safe_load(body) | yaml.safe_load(changes)
    assert grouped_example["metadata"]["annotations"] == {KUEUE: "PodGroup"}
    text = f"{queues}---\n{yaml.safe_dump(grouped_example)}".replace("team-a", user.namespace)
    done = kubectl(bed.plane, user, "apply", "--validate=strict", "-f", "-", text=text)
    assert done.returncode == 0, done.stderr
    with FakeKubelet(user, lambda _: Times(runs=2)):
        eventually(is_in(user, "PyTorchJob", "mnist", "Succeeded"), LONG)
    eventually(lambda: "Finished" in next(iter(groups(user).values()))[1], LONG)
    ((sets, conditions),) = groups(user).values()
    assert (sets, conditions["Finished"]) == ({"master": 1, "worker": 3}, "Succeeded")


def test_jobs_of_all_kinds_wait_gated_run_and_give_their_quota_back(bed, user):
    queues, person = Queues(user, 2), Person(bed.kubeconfig, user.namespace)
    kinds = {"PyTorchJob": "Master", "TFJob": "Chief", "MPIJob": "Launcher", "XGBoostJob": "Master"}
    bodies = [
        grouped(job(kind, kind.lower(), policy={"cleanPodPolicy": "None"}, **{first: 1, "Worker": 1}))
        for kind, first in kinds.items()
    ]
    endless = ("hold-worker-0", "hold-worker-1", "mpijob-worker-0")
    with FakeKubelet(user, lambda name: Times(runs=None if name in endless else 1)) as nodes:
        hold = user.create(grouped(job("JAXJob", "hold", Worker=2)))
        assert hold["spec"].get("runPolicy", {}).get("suspend") is not True
        eventually(lambda: queues.usage() == 2, LONG)
        bodies.append(user.create(grouped(job("JAXJob", "waits", Worker=2))))
        eventually(lambda: "waits for Kueue's admission (queue research)" in person.says("explain", "waits"), LONG)
        text = person.says("explain", "waits")
        assert "has waited for quota" in text
        assert "gets quota sooner" in text
        user.delete_job("JAXJob", "hold")
        for body in bodies[:-1]:
            user.create(body)
        eventually(lambda: over(user, bodies), 2 * LONG)
        eventually(lambda: queues.usage() == 0, LONG)
    assert nodes.peak <= 2
    assert len(nodes.created) == len(set(nodes.created)) == 12, "each pod is created once"


def test_a_failed_replica_restarts_the_job_in_a_group_of_its_own_and_a_failed_job_gives_its_quota_back(user):
    queues = Queues(user, 2)
    body = grouped(job("PyTorchJob", "mnist", policy={"backoffLimit": 1}, Master=1, Worker=1))
    for role in ("Master", "Worker"):
        replicas(body, role)["restartPolicy"] = "ExitCode"
    with FakeKubelet(user, lambda name: Times(runs=1, code=143) if name == "mnist-worker-0" else Times()) as nodes:
        user.create(body)
        eventually(is_in(user, "PyTorchJob", "mnist", "Failed"), 2 * LONG)
        eventually(lambda: queues.usage() == 0, LONG)
    assert nodes.peak <= 2
    assert sorted(nodes.created) == sorted(2 * ["mnist-master-0", "mnist-worker-0"])
    ((name, (sets, conditions)),) = groups(user).items()
    assert name.endswith("-2"), "two roles, each in its second attempt"
    assert (sets, "Finished" in conditions) == ({"master": 1, "worker": 1}, True)


@pytest.mark.parametrize("starts", [600, 0.2])
def test_a_job_that_is_preempted_queues_again_and_is_not_charged(user, starts):
    queues = Queues(user, 2, preemption={"withinClusterQueue": "LowerPriority"})
    urgent = {"metadata": {"name": f"{user.namespace}-urgent"}, "value": 100}
    kind = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass"}
    user.call("POST", f"{API}/workloadpriorityclasses", kind | urgent)
    times = dict.fromkeys(("low-worker-0", "low-worker-1"), Times(starts=starts))
    with FakeKubelet(user, lambda name: times.get(name, Times(runs=2))) as nodes:
        user.create(grouped(job("JAXJob", "low", policy={"backoffLimit": 0}, Worker=2)))
        eventually(lambda: sum(bool(pod["spec"].get("nodeName")) for pod in user.pods("low")) == 2, LONG)
        if starts < 1:
            eventually(is_in(user, "JAXJob", "low", "Running"), LONG)
        first = {pod["metadata"]["uid"] for pod in user.pods("low")}
        times.clear()
        user.create(grouped(job("JAXJob", "high", Worker=2), **{PRIORITY_LABEL: urgent["metadata"]["name"]}))
        eventually(is_in(user, "JAXJob", "high", "Succeeded"), LONG)
        eventually(is_in(user, "JAXJob", "low", "Succeeded"), LONG)
        eventually(lambda: queues.usage() == 0, LONG)
    assert nodes.peak <= (2 if starts < 1 else 4), "Kueue does not wait for pods that have never run"
    assert first.isdisjoint(pod["metadata"]["uid"] for pod in user.pods("low"))


def test_with_the_setting_jobs_queue_as_groups_without_the_annotation(bed, user, operator, operators):
    queues, person = Queues(user, 2), Person(bed.kubeconfig, user.namespace)
    assert operator.stop() == 0
    other = operators.begin(bed.kubeconfig, "--no-leader-elect", "--kueue-integration=PodGroup")
    before = job("PyTorchJob", "before", policy={"suspend": True}, Master=1, Worker=1)
    with FakeKubelet(user, lambda _: Times(runs=2)):
        bodies = [user.create(ungrouped(body)) for body in (before, job("MPIJob", "mpi", Launcher=1, Worker=1))]
        eventually(lambda: over(user, bodies[1:]), LONG)
        assert person.says("resume", "before") == "pytorchjob/before resumed\n", "Kueue had suspended it"
        eventually(lambda: over(user, bodies), LONG)
        eventually(lambda: queues.usage() == 0, LONG)
        names = {user.job(body["kind"], body["metadata"]["name"])["status"]["kueueWorkload"] for body in bodies}
        assert names == set(groups(user))
    assert other.stop() == 0
    operator.start()


def test_a_job_is_scaled_suspended_resumed_and_deleted(bed, user):
    queues, person = Queues(user, 3), Person(bed.kubeconfig, user.namespace)
    elastic = grouped(job("PyTorchJob", "mnist", Worker=2))
    elastic["spec"]["elasticPolicy"] = {"minReplicas": 1, "maxReplicas": 3}

    def runs(count: int) -> bool:
        pods = [pod for pod in user.pods("mnist") if pod["status"]["phase"] == "Running"]
        return len(pods) == count == queues.usage() and user.state("PyTorchJob", "mnist") == "Running"

    with FakeKubelet(user, lambda _: Times()) as nodes:
        user.create(elastic)
        eventually(lambda: runs(2), LONG)
        for count in (3, 1):
            done = person.run("scale", "mnist", "--replicas", str(count))
            assert done.stderr.startswith("All replicas restart as another group"), done.stderr
            eventually(lambda count=count: runs(count), LONG)
        assert person.says("suspend", "mnist") == "pytorchjob/mnist suspended\n"
        eventually(lambda: user.pods() == [] and queues.usage() == 0, LONG)
        user.create(grouped(job("JAXJob", "other", Worker=3)))
        eventually(lambda: user.state("JAXJob", "other") == "Running", LONG)
        assert person.says("resume", "mnist") == "pytorchjob/mnist resumed\n"
        eventually(lambda: "waits for Kueue's admission" in person.says("explain", "mnist"), LONG)
        user.delete_job("JAXJob", "other")
        eventually(lambda: runs(1), LONG)
        user.delete_job("PyTorchJob", "mnist")
        eventually(lambda: user.pods() == [] and queues.usage() == 0 and not groups(user), LONG)
    assert nodes.peak <= 3
