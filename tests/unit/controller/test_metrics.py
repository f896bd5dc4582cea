"""Counters increase once per transition, and no label has unbounded values."""

from __future__ import annotations

from datetime import timedelta

import pytest
from prometheus_client import Metric

from support.builders import T0, a_job, a_pod, at, plan_for, pods_of, running, seen
from support.replace import replace
from trainshed.api.actions import (
    CreateDependent,
    CreatePod,
    CreateService,
    DeleteDependent,
    DeleteJob,
    DeletePod,
    DeleteService,
)
from trainshed.api.objects import CONFIG_MAPS, COSCHEDULING_GROUPS, VOLCANO_GROUPS
from trainshed.api.status import Condition, ConditionType, Retries, Status
from trainshed.api.time_spent import JobPhase, TimeSpent
from trainshed.client import Conflict
from trainshed.controller.metrics import CLASSES, COUNTERS, FAILURE_CLASSES, STATES, Metrics

JOB = a_job(worker=2)
SNAPSHOT = seen(JOB)
LABELS = {"job_namespace": "ml", "framework": "tensorflow"}
JOBS = "training_operator_jobs_"
CLASS_OF = {"Running": "", "Restart": "INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION"}


def having(*kinds: ConditionType, **fields) -> Status:
    return Status(conditions=tuple(Condition(kind, True, "r", "m", T0, T0) for kind in kinds), **fields)


def counted(metrics: Metrics) -> dict[str, float]:
    """Return the counters that are not 0, without `_total`."""
    value = metrics.registry.get_sample_value
    return {name: found for name in COUNTERS if (found := value(f"{name}_total", LABELS))}


STORES = [
    ("created", Status(), having(ConditionType.CREATED)),
    ("successful", having(ConditionType.CREATED), having(ConditionType.SUCCEEDED)),
    ("failed", having(ConditionType.CREATED), having(ConditionType.FAILED)),
    ("restarted", Status(), Status(attempts={"Worker": 1}, retries=Retries(used=1))),
    ("restarted", Status(attempts={"PS": 1}), Status(attempts={"PS": 1, "Worker": 1})),
    ("restarted", Status(pending_replacement=("a",)), Status(pending_replacement=("b",))),
]


@pytest.mark.parametrize(("what", "before", "after"), STORES)
def test_a_transition_is_counted_once_when_it_is_stored(what, before, after):
    metrics = Metrics()
    metrics.on_status_stored(seen(JOB, status=before), after)
    metrics.on_status_stored(seen(JOB, status=after), after)
    assert counted(metrics) == {f"{JOBS}{what}": 1}


def test_the_seconds_of_a_phase_and_of_its_devices_are_counted_once_when_it_is_stored_that_it_is_over():
    limits = {"cpu": 4, "nvidia.com/gpu": 8, **{f"example.com/{number}": 1 for number in range(20)}}
    template = {"spec": {"containers": [{"name": "tensorflow", "resources": {"limits": limits}}]}}
    job, metrics = a_job(worker=2, template=template), Metrics()
    metrics.set_jobs({}, {job.kind: "tensorflow"})
    before, after, queued = (
        Status(time_spent=TimeSpent(seconds, JobPhase.RUNNING, T0, lost_work=seconds.get(JobPhase.RESTART, 0)))
        for seconds in ({JobPhase.RUNNING: 30}, {JobPhase.RUNNING: 100, JobPhase.RESTART: 7}, {JobPhase.QUEUED: 9})
    )
    for status, stored in ((before, after), (after, after), (after, before), (Status(), queued)):
        metrics.on_status_stored(seen(job, status=status), stored)
    value, name = metrics.registry.get_sample_value, "trainshed_job_phase_seconds_total"
    running, restart = ({"framework": "tensorflow", "phase": phase, "class": word} for phase, word in CLASS_OF.items())
    assert [value(name, labels) for labels in (running, restart)] == [70, 7]
    assert value(name, {**running, "phase": "Queued"}) == 9
    assert value(name, {**running, "phase": "Init", "class": "OTHER"}) == 0
    lost = {"framework": "tensorflow", "class": "WASTED_PROGRESS_FROM_DISRUPTION"}
    assert value("trainshed_job_lost_work_seconds_total", lost) == 7
    assert value("trainshed_job_lost_work_resource_seconds_total", lost | {"resource": "nvidia.com/gpu"}) == 112
    name = "trainshed_job_resource_seconds_total"
    assert [value(name, labels | {"resource": "nvidia.com/gpu"}) for labels in (running, restart)] == [1120, 112]
    assert value(name, restart | {"resource": "other"}) == 5 * 2 * 7, "of twenty-one resources"
    assert value(name, {**running, "phase": "Queued", "resource": "nvidia.com/gpu"}) is None


