"""The rules: when each one applies, and the plan that it returns."""

from __future__ import annotations

import pytest

from support.builders import (
    DeleteService,
    a_job,
    a_pod,
    a_service,
    at,
    deleted,
    event_reasons,
    made,
    message,
    plan_for,
    pods_of,
    run_policy,
    running,
    services,
    states,
)
from support.replace import replace
from trainshed.api.actions import DeleteJob, DeletePod
from trainshed.api.objects import Container
from trainshed.api.status import ConditionType

PS = {"chief": 1, "ps": 2, "worker": 2, "evaluator": 1}


def test_a_new_job_gets_its_pods_and_services():
    decision = plan_for(a_job(**PS), services=())
    replicas_by_pod = ["chief-0", "ps-0", "ps-1", "worker-0", "worker-1", "evaluator-0"]
    assert made(decision) == [f"mnist-{replica}" for replica in replicas_by_pod]
    assert services(decision) == made(decision)
    assert states(decision.status) == ["Created"]
    assert decision.status.start == at(0)


def test_a_job_runs_while_those_who_decide_run():
    job = a_job(**PS)
    decision = plan_for(job, *pods_of(job, a_pod("worker-0", "Pending")))
    assert states(decision.status) == ["Created", "Running"]
    assert message(decision.status, "Running") == "TFJob ml/mnist is running."
    assert states(plan_for(job, a_pod("worker-0"), status=plan_for(job).status).status) == ["Created"]


def test_at_rest_there_is_nothing_new_to_say():
    job = a_job(**PS)
    decision = plan_for(job, *pods_of(job), status=running(job), now=at(99))
    assert decision.status == running(job)
    assert decision.actions == decision.events == ()
    assert decision.requeue_at is None


@pytest.mark.parametrize(
    "job", [a_job(worker=1, policy=run_policy(managed_elsewhere=True)), replace(a_job(worker=1), deleting=True)]
)
def test_a_job_of_another_controller_or_going_away_is_left_alone(job):
    decision = plan_for(job)
    assert decision.actions == ()
    assert decision.status.conditions == ()


def test_the_success_of_the_deciding_replica_is_the_jobs():
    job = a_job(**PS)
    decision = plan_for(job, *pods_of(job, a_pod("chief-0", "Succeeded", code=0)), status=running(job), now=at(5))
    assert states(decision.status) == ["Created", "-Running", "Succeeded"]
    assert message(decision.status, "Succeeded") == "TFJob ml/mnist successfully completed."
    assert decision.status.completion == at(5)
    assert decision.actions == ()
    assert event_reasons(decision) == ["TFJobSucceeded"]
    assert decision.status.replica_statuses["Worker"].succeeded == 2
    assert decision.status.replica_statuses["Worker"].active == 0


def test_success_wins_over_a_failure_in_the_same_snapshot():
    job = a_job(chief=1, worker=1)
    pods = [a_pod("chief-0", "Succeeded", code=0), a_pod("worker-0", "Failed", code=1)]
    assert states(plan_for(job, *pods).status) == ["Created", "Succeeded"]


def test_a_verdict_is_final():
    job = a_job(chief=1, worker=1)
    over = plan_for(job, a_pod("chief-0", "Succeeded", code=0)).status
    later = plan_for(job, a_pod("chief-0", "Failed", code=1), status=over, now=at(60))
    assert later.status == over


@pytest.mark.parametrize(
    ("clean", "goes"),
    [
        ("None", set()),
        ("Running", {"mnist-ps-0", "mnist-worker-1"}),
        ("All", {"mnist-chief-0", "mnist-ps-0", "mnist-worker-0", "mnist-worker-1"}),
    ],
)
def test_what_goes_after_the_verdict_is_as_clean_pod_policy_says(clean, goes):
    job = a_job(chief=1, ps=1, worker=2, policy=run_policy(clean=clean))
    finished = (a_pod("chief-0", "Succeeded", code=0), a_pod("worker-0", "Failed", code=1), a_pod("ps-0", "Pending"))
    here = pods_of(job, *finished)
    over = plan_for(job, *here).status
    decision = plan_for(job, *here, status=over)
    assert set(deleted(decision)) == goes
    later = plan_for(job, *(replace(pod, deleting=pod.name in goes) for pod in here), status=over)
    assert deleted(later) == []
    assert set(services(later, DeleteService)) == goes


