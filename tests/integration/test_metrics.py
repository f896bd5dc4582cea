"""/metrics after the lives of several jobs: every counter has the exact value, before and after a restart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from support import Operator, UserClient
from support.fake_kubelet import FakeKubelet
from support.groups import Groups, defined_groups
from support.job_events import event_counts
from support.jobs import pod_spec, pytorchjob, tfjob
from support.user_client import eventually
from testbed.control_plane import ControlPlane

JOBS = "training_operator_jobs_"
#: v1's counters, whole.
COUNTERS = (
    *(f"{JOBS}{what}_total" for what in ("created", "deleted", "successful", "failed", "restarted")),
    *(f"{what}_pods_total" for what in ("created", "deleted", "failed")),
    *(f"{what}_service_creation_total" for what in ("succeeded", "failed")),
    *(f"{what}_pod_groups_total" for what in ("created", "deleted")),
)
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture(scope="module")
def plane(second_server: ControlPlane) -> Iterator[ControlPlane]:
    """A control plane that knows groups of pods."""
    with defined_groups(second_server):
        yield second_server


@pytest.fixture
def user(plane: ControlPlane) -> UserClient:
    """A user in a namespace of its own."""
    return UserClient.somewhere(plane.kubeconfig)


@pytest.fixture
def operator(plane: ControlPlane, user: UserClient, tmp_path: Path) -> Iterator[Operator]:
    """An operator for this module alone, so that it counts no other jobs."""
    operator = Operator(plane.kubeconfig, tmp_path, "--no-leader-elect", f"--namespace={user.namespace}").start()
    yield operator
    if operator.alive:
        operator.kill()


def served(operator: Operator) -> Samples:
    """All samples, by name and labels."""
    families = list(text_string_to_metric_families(operator.served()))
    return {(one.name, frozenset(one.labels.items())): one.value for family in families for one in family.samples}


def value(samples: Samples, name: str, **labels: str) -> float | None:
    return samples.get((name, frozenset(labels.items())))


def counters(samples: Samples, namespace: str, framework: str) -> dict[str, float | None]:
    """v1's counters for a namespace and a framework, but for those that are 0."""
    labels = {"job_namespace": namespace, "framework": framework}
    found = {name: value(samples, name, **labels) for name in COUNTERS}
    return {name: count for name, count in found.items() if count != 0}


def a_job_succeeds_and_goes(user: UserClient, kubelet: FakeKubelet) -> None:
    user.create(tfjob("well", policy={"ttlSecondsAfterFinished": 1}, Worker=2))
    eventually(lambda: user.state("TFJob", "well") == "Running")
    kubelet.end("well-worker-0", 0)
    eventually(lambda: user.job("TFJob", "well") is None)


def a_job_is_restarted_and_fails_for_good(user: UserClient, kubelet: FakeKubelet) -> None:
    user.create(pytorchjob("bad", restart="ExitCode", Master=1, Worker=1))
    eventually(lambda: user.state("PyTorchJob", "bad") == "Running")
    kubelet.end("bad-worker-0", 137)
    eventually(lambda: kubelet.created.count("bad-worker-0") == 2, 20)
    eventually(lambda: user.state("PyTorchJob", "bad") == "Running")
    kubelet.end("bad-master-0", 1)
    eventually(lambda: user.state("PyTorchJob", "bad") == "Failed")


def a_job_runs_out_of_time(user: UserClient) -> None:
    user.create(tfjob("late", policy={"activeDeadlineSeconds": 2, "cleanPodPolicy": "All"}, Worker=1))
    eventually(lambda: user.state("TFJob", "late") == "Failed")
    eventually(lambda: not user.pods("late"))


def a_job_is_suspended_and_resumed(user: UserClient) -> None:
    for suspend, state in ((True, "Suspended"), (False, "Running")):
        user.patch_job("TFJob", "stays", {"spec": {"runPolicy": {"suspend": suspend}}})
        eventually(lambda wanted=state: user.state("TFJob", "stays") == wanted)


def test_every_counter_is_exact_and_a_restart_counts_nothing_again(user: UserClient, operator: Operator):
    with FakeKubelet(user) as kubelet:
        user.create(tfjob("stays", Worker=1))
        a_job_succeeds_and_goes(user, kubelet)
        a_job_is_restarted_and_fails_for_good(user, kubelet)
        a_job_runs_out_of_time(user)
        eventually(lambda: user.state("TFJob", "stays") == "Running")
        samples = served(operator)
        assert counters(samples, user.namespace, "tensorflow") == {
            f"{JOBS}created_total": 3,
            f"{JOBS}deleted_total": 1,
            f"{JOBS}successful_total": 1,
            f"{JOBS}failed_total": 1,
            "created_pods_total": 4,
            "deleted_pods_total": 1,
            "succeeded_service_creation_total": 4,
        }
        assert counters(samples, user.namespace, "pytorch") == {
            f"{JOBS}created_total": 1,
            f"{JOBS}failed_total": 1,
            f"{JOBS}restarted_total": 1,
            "created_pods_total": 4,
            "deleted_pods_total": 2,
            "failed_pods_total": 2,
            "succeeded_service_creation_total": 2,
        }
        states = {("tensorflow", "Running"): 1, ("tensorflow", "Failed"): 1, ("pytorch", "Failed"): 1}
        shown = {labels: count for (name, labels), count in samples.items() if name == "trainshed_jobs" and count}
        assert shown == {
            frozenset({"framework": framework, "state": state}.items()): count
            for (framework, state), count in states.items()
        }
        assert value(samples, "trainshed_jobs", framework="tensorflow", state="Suspended") == 0
        assert operator.stop() == 0

        operator.start()
        a_job_is_suspended_and_resumed(user)
        samples = served(operator)
        assert counters(samples, user.namespace, "tensorflow") == {
            "created_pods_total": 1,
            "deleted_pods_total": 1,
            "succeeded_service_creation_total": 1,
        }
        shown = {labels: count for (name, labels), count in samples.items() if name == "trainshed_jobs" and count}
        assert sum(shown.values()) == 3
    assert operator.complaints() == []


