"""Restarts: retryable failures, scopes, limits and back-off."""

from __future__ import annotations

import pytest

from support import reported
from support.builders import (
    FRAMEWORKS,
    a_job,
    a_pod,
    at,
    deleted,
    elastic,
    event_reasons,
    made,
    message,
    plan_for,
    pods_of,
    replace,
    run_policy,
    running,
    states,
)
from trainshed.api import parse
from trainshed.api.actions import CreatePod, DeletePod
from trainshed.api.framework import JobDefaults
from trainshed.api.status import Restart
from trainshed.api.status_codec import parse_status, status_document
from trainshed.frameworks.tensorflow import TFJobOptions
from trainshed.plan.builders import PREFERRED
from trainshed.plan.failures import DISRUPTION
from trainshed.plan.restarts import MAX_PENDING_REPLACEMENTS, NOT_OF_THE_NODE
from trainshed.plan.retry_delay import MAX_DELAY, backoff_seconds

DDP = {"kind": "PyTorchJob", "master": 1, "worker": 2}


def ddp(**fields):
    return a_job(**DDP, **fields)


def failed(replica, code, ended=10.0, **fields):
    return a_pod(replica, "Failed", code=code, ended=ended, container=fields.pop("container", "pytorch"), **fields)


def after_failure(job, *pods, now=13, status=None):
    return plan_for(job, *pods_of(job, *pods), status=status or running(job), now=at(now))


def test_a_retryable_exit_code_restarts_all_that_can_only_start_together():
    decision = after_failure(ddp(restart="ExitCode"), failed("worker-1", 137))
    assert states(decision.status) == ["Created", "Restarting"]
    expected = "job mnist is restarting because Worker replica(s) failed. worker-1 was killed by SIGKILL (137) 10s "
    expected += "after start; restarting all 3 replicas now (restart 1)"
    assert message(decision.status, "Restarting") == expected
    assert decision.status.attempts == {"Master": 1, "Worker": 1}
    assert decision.status.retries.used == 1
    assert sorted(deleted(decision)) == ["mnist-master-0", "mnist-worker-0", "mnist-worker-1"]
    assert event_reasons(decision) == ["ExitedWithCode", "PyTorchJobRestarting"]
    assert decision.status.failure.exit_code == 137


def test_nobody_comes_back_before_the_last_old_pod_is_gone_and_the_pause_is_over():
    job = ddp(restart="ExitCode")
    status = after_failure(job, failed("worker-1", 137)).status
    assert made(plan_for(job, a_pod("worker-0", "Running", deleting=True), status=status, now=at(60))) == []
    early = plan_for(job, status=status, now=at(10.5))
    assert made(early) == []
    assert early.requeue_at == status.retries.next_retry_time
    assert made(plan_for(job, status=status, now=at(60))) == ["mnist-master-0", "mnist-worker-0", "mnist-worker-1"]


def test_survivors_get_a_short_grace_unless_their_template_says_otherwise():
    job = ddp(restart="ExitCode")
    assert {action.grace for action in after_failure(job, failed("worker-1", 137)).actions} == {3}
    template = {"spec": {"containers": [{"name": "pytorch"}], "terminationGracePeriodSeconds": 60}}
    job = ddp(restart="ExitCode", template=template)
    assert {action.grace for action in after_failure(job, failed("worker-1", 137)).actions} == {None}


#: What ends worker-1 while the others run, and the grace period with which the others are deleted.
ENDS = {
    "an exit code": (failed("worker-1", 137), 3),
    "a failure of the node": (failed("worker-1", None, reason="UnexpectedAdmissionError"), 3),
    "an eviction": (failed("worker-1", 137, reason="Evicted", disruption="TerminationByKubelet"), None),
    "an eviction that is not over": (
        a_pod("worker-1", container="pytorch", deleting=True, disruption="EvictionByEvictionAPI"),
        None,
    ),
    "a deletion": (a_pod("worker-1", container="pytorch", deleting=True), None),
}


@pytest.mark.parametrize("end", ENDS)
def test_healthy_members_keep_their_own_grace_period_in_a_disruption(end):
    pod, grace = ENDS[end]
    job = ddp(restart="ExitCode")
    first = after_failure(job, pod)
    assert {action.grace for action in first.actions} == {grace}
    stored = parse_status({"status": status_document(first.status)})  # the operator dies before the pods are deleted
    later = plan_for(job, *pods_of(job, pod), status=stored, now=at(60))
    assert {action.grace for action in later.actions if isinstance(action, DeletePod)} == {grace}


