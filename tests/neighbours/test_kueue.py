"""Jobs of all kinds in the queues of the real Kueue: admitted, preempted, evicted and over, within the quota."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import time
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
import yaml

from docs import how_to
from docs.commands import ROOT
from support.api_request import Answer, Request
from support.fake_kubelet import FakeKubelet, Times
from support.fault_proxy import FaultProxy, Forward, Route
from support.jobs import job, pytorchjob, replicas, tfjob
from support.kubectl import kubectl
from support.kueue import API, FRAMEWORKS, PRIORITY_LABEL, QUEUE_LABEL, Kueue, Queues
from support.kueue_jobs import ROLES, KueueUser, over, pair, queued
from support.people import Person
from support.planes import change_to_v2beta1
from support.user_client import UserClient, always, eventually

from .conftest import Bed

#: The HTTP status of a write to an object that another client has written first.
CONFLICT = 409


@pytest.fixture(scope="module")
def operator_flags() -> tuple[str, ...]:
    """The MPIJobs that Kueue knows are v2beta1's."""
    return ("--mpi-version=v2beta1",)


@pytest.fixture(scope="module")
def kueue(bed: Bed) -> Iterator[Kueue]:
    """Kueue as its manifests install it, with the kinds of kubeflow.org."""
    change_to_v2beta1(bed.plane)
    with Kueue.installed(bed.plane, bed.services, bed.folder / "kueue") as kueue:
        yield kueue


@pytest.fixture
def user(bed: Bed, kueue: Kueue, operator: object) -> UserClient:
    """A user in a namespace of its own, on a cluster with Kueue and the operator."""
    return KueueUser.somewhere(bed.kubeconfig)


def explained(user: UserClient, bed: Bed, name: str) -> str:
    """The story of a job."""
    return Person(bed.kubeconfig, user.namespace).says("explain", name)


def state(user: UserClient, kind: str, name: str) -> Callable[[], str]:
    return lambda: user.state(kind, name)


def is_in(user: UserClient, kind: str, name: str, wanted: str) -> Callable[[], bool]:
    return lambda: user.state(kind, name) == wanted


def active(user: UserClient, kind: str, name: str) -> int:
    status = (user.job(kind, name) or {}).get("status", {})
    return sum(count.get("active", 0) for count in status.get("replicaStatuses", {}).values())


def test_the_example_of_the_documentation_is_admitted_and_runs(bed, user):
    kinds, *blocks = how_to.code(ROOT / "docs" / "kueue.md", "yaml")[:3]
    assert set(yaml.safe_load(kinds)["integrations"]["frameworks"]) == {*FRAMEWORKS, "kubeflow.org/mpijob"}
    text = "---\n".join(blocks).replace("team-a", user.namespace)
    done = kubectl(bed.plane, user, "apply", "--validate=strict", "-f", "-", text=text)
    assert done.returncode == 0, done.stderr
    with FakeKubelet(user, lambda _: Times(runs=2)):
        eventually(lambda: user.state("PyTorchJob", "mnist") == "Running", 30)
        eventually(lambda: user.state("PyTorchJob", "mnist") == "Succeeded", 30)
    assert kubectl(bed.plane, user, "get", "workloads").stdout.count("True") == 2, "admitted and finished"


def test_jobs_of_all_kinds_wait_run_and_give_their_quota_back(user):
    queues = Queues(user, 8)
    bodies = [pair(kind, kind.lower()) for kind in ROLES]
    with FakeKubelet(user, lambda name: Times(runs=None if name == "mpijob-worker-0" else 2)) as nodes:
        for body in bodies:
            assert user.create(body)["spec"]["runPolicy"]["suspend"] is True
        waiting = [kind for kind in ROLES if eventually(state(user, kind, kind.lower()), 30) == "Suspended"]
        assert waiting, "twelve pods do not fit"
        eventually(lambda: over(user, bodies), 120)
        eventually(lambda: queues.usage() == 0, 20)
    assert nodes.peak <= 8
    assert queues.outcomes() == {kind.lower(): "Succeeded" for kind in ROLES}