def test_failed_service_creations_and_failed_reconciles_are_counted(user: UserClient, operator: Operator):
    user.make("resourcequotas", {"metadata": {"name": "none"}, "spec": {"hard": {"services": "0"}}})
    path = f"/api/v1/namespaces/{user.namespace}/resourcequotas/none"
    eventually(lambda: "hard" in user.call("GET", path).get("status", {}))
    user.create(tfjob("stuck", policy={"activeDeadlineSeconds": 3}, Worker=2))
    eventually(lambda: user.state("TFJob", "stuck") == "Failed")
    eventually(lambda: counters(served(operator), user.namespace, "tensorflow").get("deleted_pods_total") == 2)
    samples = served(operator)
    refused = value(samples, "trainshed_api_requests_total", verb="POST", resource="services", code="403")
    assert refused >= 2
    assert counters(samples, user.namespace, "tensorflow") == {
        f"{JOBS}created_total": 1,
        f"{JOBS}failed_total": 1,
        "created_pods_total": 2,
        "deleted_pods_total": 2,
        "failed_service_creation_total": refused,
    }
    assert value(samples, "trainshed_reconcile_errors_total", error="Forbidden") == refused


def test_pod_groups_are_counted_and_have_events(plane: ControlPlane, user: UserClient, tmp_path: Path):
    groups = Groups(user, "scheduling.volcano.sh/v1beta1")
    flags = ("--no-leader-elect", f"--namespace={user.namespace}", "--gang-scheduler-name=volcano")
    operator = Operator(plane.kubeconfig, tmp_path, *flags).start()
    gang = tfjob("gang", Worker=2)
    pod_spec(gang, "Worker")["schedulerName"] = "mine"
    with FakeKubelet(user, groups.place) as kubelet:
        gang = user.create(gang)
        for suspend in (True, False):
            groups.set_phase("gang", "Inqueue")
            eventually(lambda: user.state("TFJob", "gang") == "Running", 20)
            if suspend:
                user.patch_job("TFJob", "gang", {"spec": {"runPolicy": {"suspend": True}}})
                eventually(lambda: groups.get("gang") is None and not user.pods())
                user.patch_job("TFJob", "gang", {"spec": {"runPolicy": {"suspend": False}}})
        kubelet.end("gang-worker-0", 0)
        eventually(lambda: user.state("TFJob", "gang") == "Succeeded" and groups.get("gang") is None)
        found = counters(served(operator), user.namespace, "tensorflow")
        assert (found["created_pod_groups_total"], found["deleted_pod_groups_total"]) == (2, 2)
        gone = ("Normal", "SuccessfulDeletePodGroup", "Deleted PodGroup: gang")
        eventually(lambda: event_counts(user, gang)[gone] == 2)
        events = event_counts(user, gang)
        assert events["Normal", "JobTerminated", "Job has been terminated. Deleting PodGroup"] == 2
        other = "Another scheduler is specified when gang-scheduling is enabled and it will not be overwritten"
        assert events["Warning", "SetPodTemplateSchedulerName", other] == 1
    assert operator.stop() == 0
    assert operator.complaints() == []


def all_reconciled(samples) -> bool:
    """Return whether some jobs have been queued, and all of them have been reconciled."""
    waits = value(samples, "trainshed_workqueue_queue_duration_seconds_count")
    return 0 < waits == value(samples, "trainshed_reconcile_duration_seconds_count")


def test_metrics_of_the_operator_itself_are_served(user: UserClient, operator: Operator):
    with FakeKubelet(user):
        user.create(tfjob("runs", Worker=1))
        eventually(lambda: user.state("TFJob", "runs") == "Running")
    samples = eventually(lambda: found if all_reconciled(found := served(operator)) else None)
    assert value(samples, "trainshed_leader") == 1
    reconciles = value(samples, "trainshed_reconcile_duration_seconds_count")
    assert value(samples, "trainshed_reconcile_duration_seconds_bucket", le="60.0") == reconciles
    assert value(samples, "trainshed_watch_last_event_age_seconds", resource="tfjobs") < 90
    assert value(samples, "trainshed_events_dropped_total") == 0
    assert value(samples, "process_resident_memory_bytes") > 2**20