def test_pods_that_a_suspension_has_left_keep_their_own_grace_period():
    job, suspended = ddp(restart="ExitCode"), ddp(restart="ExitCode", policy=run_policy(suspend=True))
    status = replace(after_failure(job, failed("worker-1", 137)).status, attempts={"Master": 1, "Worker": 1})
    again = pods_of(job, attempt=1)
    status = plan_for(
        suspended, *again, status=plan_for(job, *again, status=status, now=at(20)).status, now=at(30)
    ).status
    status = plan_for(job, *again, status=status, now=at(40)).status
    assert {action.grace for action in plan_for(job, *again, status=status, now=at(41)).actions} == {None}


@pytest.mark.reported("13-checkpoint-on-sigterm")
def test_members_that_save_on_sigterm_have_their_whole_period_when_another_is_evicted():
    job = parse.job(reported.job("13-checkpoint-on-sigterm"), FRAMEWORKS["PyTorchJob"], JobDefaults())
    evicted = a_pod("worker-1", job="saves", container="pytorch", deleting=True, disruption="EvictionByEvictionAPI")
    decision = plan_for(job, *pods_of(job, evicted), status=running(job), now=at(60))
    assert {action.name: action.grace for action in decision.actions} == {
        "saves-master-0": None,
        "saves-worker-0": None,
    }


@pytest.mark.parametrize(("code", "fails"), [(1, True), (127, True), (128, False), (130, False)])
def test_exit_codes_below_128_are_permanent(code, fails):
    job = a_job(restart="ExitCode", worker=1)
    decision = after_failure(job, failed("worker-0", code, container="tensorflow"))
    assert states(decision.status)[-1] == ("Failed" if fails else "Restarting")
    if fails:
        expected = 'job "mnist" is failing because "Worker" replica(s) failed. worker-0 exited with code '
        assert message(decision.status, "Failed").startswith(f"{expected}{code}")
        assert decision.status.completion == at(13)


def test_under_never_the_first_failure_fails_the_job():
    decision = after_failure(ddp(), failed("worker-1", 137))
    expected = "PyTorchJob mnist is failed because 1 Worker replica(s) failed. worker-1 was killed by SIGKILL (137) 10s"
    assert message(decision.status, "Failed") == f"{expected} after start; restartPolicy is Never"
    job = a_job(chief=1, worker=1)
    decision = after_failure(job, failed("worker-0", 1, container="tensorflow"))
    expected = "TFJob ml/mnist has failed because 1 Worker replica(s) failed. worker-0 exited with code 1 after 10s"
    assert message(decision.status, "Failed") == f"{expected}; restartPolicy is Never"


def test_with_parameter_servers_only_the_failed_replica_is_replaced():
    job = a_job(restart="ExitCode", chief=1, ps=1, worker=2)
    decision = after_failure(job, failed("worker-1", 137, container="tensorflow"))
    assert deleted(decision) == ["mnist-worker-1"]
    assert states(decision.status) == ["Created", "Running"]
    assert decision.status.pending_replacement == ("worker-1-uid",)
    pods = [pod for pod in pods_of(job) if pod.name != "mnist-worker-1"]
    back = plan_for(job, *pods, status=decision.status, now=at(60))
    assert made(back) == ["mnist-worker-1"]
    assert back.status.pending_replacement == ()


def test_a_role_may_be_asked_to_restart_together():
    job = a_job(restart="ExitCode", chief=1, ps=1, worker=2, scope="Role")
    decision = after_failure(job, failed("worker-1", 137, container="tensorflow"))
    assert sorted(deleted(decision)) == ["mnist-worker-0", "mnist-worker-1"]
    assert decision.status.attempts == {"Worker": 1}


@pytest.mark.fault("H7")
def test_the_first_failure_answers_for_those_that_follow_in_a_group():
    decision = after_failure(ddp(restart="ExitCode"), failed("worker-1", 137, 8), failed("master-0", 1, 9))
    assert states(decision.status)[-1] == "Restarting"
    assert decision.status.retries.used == 1
    assert decision.status.failure.pod == "mnist-worker-1"


@pytest.mark.fault("H7")
def test_what_follows_closely_is_collateral_and_not_counted():
    job = a_job(restart="ExitCode", chief=1, ps=1, worker=1)
    ps = failed("ps-0", 137, 10, container="tensorflow")
    first = after_failure(job, ps)
    chief = failed("chief-0", 1, 12, container="tensorflow")
    second = plan_for(job, *pods_of(job, ps, chief), status=first.status, now=at(13))
    assert states(second.status)[-1] == "Restarting"
    assert second.status.retries.used == 1
    assert second.status.failure.pod == "mnist-ps-0"
    late = failed("chief-0", 1, 40, container="tensorflow")
    assert states(plan_for(job, *pods_of(job, late), status=first.status, now=at(43)).status)[-1] == "Failed"