def test_the_plan_of_a_job_says_what_its_queue_has_left_and_who_waits_before(bed, user):
    queues = Queues(user, 3)

    def planned(workers: int) -> list[str]:
        text = json.dumps(queued(tfjob("next", Worker=workers)))
        done = Person(bed.kubeconfig, user.namespace).run("plan", "-f", "-", "-o", "json", stdin=text)
        return [item["message"] for item in json.loads(done.stdout)[0]["assessments"] if item["part"] == "Queue"]

    eventually(lambda: planned(2) == [f"ClusterQueue {queues.name} has quota left: flavour {queues.name}"], 30)
    for name in ("first", "second"):
        user.create(queued(tfjob(name, Worker=2)))
        eventually(lambda: queues.usage() == 2, 30)
    eventually(lambda: len(planned(2)) == 2, 30)
    lacks, waits = planned(2)
    used = f"of flavour {queues.name} 2 of 3 are used"
    assert lacks == f"ClusterQueue {queues.name} has too little for Worker: 2 cpu are asked for, and {used}"
    assert waits.startswith(f"1 Workload waits in ClusterQueue {queues.name}")
    assert planned(4)[0].endswith(f"{used}, so that it does not fit even when all else has ended")


@pytest.mark.parametrize(("starts", "phase"), [(60, "Pending"), (0.2, "Running")])
def test_a_job_that_is_preempted_keeps_its_quota_until_its_pods_are_gone(user, starts, phase):
    queues = Queues(user, 2, preemption={"withinClusterQueue": "LowerPriority"})
    urgent = {"metadata": {"name": f"{user.namespace}-urgent"}, "value": 100}
    kind = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass"}
    user.call("POST", f"{API}/workloadpriorityclasses", kind | urgent)
    times = {"low-worker-0": Times(starts=starts, stops=6), "low-worker-1": Times(starts=starts, stops=3)}
    with FakeKubelet(user, lambda name: times.get(name, Times(runs=2))) as nodes:
        user.create(queued(tfjob("low", Worker=2)))
        eventually(lambda: len(user.pods("low")) == 2, 30)
        eventually(lambda: active(user, "TFJob", "low") == 2, 5)
        eventually(lambda: {pod["status"]["phase"] for pod in user.pods("low")} == {phase}, 10)
        first = {pod["metadata"]["uid"] for pod in user.pods("low")}
        times.clear()
        user.create(queued(pytorchjob("high", Master=1, Worker=1), **{PRIORITY_LABEL: urgent["metadata"]["name"]}))
        eventually(lambda: user.state("TFJob", "low") == "Suspended", 30)
        eventually(lambda: user.state("PyTorchJob", "high") == "Succeeded", 60)
        eventually(lambda: user.state("TFJob", "low") == "Succeeded", 60)
    assert nodes.peak <= 2
    assert first.isdisjoint(pod["metadata"]["uid"] for pod in user.pods("low")), "its pods are made again"
    eventually(lambda: queues.usage() == 0, 20)


def test_node_selectors_and_tolerations_of_a_flavour_reach_the_pods_and_leave_with_the_admission(user):
    toleration = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}
    queues = Queues(user, 2, flavor={"nodeLabels": {"pool": "gpu"}, "tolerations": [toleration]})
    with FakeKubelet(user, lambda _: Times()):
        user.create(queued(tfjob("mnist", Worker=2)))
        eventually(lambda: user.state("TFJob", "mnist") == "Running", 30)
        for spec in (pod["spec"] for pod in user.pods()):
            assert spec["nodeSelector"] == {"pool": "gpu"}
            assert toleration.items() <= next(one for one in spec["tolerations"] if one.get("key") == "gpu").items()
        queues.patch_workload("mnist", {"spec": {"active": False}})
        eventually(lambda: user.state("TFJob", "mnist") == "Suspended", 30)
        eventually(lambda: user.pods() == [], 20)
        template = replicas(user.job("TFJob", "mnist"), "Worker")["template"]["spec"]
        assert not template.get("nodeSelector")