@pytest.mark.parametrize(("clean", "version"), [("Running", "7"), ("All", "")])
def test_who_goes_as_he_still_runs_goes_only_as_he_is_known_and_his_service_after_him(clean, version):
    job = a_job(worker=2, policy=run_policy(clean=clean))
    here = pods_of(job, a_pod("worker-0", "Succeeded", code=0), replace(a_pod("worker-1", "Running"), version="7"))
    decision = plan_for(job, *here, status=plan_for(job, *here).status)
    assert {action.version for action in decision.actions if isinstance(action, DeletePod)} == {version}
    assert ("mnist-worker-1" in services(decision, DeleteService)) == (clean == "All")


@pytest.mark.parametrize(
    ("beside", "goes"),
    [
        ((), []),
        ((Container("proxy", init=True, sidecar=True, started=at(0)),), []),
        ((Container("proxy", started=at(0)),), ["mnist-chief-0"]),
    ],
)
def test_a_pod_in_which_nothing_runs_any_more_is_no_running_one_whatever_its_phase(beside, goes):
    job = a_job(chief=1, policy=run_policy(clean="Running"))
    own = a_pod("chief-0", code=0)
    pod = replace(own, containers=(*beside, *own.containers))
    over = plan_for(job, *pods_of(job, pod)).status
    assert states(over)[-1] == "Succeeded", "the kubelet says it of the container first"
    assert deleted(plan_for(job, *pods_of(job, pod), status=over, now=at(30))) == goes


def test_the_job_itself_goes_when_its_time_is_up():
    job = a_job(chief=1, policy=run_policy(ttl=30))
    over = plan_for(job, a_pod("chief-0", "Succeeded", code=0)).status
    assert plan_for(job, status=over, now=at(29)).requeue_at == at(30)
    decision = plan_for(job, status=over, now=at(30))
    assert decision.actions == (DeleteJob("job-uid", job.version),)
    assert event_reasons(decision) == [], "the Event follows once it is gone"


def test_a_deadline_is_the_time_of_the_next_plan_and_fails_the_job():
    job = a_job(worker=1, policy=run_policy(deadline=60))
    assert plan_for(job, a_pod("worker-0"), status=running(job)).requeue_at == at(60)
    decision = plan_for(job, a_pod("worker-0"), status=running(job), now=at(60))
    assert states(decision.status) == ["Created", "-Running", "Failed"]
    expected = "Job mnist has failed because it was active longer than specified deadline: limit 60s; "
    assert message(decision.status, "Failed") == f"{expected}1 of 1 replica running"


def test_a_spec_that_cannot_be_fails_the_job_before_it_starts():
    decision = plan_for(replace(a_job(worker=1), problems=("spec: no", "spec: neither")))
    assert states(decision.status) == ["Created", "Failed"]
    assert message(decision.status, "Failed") == "spec: no; spec: neither"


def test_a_running_job_is_left_alone_while_its_spec_makes_no_sense():
    job = a_job(worker=1)
    decision = plan_for(replace(job, groups=(), problems=("spec: no",)), a_pod("worker-0"), status=running(job))
    assert decision.status == running(job)
    assert decision.actions == ()
    assert event_reasons(decision) == ["InvalidSpec"]


INVALID = {
    "violations": replace(a_job(worker=2), problems=("metadata.annotations[trainshed.dev/services]: Forbidden",)),
    "unreadable": replace(a_job(worker=2), groups=(), problems=("spec: no",)),
}


@pytest.mark.parametrize("job", INVALID.values(), ids=INVALID)
def test_a_job_that_becomes_invalid_can_be_suspended(job):
    halted, pods = replace(job, policy=run_policy(suspend=True)), pods_of(a_job(worker=2))
    decision = plan_for(halted, *pods, status=running(a_job(worker=2)))
    assert states(decision.status) == ["Created", "-Running", "Suspended"]
    assert sorted(deleted(decision)) == ["mnist-worker-0", "mnist-worker-1"]
    terminating = [replace(pod, deleting=True, deletion_timestamp=at(30)) for pod in pods]
    waits = plan_for(halted, *terminating, status=decision.status)
    assert waits.status.replica_statuses["Worker"].active + waits.status.replica_statuses["Worker"].not_running > 0
    gone = plan_for(halted, status=waits.status)
    assert [count for count in gone.status.replica_statuses.values() if count.active or count.not_running] == []
    resumed = plan_for(job, status=gone.status, now=at(100_000))
    assert (resumed.actions, states(resumed.status)[-1]) == ((), "Failed"), "as one that is invalid from the beginning"


@pytest.mark.parametrize("job", INVALID.values(), ids=INVALID)
def test_a_job_that_becomes_invalid_ends_at_its_deadline(job):
    limited, pods = replace(job, policy=run_policy(deadline=60)), pods_of(a_job(worker=2))
    before = running(a_job(worker=2))
    early = plan_for(limited, *pods, status=before, now=at(59))
    assert (early.status, early.actions, early.requeue_at) == (before, (), at(60))
    late = plan_for(limited, *pods, status=before, now=at(60))
    assert states(late.status) == ["Created", "-Running", "Failed"]
    assert sorted(deleted(plan_for(limited, *pods, status=late.status, now=at(61)))) == [
        "mnist-worker-0",
        "mnist-worker-1",
    ]