def test_the_back_off_limit_counts_restarts_and_ends_them():
    job = ddp(restart="ExitCode", policy=run_policy(backoff_limit=1))
    once = after_failure(job, failed("worker-1", 137))
    assert once.status.retries.used == 1
    twice = after_failure(job, failed("worker-1", 137, 50, attempt=1), now=53, status=once.status)
    pods = [replace(pod, attempt=1) for pod in pods_of(job, failed("worker-1", 137, 50))]
    twice = plan_for(job, *pods, status=once.status, now=at(53))
    expected = (
        "Job mnist has failed because it has reached the specified backoff limit: 1 of 1 restart used; last failure: "
    )
    expected += "worker-1 was killed by SIGKILL (137) 50s after start"
    assert message(twice.status, "Failed") == expected


def test_a_limit_of_zero_allows_no_failure_under_any_policy():
    for restart in ("Never", "ExitCode", "OnFailure"):
        decision = after_failure(ddp(restart=restart, policy=run_policy(backoff_limit=0)), failed("worker-1", 137))
        assert "backoff limit" in message(decision.status, "Failed")


@pytest.mark.fault("H10")
def test_restarts_in_place_count_too_and_outlive_their_pods():
    job = a_job(restart="OnFailure", worker=2, policy=run_policy(backoff_limit=3))
    status = plan_for(job, *pods_of(job, a_pod("worker-0", restarted=2))).status
    assert (status.retries.container_restarts, status.retries.deleted_pod_container_restarts) == (2, 0)
    status = plan_for(job, *pods_of(job), status=status, now=at(5)).status
    assert (status.retries.container_restarts, status.retries.deleted_pod_container_restarts) == (0, 2)
    decision = plan_for(job, *pods_of(job, a_pod("worker-1", restarted=1)), status=status, now=at(9))
    assert "backoff limit" in message(decision.status, "Failed")


@pytest.mark.fault("H2", "H3", "H5")
@pytest.mark.parametrize("restart", ["Never", "ExitCode", "OnFailure", "Always"])
@pytest.mark.parametrize(
    "pod",
    [
        a_pod("worker-1", "Running", deleting=True, container="pytorch"),
        a_pod("worker-1", "Failed", reason="Evicted", containers=()),
        a_pod("worker-1", "Failed", code=137, disruption="PreemptionByScheduler", container="pytorch"),
    ],
    ids=["deleted", "evicted", "preempted"],
)
def test_a_disruption_is_replaced_under_every_policy_and_never_counted(restart, pod):
    decision = after_failure(ddp(restart=restart, policy=run_policy(backoff_limit=0)), pod)
    assert states(decision.status)[-1] == "Restarting"
    assert decision.status.retries.used == 0
    assert not decision.status.retries.wait(at(13))
    assert decision.status.failure.kind == DISRUPTION
    assert "were disrupted" in message(decision.status, "Restarting")


def test_a_deleted_worker_of_a_parameter_server_job_is_replaced_alone():
    job = a_job(chief=1, ps=1, worker=1)
    leaving = a_pod("worker-0", "Running", deleting=True)
    decision = after_failure(job, leaving)
    assert deleted(decision) == []
    assert states(decision.status) == ["Created", "Running"]
    assert after_failure(job, leaving, status=decision.status, now=11).events == ()
    assert made(plan_for(job, a_pod("chief-0"), a_pod("ps-0"), status=decision.status, now=at(13))) == [
        "mnist-worker-0"
    ]


def test_whoever_wants_disruptions_to_fail_the_job_gets_that():
    decision = after_failure(ddp(fail_on_disruption=True), a_pod("worker-1", "Failed", reason="Evicted", containers=()))
    expected = (
        "PyTorchJob mnist has failed because pod mnist-worker-1 was disrupted (Evicted). worker-1 was evicted by "
    )
    assert message(decision.status, "Failed") == f"{expected}the kubelet; trainshed.dev/on-disruption is Fail"


@pytest.mark.fault("H6", "H12")
def test_a_pod_that_could_not_run_is_tried_again_after_a_pause_and_not_counted():
    rejected = a_pod("worker-1", "Failed", reason="OutOfcpu", containers=())
    decision = after_failure(ddp(policy=run_policy(backoff_limit=0)), rejected)
    assert "replica(s) failed with an infrastructure error (OutOfcpu). worker-1 failed with" in message(
        decision.status, "Restarting"
    )
    assert decision.status.retries.used == 0
    assert decision.status.retries.next_retry_time > at(10)


