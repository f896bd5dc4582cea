"""The framework's container decides, whatever admission webhooks put before or after it: each end with each injection.

Its name is that of the template. v1 goes by the phase of the pod; the column `v1` has its verdict where it is another
one, because a sidecar decides there (D50).
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from support.builders import T0, a_pod, at, message, states
from support.reported import documents
from trainshed.api import parse
from trainshed.api.actions import Plan, Snapshot
from trainshed.api.framework import JobDefaults
from trainshed.api.job import Job
from trainshed.api.objects import Container, Pod, TerminatedState
from trainshed.api.status import ConditionType, Status
from trainshed.frameworks import FRAMEWORKS, MPI_V2BETA1
from trainshed.plan import plan

KINDS = {f"{framework.kind} {framework.version}": framework for framework in (*FRAMEWORKS, MPI_V2BETA1)}
every_kind = pytest.mark.parametrize("kind", KINDS)
#: The role whose one replica decides.
DECISIVE = {"TFJob": "Worker", "JAXJob": "Worker", "MPIJob": "Launcher"}
#: Where a webhook puts its container.
INJECTIONS = ("none", "before", "after", "both", "native")


def container_name(kind: str) -> str:
    framework = KINDS[kind]
    return framework.container.name if framework.container.by_name else "main"


def document(kind: str, *, restart: str = "Never", template: dict | None = None, **spec) -> dict:
    framework = KINDS[kind]
    one = template or {"spec": {"containers": [{"name": container_name(kind), "image": "x"}]}}
    roles = {DECISIVE.get(framework.kind, "Master"): 1} | ({"Worker": 2} if framework.kind == "MPIJob" else {})
    replicas = {role: {"replicas": n, "restartPolicy": restart, "template": one} for role, n in roles.items()}
    metadata = {"name": "m", "namespace": "ml", "uid": "job-uid", "resourceVersion": "1", "generation": 1}
    return {"metadata": metadata, "spec": {framework.field: replicas, **spec}}


def job_of(kind: str, **fields) -> Job:
    found = parse.job(document(kind, **fields), KINDS[kind], JobDefaults())
    assert found.problems == ()
    return found


def plan_for(kind: str, job: Job, pods: list[Pod], status: Status, now: float) -> Plan:
    return plan(Snapshot(job, KINDS[kind], JobDefaults(), status, tuple(pods), (), at(now)))


def with_others(own: Container, others: tuple[Container, ...], injection: str) -> tuple[Container, ...]:
    """Return the containers of a pod in the order of its spec."""
    first, second = (msgspec.structs.replace(others[0], name=name) for name in ("proxy", "exporter"))
    native = msgspec.structs.replace(first, init=True, sidecar=True)
    orders = {"none": (), "before": (first,), "after": (), "both": (first,), "native": (native,)}
    behind = {"after": (second,), "both": (second,)}
    return (*orders[injection], own, *behind.get(injection, ()))


def pods_of(job: Job, decisive: tuple[Container, ...], phase: str, **fields) -> list[Pod]:
    """Return the pod that decides, with these containers, and workers of an MPIJob that run."""
    replicas = [str(replica) for replica in job.all_replicas]
    launcher = "launcher" in replicas
    found = []
    for replica in replicas:
        if launcher and replica != "launcher":
            found.append(a_pod(replica, job="m", containers=(Container("main", started=at(0)),), node="node-a"))
        else:
            found.append(a_pod(replica, phase, job="m", containers=decisive, node="node-a", created=T0, **fields))
    return found


def ran(name: str, code: int | None = None, **fields) -> Container:
    ended = {"exit_code": code, "finished": at(20)} if code is not None else {}
    reason = {"reason": "Completed" if code == 0 else "Error"} if code is not None else {}
    return Container(name, **({"started": at(1)} | ended | reason | fields))


def looping(name: str, times: int) -> Container:
    return Container(
        name,
        restarts=times,
        waiting=True,
        reason="CrashLoopBackOff",
        message="back-off",
        before=TerminatedState(1, at(10), at(11), "Error"),
    )


#: The restart policy, how the framework's container is and how the others are, the phase of the pod, and the last true
#: condition; then v1's, if it is another one.
ENDS = {
    "runs": ("Never", ran(""), ran(""), "Running", "Running"),
    "0, sidecar runs on": ("Never", ran("", 0), ran(""), "Running", "Succeeded", "Running"),
    "0, sidecar ends with 0": ("Never", ran("", 0), ran("", 0), "Succeeded", "Succeeded"),
    "0, sidecar fails": ("Never", ran("", 0), ran("", 1), "Failed", "Succeeded", "Failed"),
    "0 under OnFailure, sidecar loops": ("OnFailure", ran("", 0), looping("", 9), "Running", "Succeeded", "Running"),
    "1, sidecar runs on": ("Never", ran("", 1), ran(""), "Running", "Failed", "Running"),
    "1, sidecar ends with 0": ("Never", ran("", 1), ran("", 0), "Failed", "Failed"),
    "1 under ExitCode, sidecar is killed": ("ExitCode", ran("", 1), ran("", 137), "Failed", "Failed"),
    "137 under ExitCode, sidecar runs on": ("ExitCode", ran("", 137), ran(""), "Running", "Restarting", "Running"),
    "137 under ExitCode, sidecar ends with 1": ("ExitCode", ran("", 137), ran("", 1), "Failed", "Restarting"),
    "0, evicted": ("Never", ran("", 0), ran("", 137), "Failed", "Restarting"),
    "runs, sidecar ends with 0": ("Never", ran(""), ran("", 0), "Running", "Running"),
    "runs, sidecar fails": ("Never", ran(""), ran("", 1), "Running", "Running"),
    "runs, sidecar loops": ("OnFailure", ran(""), looping("", 9), "Running", "Running", "Failed"),
    "loops, sidecar runs": ("OnFailure", looping("", 5), ran(""), "Running", "Failed"),
    "waits, sidecar runs": ("Never", Container("", waiting=True, reason="ErrImagePull"), ran(""), "Running", "Blocked"),
}


def rows() -> Iterator[object]:
    for kind in KINDS:
        for injection in INJECTIONS:
            for end in ENDS:
                if injection != "none" or "sidecar" not in end:
                    yield pytest.param(kind, injection, end, id=f"{kind}, {injection}: {end}")


@pytest.mark.parametrize(("kind", "injection", "end"), list(rows()))
def test_the_end_of_the_frameworks_container_is_that_of_its_replica(kind, injection, end):
    restart, own, other, phase, expected, *_ = ENDS[end]
    job = job_of(kind, restart=restart, runPolicy={"backoffLimit": 5})
    own = msgspec.structs.replace(own, name=container_name(kind))
    fields = {"reason": "Evicted"} if "evicted" in end else {}
    pods = pods_of(job, with_others(own, (other,), injection), phase, **fields)
    status = plan_for(kind, job, pods, Status(start=T0), 60).status
    found = [condition.type for condition in status.conditions if condition.true]
    assert str(found[-1]) == expected, states(status)
    assert ("Running" in found) == (expected == "Running")


@every_kind
@pytest.mark.parametrize("injection", INJECTIONS[1:])
def test_a_looping_sidecar_is_named_once_and_blocks_nothing(kind, injection):
    job = job_of(kind, restart="OnFailure", runPolicy={"backoffLimit": 3})
    calm, name = ran(container_name(kind)), "exporter" if injection == "after" else "proxy"
    first = plan_for(kind, job, pods_of(job, with_others(calm, (looping("", 3),), injection), "Running"), Status(), 60)
    assert first.status.condition(ConditionType.BLOCKED) is None
    assert name in [item.container for item in first.status.waiting]
    (item,) = (item for item in first.status.waiting if item.container == name)
    assert (item.reason, item.count) == ("CrashLoopBackOff", 1)
    assert item.message == f"{kind_of(injection)} {name} was restarted 3 times and last exited with code 1"
    later = plan_for(
        kind, job, pods_of(job, with_others(calm, (looping("", 30),), injection), "Running"), first.status, 90
    )
    assert later.status.waiting == first.status.waiting, "its restarts are no news"
    keys = [{event.key for event in found.events if name in event.message} for found in (first, later)]
    assert keys[0] == keys[1] != set()
    assert plan_for(kind, job, pods_of(job, (calm,), "Running"), later.status, 95).status.waiting == ()


def test_a_job_is_no_longer_blocked_when_only_the_sidecar_loops_on():
    kind = "PyTorchJob v1"
    job, loops = job_of(kind, restart="OnFailure"), looping("exporter", 4)
    both = (msgspec.structs.replace(loops, name="pytorch"), loops)
    blocked = plan_for(kind, job, pods_of(job, both, "Running"), Status(), 60).status
    assert ("Blocked" in states(blocked), [item.container for item in blocked.waiting]) == (True, ["pytorch"])
    status = plan_for(kind, job, pods_of(job, (ran("pytorch"), loops), "Running"), blocked, 61).status
    assert ("Blocked" in states(status), [item.container for item in status.waiting]) == (False, ["exporter"])


def kind_of(injection: str) -> str:
    return "init container" if injection == "native" else "container"


@pytest.mark.parametrize("times", [0, 2])
@every_kind
def test_an_injected_init_container_that_fails_first_and_then_succeeds_costs_no_retry(kind, times):
    job = job_of(kind, restart="OnFailure", runPolicy={"backoffLimit": 2})
    init = Container("setup", init=True, exit_code=0, restarts=times, finished=at(1))
    status = plan_for(kind, job, pods_of(job, (init, ran(container_name(kind))), "Running"), Status(), 60).status
    assert status.true(ConditionType.RUNNING)
    assert status.retries.total == 0


@every_kind
def test_an_injected_init_container_that_fails_fails_the_replica_and_is_named(kind):
    job = job_of(kind)
    init = Container("setup", init=True, exit_code=3, started=at(1), finished=at(2), reason="Error")
    waiting = Container(container_name(kind), waiting=True, reason="PodInitializing")
    status = plan_for(kind, job, pods_of(job, (init, waiting), "Failed"), Status(), 60).status
    assert status.true(ConditionType.FAILED)
    assert "container setup of " in message(status, "Failed")


@every_kind
@pytest.mark.parametrize(("code", "phase", "expected"), [(0, "Running", "Running"), (1, "Failed", "Failed")])
def test_where_a_webhook_has_renamed_the_container_the_pod_decides_as_in_v1(kind, code, phase, expected):
    job = job_of(kind)
    containers = (ran("proxy", 0 if phase == "Failed" else None), ran("renamed", code))
    status = plan_for(kind, job, pods_of(job, containers, phase), Status(), 60).status
    assert status.true(ConditionType(expected))
    if expected == "Failed":
        assert status.failure.exit_code == 1
        assert status.failure.message.startswith("container renamed of ")
    alone = pods_of(job, (ran("renamed", 0),), "Running")
    assert plan_for(kind, job, alone, Status(), 60).status.true(ConditionType.SUCCEEDED), "there is no other"


MPI_KINDS = pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith("MPIJob")])


@MPI_KINDS
@pytest.mark.parametrize("injection", INJECTIONS[1:])
def test_a_workers_sidecar_that_ends_or_starts_again_takes_no_success_away(kind, injection):
    job = job_of(kind, restart="OnFailure")
    own, end = ran("main"), ran("", 0, finished=at(15))
    for other in (end, ran("", restarts=1, started=at(10)), looping("", 2)):
        launcher, *workers = pods_of(job, (ran("main", 0),), "Succeeded")
        workers[0] = msgspec.structs.replace(workers[0], containers=with_others(own, (other,), injection))
        assert plan_for(kind, job, [launcher, *workers], Status(), 60).status.true(ConditionType.SUCCEEDED)
    lost = with_others(ran("main", restarts=1, started=at(10)), (ran(""),), injection)
    workers[0] = msgspec.structs.replace(workers[0], containers=lost)
    assert plan_for(kind, job, [launcher, *workers], Status(), 60).status.true(ConditionType.RESTARTING)
    unknown = (ran("renamed", 0, finished=at(15)), ran("proxy"))
    workers[0] = msgspec.structs.replace(workers[0], containers=unknown)
    assert plan_for(kind, job, [launcher, *workers], Status(), 60).status.true(ConditionType.SUCCEEDED)


@MPI_KINDS
def test_a_launcher_does_not_wait_for_the_readiness_of_a_workers_sidecar(kind):
    job = job_of(kind)
    _, *workers = pods_of(job, (), "Running")
    containers = (Container("main", started=at(0), ready=True), looping("exporter", 4))
    ready = [msgspec.structs.replace(pod, containers=containers) for pod in workers]
    assert plan_for(kind, job, ready, Status(), 1).status.replica_statuses["Worker"].ready == 2
    assert (
        "m-launcher" in [getattr(action, "name", "") for action in plan_for(kind, job, ready, Status(), 1).actions][-1:]
    )


@pytest.mark.parametrize(("main", "expected"), [("second", "Failed"), ("", "Succeeded"), ("other", "Succeeded")])
def test_of_several_containers_of_an_mpijob_the_one_that_it_names_decides(main, expected):
    template = {"spec": {"containers": [{"name": "first", "image": "x"}, {"name": "second", "image": "x"}]}}
    job = job_of("MPIJob v1", template=template, mainContainer=main)
    pods = pods_of(job, (ran("proxy"), ran("first", 0), ran("second", 1)), "Running")
    assert plan_for("MPIJob v1", job, pods, Status(), 60).status.true(ConditionType(expected))


@every_kind
@pytest.mark.parametrize("injection", INJECTIONS[1:])
def test_a_replica_whose_container_runs_has_met_the_start_up_deadline(kind, injection):
    raw = document(kind)
    raw["metadata"]["annotations"] = {"trainshed.dev/startup-deadline": "1m"}
    job = parse.job(raw, KINDS[kind], JobDefaults())
    name, stuck = container_name(kind), Container("", waiting=True, reason="ErrImagePull")
    for own, other, failed in ((ran(name), stuck, False), (msgspec.structs.replace(stuck, name=name), ran(""), True)):
        pods = pods_of(job, with_others(own, (other,), injection), "Running")
        assert plan_for(kind, job, pods, Status(), 61).status.true(ConditionType.FAILED) is failed


@pytest.mark.parametrize(("phase", "failed"), [("Pending", True), ("Running", False)])
def test_of_containers_that_nobody_knows_the_phase_tells_whether_they_started_in_time(phase, failed):
    raw = document("JAXJob v1")
    raw["metadata"]["annotations"] = {"trainshed.dev/startup-deadline": "1m"}
    job = parse.job(raw, KINDS["JAXJob v1"], JobDefaults())
    pods = pods_of(job, (ran("proxy"), ran("renamed")), phase)
    assert plan_for("JAXJob v1", job, pods, Status(), 61).status.true(ConditionType.FAILED) is failed


def test_a_pod_that_is_deleted_while_only_its_sidecar_ran_is_created_again_without_a_restart():
    kind = "JAXJob v1"
    job, waiting = job_of(kind), Container("jax", waiting=True, reason="ContainerCreating")
    (pod,) = pods_of(job, (ran("proxy"), waiting), "Running", deleting=True)
    found = plan_for(kind, job, [pod], Status(), 60).status
    assert (found.true(ConditionType.RESTARTING), found.attempts) == (False, {})


@pytest.mark.reported("22-sidecar-crashloop")
@pytest.mark.parametrize("native", [False, True])
def test_the_reported_exporter_is_named_and_the_job_runs(native):
    (raw,) = documents("22-sidecar-crashloop")
    raw["metadata"] |= {"namespace": "ml", "uid": "job-uid", "resourceVersion": "1"}
    kind = "PyTorchJob v1"
    job = parse.job(raw, KINDS[kind], JobDefaults())
    exporter = msgspec.structs.replace(looping("exporter", 10), init=native, sidecar=native)
    pod = a_pod("worker-0", job="exports", containers=(ran("pytorch"), exporter), node="node-a", created=T0)
    limited = msgspec.structs.replace(job, policy=msgspec.structs.replace(job.policy, backoff_limit=3))
    for tried in (job, limited):
        status = plan_for(kind, tried, [pod], Status(), 90).status
        assert states(status) == ["Created", "Running"]
        assert [(item.indexes, item.container, item.reason) for item in status.waiting] == [
            ("0", "exporter", "CrashLoopBackOff")
        ]
