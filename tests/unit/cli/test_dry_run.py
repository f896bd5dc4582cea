"""The forecast for a job is the planner's decision; only harm to a job needs attention."""

from __future__ import annotations

import pytest

from support.builders import a_job, a_pod, at, pods_of, replace, run_policy, running, seen
from trainshed.api.objects import CONFIG_MAPS, Dependent
from trainshed.api.status import Condition, ConditionType, Status
from trainshed.cli.preflight import Severity, dry_run

JOB = a_job(worker=2)


def over(kind: ConditionType, completion=0.0) -> Status:
    verdict = Condition(kind, true=True, reason="TFJobDone", message="", updated=at(0), changed=at(0))
    return Status((verdict,), start=at(0), completion=at(completion))


def outlook(job, *pods, status=None, **fields):
    found = dry_run(seen(job, *pods, status=status or running(job), **fields))
    return found.severity, "; ".join(found.messages)


def test_a_running_job_is_unchanged():
    assert outlook(JOB, *pods_of(JOB)) == (Severity.UNCHANGED, "")
    found = dry_run(seen(JOB, *pods_of(JOB), status=running(JOB)))
    assert str(found) == "TFJob ml/mnist (Running, 2 pods): no change"


def test_missing_objects_are_created():
    severity, words = outlook(a_job(worker=5), status=Status())
    assert severity is Severity.WILL_CHANGE
    assert "pods mnist-worker-0, mnist-worker-1, mnist-worker-2 and 2 more created" in words
    assert "Created=True" in words
    assert "Service" not in words
    assert "Services mnist-worker-0, mnist-worker-1 created" in outlook(JOB, *pods_of(JOB), services=())[1]
    assert str(dry_run(seen(a_job(worker=1)))).startswith("TFJob ml/mnist (Pending, 0 pods): Created=True")


def test_dependents_are_listed_with_their_kind():
    job = a_job("MPIJob", launcher=1, worker=1)
    stale = Dependent(CONFIG_MAPS, "mnist-config", "c", "1", "job-uid", "ml", "", {"data": {}})
    words = dry_run(replace(seen(job, *pods_of(job), status=running(job)), dependents=(stale,))).messages
    assert "ConfigMap mnist-config updated" in words
    assert "Role mnist-launcher created" in words


def test_a_restart_needs_attention():
    job = a_job(worker=2, restart="ExitCode")
    severity, words = outlook(job, *pods_of(job, a_pod("worker-1", "Failed", code=137)))
    assert severity is Severity.NEEDS_ATTENTION
    assert "pods mnist-worker-0, mnist-worker-1 deleted" in words
    failure = "worker-1 was killed by SIGKILL (137) 0s after start; restarting all 2 replicas now (restart 1)"
    assert f"Restarting=True (job mnist is restarting because Worker replica(s) failed. {failure})" in words
    assert "condition Running removed" in words


def test_the_replacement_of_a_single_pod_needs_attention():
    job = a_job(worker=1, ps=1, restart="ExitCode")
    severity, words = outlook(job, *pods_of(job, a_pod("worker-0", "Failed", code=137)))
    assert severity is Severity.NEEDS_ATTENTION
    assert "pod mnist-worker-0 deleted" in words


def test_success_and_the_clean_up_after_it_are_listed():
    job = a_job(worker=2, policy=run_policy(clean="All"))
    severity, words = outlook(job, *pods_of(job, a_pod("worker-0", "Succeeded", code=0)))
    assert severity is Severity.WILL_CHANGE
    assert "Succeeded=True" in words
    assert "Running=False" in words
    assert "pods mnist-worker-0, mnist-worker-1 deleted" in words


def test_a_job_that_would_fail_needs_attention():
    job = a_job(worker=2, policy=run_policy(deadline=60))
    severity, words = outlook(job, *pods_of(job), now=at(61))
    assert severity is Severity.NEEDS_ATTENTION
    assert "active longer than specified deadline" in words


@pytest.mark.parametrize("kind", [ConditionType.SUCCEEDED, ConditionType.FAILED])
def test_a_finished_job_is_unchanged(kind):
    assert outlook(JOB, *pods_of(JOB), status=over(kind)) == (Severity.UNCHANGED, "")


def test_a_job_past_its_ttl_is_deleted():
    job = a_job(worker=2, policy=run_policy(ttl=60))
    severity, words = outlook(job, *pods_of(job), status=over(ConditionType.SUCCEEDED), now=at(61))
    assert (severity, words) == (Severity.WILL_CHANGE, "job deleted: ttlSecondsAfterFinished has passed")


def test_deleting_the_pods_of_a_suspended_job_needs_no_attention():
    job = a_job(worker=2, policy=run_policy(suspend=True))
    severity, words = outlook(job, *pods_of(job))
    assert severity is Severity.WILL_CHANGE
    assert "pods mnist-worker-0, mnist-worker-1 deleted" in words


def test_a_job_of_another_controller_is_not_reconciled():
    job = a_job(worker=2, policy=run_policy(managed_elsewhere=True))
    assert outlook(job) == (Severity.UNCHANGED, "not reconciled: spec.runPolicy.managedBy names another controller")


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (Status(), "the job would fail immediately"),
        (running(JOB), "the job would be neither restarted nor cleaned up"),
        (over(ConditionType.FAILED), "the job is finished and stays unchanged"),
    ],
)
def test_an_invalid_spec_needs_attention_unless_the_job_is_finished(status, outcome):
    job = replace(JOB, groups=(), problems=("spec.a: Invalid value",))
    severity, words = outlook(job, status=status)
    assert severity is (Severity.WILL_CHANGE if status.over else Severity.NEEDS_ATTENTION)
    assert outcome in words
    assert "spec.a: Invalid value" in words