def test_the_first_retry_is_immediate_and_the_back_off_doubles_from_one_second_to_five_minutes():
    pauses = [backoff_seconds("uid", consecutive_failures) for consecutive_failures in range(1, 30)]
    assert pauses[0] == 0
    assert pauses[1] == 1
    assert 2 <= pauses[2] <= 3
    assert all(MAX_DELAY <= pause <= MAX_DELAY * 1.25 for pause in pauses[10:])


def test_the_back_off_is_reset_after_ten_minutes_without_a_failure():
    job = ddp(restart="ExitCode")
    status = after_failure(job, failed("worker-1", 137)).status
    pods = [replace(pod, attempt=1) for pod in pods_of(job, failed("worker-1", 137, 30))]
    assert plan_for(job, *pods, status=status, now=at(30)).status.retries.consecutive_failures == 2
    pods = [replace(pod, attempt=1) for pod in pods_of(job, failed("worker-1", 137, 999))]
    assert plan_for(job, *pods, status=status, now=at(999)).status.retries.consecutive_failures == 1


def test_losing_a_dynamic_worker_is_no_failure_of_the_job():
    job = a_job(chief=1, ps=1, worker=2, options=TFJobOptions(dynamic_workers=True))
    one, other = (failed(f"worker-{index}", 1, container="tensorflow") for index in range(2))
    for decision in (after_failure(job, one), after_failure(job, one, other)):
        assert states(decision.status) == ["Created", "Running"]
        assert decision.actions == ()
    alone = a_job(ps=1, worker=1, options=TFJobOptions(dynamic_workers=True))
    assert states(after_failure(alone, one).status) == ["Created", "-Running", "Failed"], (
        "no replica is left that decides"
    )


def test_an_elastic_job_replaces_its_workers_one_by_one():
    job = a_job("PyTorchJob", restart="ExitCode", worker=3, options=elastic())
    assert deleted(after_failure(job, failed("worker-2", 137))) == ["mnist-worker-2"]


def test_no_more_than_so_many_pods_are_replaced_one_by_one_at_a_time():
    job = a_job(restart="ExitCode", chief=1, ps=MAX_PENDING_REPLACEMENTS + 1)
    pods = [failed(f"ps-{index}", 137, container="tensorflow") for index in range(MAX_PENDING_REPLACEMENTS + 1)]
    decision = after_failure(job, *pods)
    assert len(deleted(decision)) == len(decision.status.pending_replacement) == MAX_PENDING_REPLACEMENTS
    waiting = after_failure(job, *pods, status=decision.status)
    assert deleted(waiting) == list(deleted(decision))


def on(node, reason="Error", count=1):
    cause = Restart(at(0), 1, "worker-1", node, "Application", reason, 137, 3)
    return (cause,) * count


OWN = {"nodeAffinity": {PREFERRED: ["the template's"], "required": "the template's"}, "podAffinity": {}}


@pytest.mark.parametrize(
    ("history", "avoided"),
    [
        ((), []),
        (on("node-a") + on("node-b") + on(""), []),
        (on("node-a") + on("node-b", count=2) + on("", count=4), ["node-b"]),
        (on("node-a", count=2) + on("node-b", count=3), ["node-b", "node-a"]),
        (sum((on(f"node-{letter}", count=2) for letter in "abcde"), ()), ["node-a", "node-b", "node-c"]),
        (sum((on("node-a", reason, 2) for reason in NOT_OF_THE_NODE), ()), []),
    ],
)
@pytest.mark.parametrize("own", [None, OWN])
def test_new_pods_prefer_other_nodes_than_those_that_failed_twice(history, avoided, own):
    template = {"spec": {"containers": [{"name": "pytorch"}], **({"affinity": own} if own else {})}}
    job, status = ddp(template=template), replace(plan_for(ddp()).status, recent_restarts=history)
    for asked, nodes in ((replace(job, avoid_failed_nodes=True), avoided), (job, [])):
        (pod, *_) = (action for action in plan_for(asked, status=status).actions if isinstance(action, CreatePod))
        affinity = pod.body["spec"].get("affinity")
        names = [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in nodes]
        wanted = [{"weight": 100, "preference": {"matchFields": names}}] if nodes else []
        if own:
            preferred = ["the template's", *wanted]
            assert affinity == {**own, "nodeAffinity": {**own["nodeAffinity"], PREFERRED: preferred}}
        else:
            assert affinity == ({"nodeAffinity": {PREFERRED: wanted}} if wanted else None)
