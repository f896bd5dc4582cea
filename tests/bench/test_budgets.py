"""Limits on the number of requests for a job, and none for a job at rest."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import pytest

from support.fake_kubelet import FakeKubelet
from support.jobs import KINDS, job, tfjob
from support.user_client import UserClient, eventually
from trainshed.controller.status_writes import MAX_DEBOUNCE, MAX_FIRST_DELAY, PROGRESS

WRITES = ("create", "patch", "delete", "update")
#: The role that decides about success, for jobs that have one besides workers.
LEADERS = {
    "TFJob": {"Chief": 1},
    "PyTorchJob": {"Master": 1},
    "MPIJob": {"Launcher": 1},
    "XGBoostJob": {"Master": 1},
    "PaddleJob": {"Master": 1},
}
#: MPIJobs: the workers, the restarts of all pods, and the most patches. The ConfigMap follows the workers that run, and
#: the Role names the pods that exist: it is emptied before a restart.
MPI_BUDGETS = [
    (4, 0, {"patch configmaps": 4, "patch roles": 1, "patch mpijobs/status": 2}),
    (4, 1, {"patch configmaps": 9, "patch roles": 3, "patch mpijobs/status": 4}),
    (100, 0, {"patch configmaps": 20, "patch roles": 1, "patch mpijobs/status": 4}),
    (100, 1, {"patch configmaps": 40, "patch roles": 3, "patch mpijobs/status": 10}),
]


@pytest.mark.parametrize("pods", [4, pytest.param(16, marks=pytest.mark.long), 100])
def test_a_job_costs_two_writes_a_pod_and_two_more(pods: int, user: UserClient, measured) -> None:
    began = time.monotonic()
    cpu = measured.cpu()
    with FakeKubelet(user) as kubelet:
        user.create(tfjob("budget", Chief=1, Worker=pods - 1))
        first, made = seconds_until(
            (lambda: user.conditions("TFJob", "budget"), lambda: len(user.pods()) == pods), began
        )
        eventually(lambda: active(user) == pods, 60)
        lasted = time.monotonic() - began
        kubelet.end("budget-chief-0", 0)
        eventually(lambda: user.state("TFJob", "budget") == "Succeeded", 30)
    time.sleep(2)
    requests = measured.requests(user.namespace)
    writes = {what: count for what, count in requests.items() if what.split()[0] in WRITES}
    events = sum(count for what, count in writes.items() if "events" in what)
    print(
        f"\n{pods} pods: {writes}; a status after {first:.2f} s, all pods after {made:.2f} s,"
        f" all active in the status after {lasted:.2f} s, {(measured.cpu() - cpu) / pods * 1000:.1f} ms CPU a pod"
    )
    assert writes["create pods"] == pods
    assert writes["create services"] == pods
    config_maps = 1 if pods > 64 else 0
    between = int(lasted / MAX_DEBOUNCE.total_seconds())  # on a machine that is slow
    if lasted > MAX_FIRST_DELAY.total_seconds():  # the first status does not wait for all pods
        between = max(1, between)
    assert sum(writes.values()) - events - config_maps <= 2 * pods + 2 + between
    assert events <= 6


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("TFJob", "MPIJob")])  # which have their own
def test_a_job_of_any_kind_has_the_same_budget(kind: str, user: UserClient, measured) -> None:
    roles = LEADERS.get(kind, {}) | {"Worker": 8 - len(LEADERS.get(kind, {}))}
    with FakeKubelet(user) as kubelet:
        user.create(job(kind, "budget", **roles))
        eventually(lambda: active(user, kind) == 8, 60)
        for pod in user.pods():
            if pod["metadata"]["name"].endswith("worker-0") or "worker" not in pod["metadata"]["name"]:
                kubelet.end(pod["metadata"]["name"], 0)
        if kind == "JAXJob":
            for number in range(1, 8):
                kubelet.end(f"budget-worker-{number}", 0)
        eventually(lambda: user.state(kind, "budget") == "Succeeded", 30)
    time.sleep(2)
    writes = {what: count for what, count in measured.requests(user.namespace).items() if what.split()[0] in WRITES}
    print(f"\n{kind}: {writes}")
    events = sum(count for what, count in writes.items() if "events" in what)
    assert sum(writes.values()) - events <= 2 * 8 + 2
    assert events <= 6


@pytest.mark.parametrize(("workers", "restarts", "most"), MPI_BUDGETS)
def test_an_mpi_job_and_a_restart_of_all_its_pods_cost_little_more_than_the_pods(
    workers: int, restarts: int, most: dict[str, int], user: UserClient, measured
) -> None:
    pods, began, old = workers + 1, time.monotonic(), set()
    with FakeKubelet(user) as kubelet:
        user.create(job("MPIJob", "budget", restart="ExitCode", Launcher=1, Worker=workers))
        for attempt in range(restarts + 1):
            eventually(lambda old=old: len(uids(user) - old) == pods, 90)
            eventually(lambda: user.job("MPIJob", "budget").get("status", {}).get("ready") == f"{pods}/{pods}", 90)
            old = uids(user)
            kubelet.end(*(("budget-worker-1", 137) if attempt < restarts else ("budget-launcher", 0)))
        eventually(lambda: user.state("MPIJob", "budget") == "Succeeded", 30)
    late = max(0.0, time.monotonic() - began - 10)  # a machine that is slow
    time.sleep(2)
    found = measured.requests(user.namespace)
    writes = {what: count for what, count in found.items() if what.split()[0] in WRITES and "events" not in what}
    print(f"\n{workers} workers, {restarts} restarts: {writes}")
    once = dict.fromkeys(("serviceaccounts", "roles", "rolebindings", "configmaps"), 1)
    exact = {f"create {what}": count for what, count in (once | {"pods": pods * (1 + restarts)}).items()}
    exact |= {"delete pods": pods} if restarts else {}
    assert {what: count for what, count in writes.items() if not what.startswith("patch")} == exact
    limits = most | {"patch mpijobs/status": most["patch mpijobs/status"] + late / MAX_DEBOUNCE.total_seconds()}
    assert {what: count for what, count in writes.items() if what.startswith("patch") and count > limits[what]} == {}
    assert sum(count for what, count in found.items() if "events" in what and what.split()[0] in WRITES) <= 6


def test_the_status_of_a_big_job_shows_progress_while_its_pods_are_created(user: UserClient, measured) -> None:
    pods = 1000
    began = time.monotonic()
    user.create(tfjob("budget", Chief=1, Worker=pods - 1))
    eventually(lambda: "startTime" in user.job("TFJob", "budget").get("status", {}))
    first = time.monotonic() - began
    messages, whole = set(), f" of {pods} pods created"
    while len(user.pods()) < pods:
        messages.add(user.conditions("TFJob", "budget")["Created"]["message"])
        time.sleep(0.5)
    lasted = time.monotonic() - began
    eventually(lambda: not user.conditions("TFJob", "budget")["Created"]["message"].endswith(whole), 10)
    writes = sum(count for what, count in measured.requests(user.namespace).items() if what.startswith("patch tfjobs"))
    print(f"\n{pods} pods: a status after {first:.2f} s, all after {lasted:.1f} s, {writes} status writes, {messages}")
    assert first < 1
    assert any(message.endswith(whole) for message in messages)
    assert writes <= 2 + lasted / PROGRESS.total_seconds()


def test_fifty_running_jobs_at_rest_cause_only_watches_and_lease_renewals(user: UserClient, measured) -> None:
    with FakeKubelet(user):
        for number in range(50):
            user.create(tfjob(f"rest-{number}", Worker=1))
        eventually(lambda: running(user) == 50, 60)
    time.sleep(5)
    before, cpu = measured.requests(), measured.cpu()
    time.sleep(60)
    asked = measured.requests() - before
    others = {what: count for what, count in asked.items() if "leases" not in what and not what.startswith("watch ")}
    print(f"\n60 s of rest: {dict(asked)}, {measured.cpu() - cpu:.2f} s CPU, {measured.memory()} MiB")
    assert others == {}


def seconds_until(things: Sequence[Callable[[], object]], began: float) -> list[float]:
    """Return the seconds from `began` until each of these was first true, in any order."""
    times: dict[int, float] = {}

    def all_seen() -> bool:
        for number, thing in enumerate(things):
            if number not in times and thing():
                times[number] = time.monotonic() - began
        return len(times) == len(things)

    eventually(all_seen, 60)
    return [times[number] for number in range(len(things))]


def uids(user: UserClient) -> set[str]:
    """Return the uids of all pods."""
    return {pod["metadata"]["uid"] for pod in user.pods()}


def active(user: UserClient, kind: str = "TFJob") -> int:
    """Return the number of active replicas in the status."""
    statuses = user.job(kind, "budget").get("status", {}).get("replicaStatuses", {})
    return sum(status.get("active", 0) for status in statuses.values())


def running(user: UserClient) -> int:
    """Return the number of running jobs."""
    return sum(
        any(condition["type"] == "Running" for condition in job.get("status", {}).get("conditions", []))
        for job in user.jobs("TFJob")
    )