def test_commands_change_a_job_in_a_queue_or_say_in_a_line_that_kueue_decides(bed, user):
    queues, person = Queues(user, 2), Person(bed.kubeconfig, user.namespace)

    def is_refused(*words: str) -> str:
        done = person.run(*words)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done
        return done.stderr

    def sizes(name: str) -> list[int]:
        found = queues.workloads().get(name) or {"spec": {"podSets": []}}  # Kueue makes another one
        return [item["count"] for item in found["spec"]["podSets"]]

    def scaled(name: str) -> str:
        done = person.run("scale", name, "--replicas", "1")
        eventually(lambda: sizes(name) == [1], 60)
        return done.stderr

    with FakeKubelet(user, lambda name: Times(runs=2 if name.startswith("second") else None)):
        for name, becomes in (("first", "Running"), ("second", "Suspended")):
            done = person.run("submit", "--no-follow", "-f", "-", stdin=json.dumps(queued(tfjob(name, Worker=2))))
            assert done.returncode == 0, done.stderr
            assert person.run("wait", name, "--for", becomes, "--timeout", "30s").returncode == 0
        assert "Kueue starts and stops tfjob/second" in is_refused("suspend", "second")
        assert "once its queue has quota for all of it: trainshed explain" in is_refused("resume", "second")
        assert person.says("resume", "first") == "tfjob/first is not suspended\n"
        assert "Kueue starts and stops tfjob/first" in is_refused("restart", "first")
        stop = is_refused("suspend", "first").partition("kubectl ")[2]
        assert scaled("second") == "Kueue starts it at its new size when its queue has room for all of it.\n"
        assert scaled("first").startswith("Kueue stops the job, and starts it at its new size")
        eventually(lambda: len(user.pods("first")) == 1 and user.state("TFJob", "first") == "Running", 60)
        eventually(is_in(user, "TFJob", "second", "Succeeded"), 60)
        assert kubectl(bed.plane, user, *shlex.split(stop)).returncode == 0, "what the refusal says works"
        eventually(is_in(user, "TFJob", "first", "Suspended"), 30)
        start = is_refused("resume", "first").partition("kubectl ")[2].replace("false", "true")
        assert kubectl(bed.plane, user, *shlex.split(start)).returncode == 0
        eventually(is_in(user, "TFJob", "first", "Running"), 30)
        assert person.says("delete", "first", "--wait", "--timeout", "60s") == "tfjob/first deleted\n"
        assert user.pods("first") == []
        eventually(lambda: queues.usage() == 0, 30)


def test_a_job_that_is_deactivated_gives_its_quota_back_and_runs_again_when_it_is_activated(bed, user):
    queues = Queues(user, 2)
    with FakeKubelet(user, lambda _: Times()):
        user.create(queued(job("JAXJob", "mnist", Worker=2)))
        eventually(lambda: user.state("JAXJob", "mnist") == "Running", 30)
        queues.patch_workload("mnist", {"spec": {"active": False}})
        eventually(lambda: user.pods() == [] and queues.usage() == 0, 30)
        assert user.state("JAXJob", "mnist") == "Suspended"
        assert "is deactivated: its spec.active is false (The workload is deactivated)" in explained(user, bed, "mnist")
        queues.patch_workload("mnist", {"spec": {"active": True}})
        eventually(lambda: user.state("JAXJob", "mnist") == "Running", 30)