@pytest.mark.parametrize("event", ["stored", "reconciled", "over", "another leads", "deleted before"])
def test_the_last_phase_of_a_job_is_counted_when_it_is_deleted(event):
    job, metrics = a_job(worker=2), Metrics()
    ended = Status(time_spent=TimeSpent({JobPhase.RUNNING: 60}, None, at(60)))
    runs = Status(time_spent=TimeSpent({}, JobPhase.RUNNING, T0))
    if event == "reconciled":
        metrics.on_reconcile(seen(job, status=runs))
    else:
        metrics.on_status_stored(seen(job), runs)
    if event == "over":
        metrics.on_status_stored(seen(job, status=runs), ended)
    elif event == "another leads":
        metrics.step_down()
    elif event == "deleted before":
        metrics.forget(job.key, at(60))
    metrics.forget(job.key, at(60))
    labels = {"framework": "tensorflow", "phase": "Running", "class": ""}
    found = metrics.registry.get_sample_value("trainshed_job_phase_seconds_total", labels)
    assert found == (None if event == "another leads" else 60)


def test_a_suspension_is_not_counted_as_a_restart():
    metrics = Metrics()
    before = having(ConditionType.CREATED, ConditionType.RUNNING, attempts={"Worker": 1})
    metrics.on_status_stored(
        seen(JOB, status=before), having(ConditionType.CREATED, ConditionType.SUSPENDED, attempts={"Worker": 2})
    )
    assert counted(metrics) == {}


def test_a_finished_replacement_is_not_counted_as_a_restart():
    metrics = Metrics()
    metrics.on_status_stored(
        seen(JOB, status=Status(pending_replacement=("a", "b"))), Status(pending_replacement=("b",))
    )
    assert counted(metrics) == {}


def test_the_first_reconcile_counts_as_in_v1():
    metrics = Metrics()
    snapshot = seen(JOB, *pods_of(JOB))
    metrics.on_status_stored(snapshot, plan_for(JOB).status)
    metrics.on_status_stored(replace(snapshot, status=plan_for(JOB).status), running(JOB))
    assert counted(metrics) == {f"{JOBS}created": 1}


def test_all_counters_of_a_namespace_appear_with_its_first_job():
    metrics = Metrics()
    metrics.on_status_stored(SNAPSHOT, Status())
    value = metrics.registry.get_sample_value
    assert [value(f"{name}_total", LABELS) for name in COUNTERS] == [0] * len(COUNTERS)


ACTIONS = [
    (CreatePod("a", "u", dict), "created_pods", None),
    (DeletePod("a", "u"), "deleted_pods", None),
    (CreateService("a", {}), "succeeded_service_creation", "failed_service_creation"),
    (DeleteService("a", "u"), None, None),
    (DeleteJob("u", "1"), "training_operator_jobs_deleted", None),
    (CreateDependent(VOLCANO_GROUPS, "a", {}), "created_pod_groups", None),
    (DeleteDependent(COSCHEDULING_GROUPS, "a", "u"), "deleted_pod_groups", None),
    (CreateDependent(CONFIG_MAPS, "a", {}), None, None),
    (DeleteDependent(CONFIG_MAPS, "a", "u"), None, None),
]


@pytest.mark.parametrize(("action", "well", "badly"), ACTIONS)
def test_actions_are_counted_under_v1s_names(action, well, badly):
    good, bad = Metrics(), Metrics()
    good.count_action(SNAPSHOT, action, success=True)
    bad.count_action(SNAPSHOT, action, success=False)
    assert counted(good) == ({well: 1} if well else {})
    assert counted(bad) == ({badly: 1} if badly else {})


def test_failed_pods_are_counted_individually():
    metrics = Metrics()
    metrics.on_reconcile(seen(JOB, a_pod("worker-0", "Failed"), a_pod("worker-1", "Failed")))
    assert counted(metrics) == {"failed_pods": 2}


def test_jobs_are_counted_by_state_with_zeros():
    metrics = Metrics()
    value = metrics.registry.get_sample_value
    labels = {"TFJob": "tensorflow", "PyTorchJob": "pytorch"}
    metrics.set_jobs({("TFJob", "Running"): 2}, labels)
    assert value("trainshed_jobs", {"framework": "tensorflow", "state": "Running"}) == 2
    metrics.set_jobs({}, labels)
    found = [value("trainshed_jobs", {"framework": "tensorflow", "state": word}) for word in STATES]
    assert found == [0] * len(STATES)