def test_a_job_that_becomes_invalid_succeeds_when_its_pods_do():
    done = pods_of(a_job(worker=2), *(a_pod(f"worker-{number}", "Succeeded", code=0) for number in range(2)))
    late = plan_for(INVALID["violations"], *done, status=running(a_job(worker=2)))
    assert states(late.status) == ["Created", "-Running", "Succeeded"]


def test_pods_that_are_there_keep_a_job_from_being_refused_before_its_start_is_stored():
    job = a_job(worker=1)
    senseless = replace(job, groups=(), problems=("spec: no",))
    decision = plan_for(senseless, a_pod("worker-0"))
    assert event_reasons(decision) == ["InvalidSpec"]
    assert states(decision.status) == []
    assert states(plan_for(senseless).status) == ["Created", "Failed"]


def test_suspending_empties_every_seat():
    job = a_job(**PS)
    halted = replace(job, policy=run_policy(suspend=True))
    decision = plan_for(halted, *pods_of(job), status=running(job), now=at(9))
    assert states(decision.status) == ["Created", "-Running", "Suspended"]
    assert decision.status.condition(ConditionType.RUNNING).reason == "TFJobSuspended"
    assert len(deleted(decision)) == len(services(decision, DeleteService)) == 6
    assert decision.status.start == at(0)
    again = plan_for(halted, status=decision.status, services=(), now=at(20))
    assert again.actions == again.events == ()


def test_a_job_created_suspended_has_no_start_and_no_pods():
    decision = plan_for(a_job(worker=1, policy=run_policy(suspend=True)), services=())
    assert states(decision.status) == ["Created", "Suspended"]
    assert decision.status.start is None
    assert decision.actions == ()


def test_resuming_starts_anew_and_waits_for_the_old_pods_to_go():
    job = a_job("PyTorchJob", master=1, worker=1)
    halted = replace(job, policy=run_policy(suspend=True))
    suspended = plan_for(halted, *pods_of(job), status=running(job), now=at(5)).status
    resumed = plan_for(job, *pods_of(job), status=suspended, now=at(100)).status
    assert states(resumed) == ["Created", "-Running", "-Suspended"]
    assert resumed.start == at(100)
    assert made(plan_for(job, *pods_of(job), status=resumed, now=at(101))) == []
    decision = plan_for(job, status=resumed, now=at(102))
    assert made(decision) == ["mnist-master-0", "mnist-worker-0"]
    assert decision.actions[-1].body["metadata"]["annotations"] == {"trainshed.dev/restart-attempt": "1"}


def test_whoever_toggles_quickly_waits_a_moment_for_pods():
    job = a_job(worker=1)
    halted = replace(job, policy=run_policy(suspend=True))
    suspended = plan_for(halted, *pods_of(job), status=running(job), now=at(5)).status
    resumed = plan_for(job, status=suspended, now=at(6)).status
    assert made(plan_for(job, status=resumed, now=at(6.5))) == []
    assert made(plan_for(job, status=resumed, now=at(7))) == ["mnist-worker-0"]


def test_trouble_with_making_pods_is_a_condition_until_it_is_over():
    job = a_job(worker=2)
    blocked = plan_for(job, refusal=("QuotaExceeded", "exceeded quota: few")).status
    assert states(blocked) == ["Created", "Blocked"]
    expected = "exceeded quota: few; 0 of 2 pods created; retrying the rest"
    assert message(blocked, "Blocked") == expected
    assert states(plan_for(job, a_pod("worker-0"), status=blocked).status) == ["Created", "Running", "Blocked"]
    assert states(plan_for(job, *pods_of(job), status=blocked).status) == ["Created", "Running"]


def test_scaling_down_deletes_what_has_no_seat():
    job = a_job(chief=1, worker=1)
    pods = [*pods_of(job), a_pod("worker-1"), a_pod("worker-2", deleting=True)]
    here = tuple(a_service(replica) for replica in ("chief-0", "worker-0", "worker-1"))
    decision = plan_for(job, *pods, status=running(job), services=here)
    assert deleted(decision) == ["mnist-worker-1"]
    assert services(decision, DeleteService) == ["mnist-worker-1"]


def test_no_replicas_is_a_stable_state():
    decision = plan_for(a_job(worker=0), services=())
    assert decision.actions == ()
    assert states(decision.status) == ["Created"]