def test_a_job_larger_than_the_quota_waits_whole_and_one_that_is_deleted_while_it_waits_leaves_nothing(
    bed, user, kueue
):
    queues = Queues(user, 2)

    def place(name: str) -> str:
        return next((line.strip() for line in explained(user, bed, name).splitlines() if "It is " in line), "")

    def in_all(number: int) -> str:
        own = ", by priority and age; other LocalQueues may share its quota"
        return f", and number {number} in its ClusterQueue" if kueue.is_visible else own

    with FakeKubelet(user, lambda _: Times(runs=1)):
        user.create(queued(job("PaddleJob", "big", Worker=3)))
        eventually(lambda: user.state("PaddleJob", "big") == "Suspended", 30)
        always(lambda: user.pods() == [], 2)
        user.create(queued(job("PaddleJob", "bigger", Worker=4)))
        eventually(lambda: user.state("PaddleJob", "bigger") == "Suspended", 30)
        eventually(lambda: "insufficient quota for cpu in flavor" in explained(user, bed, "bigger"), 30)
        second = {"metadata": {"name": "teaching"}, "spec": {"clusterQueue": queues.name}}
        kind = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue"}
        user.call("POST", f"{API}/namespaces/{user.namespace}/localqueues", kind | second)
        user.create(queued(job("PaddleJob", "other", Worker=3), **{QUEUE_LABEL: "teaching"}))
        eventually(lambda: place("other") == "It is the only one that waits in LocalQueue teaching" + in_all(3), 30)
        for number, name in enumerate(("big", "bigger"), 1):
            text = explained(user, bed, name)
            assert place(name) == f"It is number {number} of the 2 that wait in LocalQueue research" + in_all(number)
            assert "and never starts: request less" in text
        for name in ("big", "bigger", "other"):
            user.delete_job("PaddleJob", name)
        eventually(lambda: not queues.workloads(), 30)
        user.create(queued(job("PaddleJob", "small", Worker=2)))
        eventually(lambda: user.state("PaddleJob", "small") == "Succeeded", 60)


def test_a_pod_whose_sidecar_runs_on_is_stopped_before_the_next_job_is_admitted(user):
    Queues(user, 1)
    with FakeKubelet(user, lambda name: Times(runs=1, sidecar=name.startswith("first"))) as nodes:
        bodies = [queued(tfjob(name, Worker=1)) for name in ("first", "second")]
        for body in bodies:
            user.create(body)
        eventually(lambda: "SuccessCriteriaMet" in user.conditions("TFJob", "first"), 30)
        eventually(lambda: over(user, bodies), 90)
    assert nodes.peak == 1


def test_jobs_are_admitted_and_finished_after_kueue_was_killed(user, kueue):
    queues = Queues(user, 2)
    names = [f"mnist-{number}" for number in range(7)]
    bodies = [queued(tfjob(name, Worker=1 + number % 2)) for number, name in enumerate(names)]
    with FakeKubelet(user, lambda _: Times(runs=2)) as nodes:
        for body in bodies:
            user.create(body)
        eventually(user.pods, 30)
        kueue.kill()
        eventually(lambda: any(user.state("TFJob", name) == "Succeeded" for name in names), 30)
        assert user.state("TFJob", names[-1]) == "Suspended"
        user.delete_job("TFJob", names.pop())
        bodies.pop()
        kueue.start()
        eventually(lambda: over(user, bodies), 120)
        eventually(lambda: queues.usage() == 0, 20)
        eventually(lambda: queues.outcomes() == dict.fromkeys(names, "Succeeded"), 20)
    assert nodes.peak <= 2


@pytest.mark.parametrize("count", [30, pytest.param(100, marks=pytest.mark.long)])
def test_many_jobs_pass_a_quota_for_five_pods_which_is_never_exceeded(user, count):
    queues = Queues(user, 5)
    kinds = [list(ROLES)[number % len(ROLES)] for number in range(count)]
    bodies = [pair(kind, f"job-{number}") for number, kind in enumerate(kinds)]
    endless = {f"job-{number}-worker-0" for number, kind in enumerate(kinds) if kind == "MPIJob"}
    began = time.monotonic()
    with FakeKubelet(user, lambda name: Times(runs=None if name in endless else 0.5, report=3, stops=0.5)) as nodes:
        for body in bodies:
            user.create(body)
        eventually(lambda: over(user, bodies), 900, every=1)
        print(f"{count} jobs: {time.monotonic() - began:.0f} s, at most {nodes.peak} pods at a time")
        eventually(lambda: queues.usage() == 0, 20)
    assert nodes.peak <= 5
    assert queues.outcomes() == {f"job-{number}": "Succeeded" for number in range(count)}
    assert len(nodes.created) == len(set(nodes.created)) == 2 * count, "each pod is created once"