def test_the_operators_own_metrics_are_served():
    metrics = Metrics()
    metrics.observe_reconcile(0.5)
    metrics.observe_queue_time(0.25)
    metrics.count_dropped_event()
    metrics.count_error(Conflict("x"))
    metrics.count_internal_error()
    metrics.count_request("POST", "pods", 201)
    metrics.count_request("GET", "pods", 0)
    for code in range(400, 1000):  # as a webhook may choose
        metrics.count_request("POST", "pods", code)
    value = metrics.registry.get_sample_value
    assert value("trainshed_reconcile_duration_seconds_sum") == 0.5
    assert value("trainshed_workqueue_queue_duration_seconds_sum") == 0.25
    assert value("trainshed_events_dropped_total") == 1
    assert value("trainshed_reconcile_errors_total", {"error": "Conflict"}) == 1
    assert value("trainshed_internal_errors_total") == 1
    assert value("trainshed_api_requests_total", {"verb": "POST", "resource": "pods", "code": "201"}) == 1
    assert value("trainshed_api_requests_total", {"verb": "GET", "resource": "pods", "code": "none"}) == 1
    (counted,) = (found for found in metrics.registry.collect() if found.name == "trainshed_api_requests")
    assert len({found.labels["code"] for found in counted.samples}) < 30
    assert value("trainshed_api_requests_total", {"verb": "POST", "resource": "pods", "code": "9xx"}) == 100


@pytest.mark.parametrize(("seconds", "within"), [(0.0009, "0.001"), (20, "30.0"), (59, "60.0")])
def test_the_buckets_separate_reconciles_of_a_millisecond_and_a_minute(seconds, within):
    metrics = Metrics()
    metrics.observe_reconcile(seconds)
    buckets = {
        sample.labels["le"]: sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == "trainshed_reconcile_duration_seconds_bucket"
    }
    assert next(bound for bound, count in buckets.items() if count) == within


@pytest.mark.fault("J17")
def test_no_metric_has_a_job_name_label_or_a_created_series():
    metrics = Metrics()
    metrics.on_status_stored(SNAPSHOT, having(ConditionType.CREATED))
    metrics.observe_reconcile(1)
    text = metrics.text()
    assert b"training_operator_jobs_created_total{" in text
    assert b"process_resident_memory_bytes" in text
    assert b"mnist" not in text
    assert b"_created{" not in text.replace(b"_jobs_created", b"")


def test_failures_and_restarts_are_counted_by_class_from_zero():
    metrics = Metrics()
    metrics.set_jobs({}, {"TFJob": "tensorflow"})
    value = metrics.registry.get_sample_value

    def counts(what: str, words: tuple[str, ...]) -> dict[str, float | None]:
        name = f"trainshed_jobs_{what}_total"
        return {word: value(name, {"framework": "tensorflow", "class": word}) for word in words}

    assert set(counts("failed", FAILURE_CLASSES).values()) == set(counts("restarted", CLASSES).values()) == {0}
    metrics.on_status_stored(seen(JOB), having(ConditionType.FAILED))
    metrics.on_status_stored(seen(JOB), Status(attempts={"Worker": 1}))
    assert counts("failed", FAILURE_CLASSES)["Other"] == counts("restarted", CLASSES)["Other"] == 1
    assert sum(counts("failed", FAILURE_CLASSES).values()) == sum(counts("restarted", CLASSES).values()) == 1


def test_startup_times_are_observed_by_framework():
    metrics = Metrics()
    metrics.on_status_stored(SNAPSHOT, having(ConditionType.CREATED))
    pods = (a_pod("worker-0", "Running"), a_pod("worker-1", "Running"))
    for seconds in (3.5, 4.5):
        metrics.on_reconcile(replace(seen(JOB, *pods), now=SNAPSHOT.now + timedelta(seconds=seconds)))
    value = metrics.registry.get_sample_value
    assert value("trainshed_job_startup_seconds_sum", {"framework": "tensorflow"}) == 3.5
    assert value("trainshed_job_startup_seconds_bucket", {"framework": "tensorflow", "le": "5.0"}) == 1


def test_registered_collectors_are_in_the_text():
    class Series:
        def collect(self):
            yield Metric("trainshed_more", "More.", "gauge")

    metrics = Metrics()
    metrics.register(Series())
    assert b"# TYPE trainshed_more gauge" in metrics.text()