def test_conflicts_with_kueues_own_patches_are_resolved_at_once(bed, user, operator, operators):
    queues = Queues(user, 2)
    first = []  # what Kueue writes to `suspend` before the operator's next status arrives

    async def after_kueue(request: Request, forward: Forward) -> Answer:
        if request.parts[3] == "status" and first and request.name == "mnist":
            wanted = first.pop(0)
            while user.job("TFJob", "mnist")["spec"]["runPolicy"]["suspend"] is not wanted:
                await asyncio.sleep(0.01)
        return await forward()

    operator.stop()
    times = {"mnist-worker-1": Times(runs=3)}
    with FaultProxy.start(bed.kubeconfig) as proxy, FakeKubelet(user, lambda name: times.get(name, Times())) as nodes:
        route = proxy.routes[user.namespace] = Route(on_write=after_kueue)
        other = operators.begin(proxy.kubeconfig(bed.folder), "--no-leader-elect", "--mpi-version=v2beta1")
        user.create(queued(tfjob("mnist", Worker=2)))
        eventually(lambda: user.state("TFJob", "mnist") == "Running", 30)
        first.append(True)
        eventually(lambda: not first, 30)
        queues.patch_workload("mnist", {"spec": {"active": False}})
        eventually(lambda: user.state("TFJob", "mnist") == "Suspended" and user.pods() == [], 30)
        errors = re.findall(
            r'^trainshed_reconcile_errors_total\{.*error="(\w+)".*\} (\S+)', other.served(), re.MULTILINE
        )
        assert other.stop() == 0
    operator.start()
    assert nodes.peak == 2
    assert {error for error, count in errors if float(count)} == {"Conflict"}
    after = [later.at - each.at for each, later in pairwise(route.passed) if each.stored == CONFLICT]
    print("seconds from a conflict to the next write:", after)
    assert len(after) == 1, "the first status of a suspended job waits a second, so Kueue's first patch meets none"
    assert after[0] < 0.5


def test_a_job_that_another_cluster_runs_is_left_alone(user):
    Queues(user, 1)
    body = queued(tfjob("remote", policy={"managedBy": "kueue.x-k8s.io/multikueue"}, Worker=1))
    with FakeKubelet(user, lambda _: Times(runs=1)):
        user.create(body)
        local = queued(tfjob("local", Worker=1))
        mirrored = {"status": {"conditions": [{"type": "Running", "status": "True", "reason": "r", "message": "m"}]}}
        user.call("PATCH", user.path("TFJob", "remote", "status"), mirrored, "application/merge-patch+json")
        user.create(local)
        always(lambda: user.pods("remote") == [], 3)
        assert user.job("TFJob", "remote")["status"] == mirrored["status"]


def test_a_job_whose_pods_are_not_ready_in_time_is_evicted_and_at_last_deactivated(user, kueue):
    retry = {"backoffBaseSeconds": 1, "backoffLimitCount": 1, "timestamp": "Eviction"}
    kueue.restart(waitForPodsReady={"timeout": "5s", "requeuingStrategy": retry})
    queues = Queues(user, 1)
    with FakeKubelet(user, lambda name: Times(starts=600 if name.startswith("stuck") else 0.2, runs=2)) as nodes:
        user.create(queued(tfjob("stuck", Worker=1)))
        eventually(lambda: user.pods("stuck"), 30)
        user.create(queued(tfjob("ready", Worker=1)))
        eventually(lambda: user.state("TFJob", "ready") == "Succeeded", 60)
        eventually(lambda: not queues.workloads()["stuck"]["spec"].get("active", True), 60)
        eventually(lambda: user.pods("stuck") == [], 20)
        assert user.state("TFJob", "stuck") == "Suspended"
    assert nodes.peak == 1
