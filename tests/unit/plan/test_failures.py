"""The classification of failures."""

from __future__ import annotations

import pytest

from support.builders import a_job, a_pod, at, plan_for, pods_of, replace, running
from trainshed.api.job import RestartPolicy
from trainshed.api.objects import Container, Phase
from trainshed.plan.failures import (
    APPLICATION,
    CLASSES,
    DISRUPTION,
    INFRASTRUCTURE,
    TERMINATION_MESSAGE_LIMIT,
    failure,
    failure_class,
    outcome,
    own_container,
)


def classified(pod):
    found = failure(pod, "tensorflow", at(99))
    return found and (found.kind, found.reason, found.exit_code)


@pytest.mark.fault("H3")
@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (a_pod("worker-0"), None),
        (a_pod("worker-0", "Pending"), None),
        (a_pod("worker-0", "Succeeded", code=0, deleting=True), None),
        (a_pod("worker-0", "Pending", deleting=True, containers=()), None),
        (
            a_pod(
                "worker-0", "Pending", disruption="DeletionByTaintManager", containers=(Container("a", waiting=True),)
            ),
            None,
        ),
        (
            a_pod("worker-0", "Pending", deleting=True, containers=(Container("a", init=True, started=at(1)),)),
            ("Disruption", "Deleted", None),
        ),
        (a_pod("worker-0", "Failed", code=1), ("Application", "Error", 1)),
        (a_pod("worker-0", "Failed", code=137, why="OOMKilled"), ("Application", "OOMKilled", 137)),
        (a_pod("worker-0", "Failed", code=1, deleting=True), ("Disruption", "Deleted", None)),
        (
            a_pod("worker-0", "Running", disruption="EvictionByEvictionAPI"),
            ("Disruption", "EvictionByEvictionAPI", None),
        ),
        (a_pod("worker-0", "Failed", code=137, reason="Evicted"), ("Disruption", "Evicted", None)),
        (a_pod("worker-0", "Failed", containers=()), ("Infrastructure", "ExitCodeUnknown", None)),
        (
            a_pod("worker-0", "Failed", reason="UnexpectedAdmissionError"),
            ("Infrastructure", "UnexpectedAdmissionError", None),
        ),
    ],
)
def test_each_end_has_its_class(pod, expected):
    assert classified(pod) == expected


@pytest.mark.fault("H3")
@pytest.mark.parametrize("reason", sorted(CLASSES))
def test_every_reason_has_a_class_of_which_there_are_three(reason):
    assert failure_class(reason) in (APPLICATION, INFRASTRUCTURE, DISRUPTION)


@pytest.mark.parametrize("resource", ["cpu", "memory", "pods", "ephemeral-storage", "nvidia.com/gpu"])
def test_too_little_of_anything_on_a_node_is_the_infrastructures(resource):
    pod = a_pod("worker-0", "Failed", reason=f"OutOf{resource}", containers=())
    assert classified(pod) == ("Infrastructure", f"OutOf{resource}", None)


@pytest.mark.fault("H3")
def test_whoever_marks_a_pod_as_the_target_of_a_disruption_is_believed_whatever_his_reason():
    assert classified(a_pod("worker-0", "Failed", code=137, disruption="SomethingNew")) == (
        "Disruption",
        "SomethingNew",
        None,
    )


@pytest.mark.parametrize(
    "message",
    [
        'Usage of EmptyDir volume "scratch" exceeds the limit "1Gi". ',
        "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ",
        'Container tensorflow exceeded its local ephemeral storage limit "1Gi". ',
    ],
)
def test_a_pod_evicted_for_using_more_disk_than_it_may_is_its_own_fault(message):
    pod = a_pod("worker-0", "Failed", code=137, reason="Evicted", message=message)
    assert classified(pod) == ("Application", "Evicted", None)
    low = "The node was low on resource: memory. Container tensorflow was using 2Gi, which exceeds its request of 1Gi. "
    assert classified(replace(pod, message=low))[0] == "Disruption", "kubelets before 1.26 do not say DisruptionTarget"
    assert classified(replace(pod, disruption="TerminationByKubelet"))[0] == "Disruption"


@pytest.mark.parametrize(
    ("reason", "disruption", "known"),
    [
        ("Evicted", "TerminationByKubelet", "Evicted"),
        ("Terminated", "TerminationByKubelet", "Terminated"),
        ("Preempting", "TerminationByKubelet", "Preempting"),
        ("", "TerminationByKubelet", "TerminationByKubelet"),
        ("NodeLost", "DeletionByTaintManager", "DeletionByTaintManager"),
        ("", "PreemptionByScheduler", "PreemptionByScheduler"),
    ],
)
def test_of_a_pod_that_a_kubelet_removes_its_exact_reason_and_words_are_known(reason, disruption, known):
    own = Container("pytorch", exit_code=137, reason="Error", message="step 7", started=at(1), finished=at(5))
    pod = a_pod("worker-1", "Failed", reason=reason, message="low on memory", disruption=disruption, containers=(own,))
    found = failure(pod, "pytorch", at(9))
    assert (found.kind, found.reason, found.termination_message) == ("Disruption", known, "low on memory")


@pytest.mark.fault("H6")
def test_an_exit_code_that_is_not_the_programs_is_none():
    for reason in ("StartError", "ContainerCannotRun"):
        assert classified(a_pod("worker-0", "Failed", code=128, why=reason)) == ("Application", reason, None)
    lost = a_pod("worker-0", "Failed", code=137, why="ContainerStatusUnknown")
    assert classified(lost) == ("Infrastructure", "ContainerStatusUnknown", None)
    late = a_pod("worker-0", "Failed", code=137, reason="DeadlineExceeded")
    assert classified(late) == ("Application", "DeadlineExceeded", None)


def test_a_pod_that_had_failed_before_it_was_deleted_has_failed():
    pod = a_pod("worker-0", "Failed", code=1, ended=5, deleting=True, deletion_timestamp=at(40), grace=30)
    without_grace = replace(pod, deletion_timestamp=at(10), grace=0)
    killed = a_pod("worker-0", "Failed", code=143, ended=5, deleting=True, deletion_timestamp=at(10))
    assert classified(pod) == ("Application", "Error", 1)
    assert classified(replace(pod, deletion_timestamp=at(35))) == ("Disruption", "Deleted", None), (
        "in the same second: who knows"
    )
    assert classified(without_grace) == ("Application", "Error", 1), "the kubelet's last word takes the grace away"
    assert classified(killed) == ("Disruption", "Deleted", None), "and the first word was before its end"
    assert classified(replace(pod, reason="Evicted"))[0] == "Disruption"
    assert classified(replace(pod, phase=Phase.RUNNING))[0] == "Disruption"
    assert failure(replace(pod, deletion_timestamp=at(32)), "tensorflow", at(99)).time == at(5)
    assert failure(
        a_pod("worker-0", deleting=True, deletion_timestamp=at(32), grace=30), "tensorflow", at(99)
    ).time == at(2)


def test_a_condition_dates_an_eviction_whose_grace_is_forgotten():
    last_word = a_pod(
        "worker-0", "Failed", code=1, ended=5, deleting=True, deletion_timestamp=at(10), disruption="Drain"
    )
    assert classified(replace(last_word, disrupted=at(5))) == ("Disruption", "Drain", None)
    assert classified(replace(last_word, disrupted=at(6))) == ("Application", "Error", 1), "it had failed before"
    assert classified(replace(last_word, disrupted=at(11))) == ("Application", "Error", 1), "it was deleted before"


@pytest.mark.fault("H13")
def test_the_frameworks_own_container_decides_and_no_other():
    sidecar, own = Container("sidecar", exit_code=9), Container("tensorflow", exit_code=3)
    assert classified(a_pod("worker-0", "Failed", containers=(sidecar, own))) == ("Application", "Error", 3)
    running = Container("tensorflow")
    assert classified(a_pod("worker-0", "Failed", containers=(sidecar, running))) == (
        "Infrastructure",
        "ExitCodeUnknown",
        None,
    )
    assert own_container(a_pod("worker-0", containers=(Container("init", init=True), sidecar)), "tensorflow") == sidecar


def test_an_init_container_that_failed_is_named_and_a_sidecar_never():
    mesh, setup = Container("mesh", init=True, sidecar=True, exit_code=137), Container("setup", init=True, exit_code=4)
    pod = a_pod("worker-0", "Failed", containers=(mesh, setup, Container("tensorflow", waiting=True)))
    assert classified(pod) == ("Application", "Error", 4)
    assert failure(pod, "tensorflow", at(99)).container == "setup"


@pytest.mark.fault("H13")
@pytest.mark.parametrize(
    ("phase", "code", "policy", "expected"),
    [
        ("Running", 0, "Never", "Succeeded"),
        ("Failed", 0, "Never", "Succeeded"),
        ("Running", 0, "OnFailure", "Succeeded"),
        ("Running", 0, "Always", "Running"),
        ("Running", 1, "Never", "Failed"),
        ("Running", 1, "ExitCode", "Failed"),
        ("Running", 1, "OnFailure", "Running"),
        ("Running", None, "Never", "Running"),
        ("Succeeded", 0, "Never", "Succeeded"),
    ],
)
def test_the_own_container_gives_the_pod_its_phase_whatever_a_sidecar_does(phase, code, policy, expected):
    own, mesh = Container("tensorflow", exit_code=code), Container("mesh", exit_code=None if phase == "Running" else 2)
    pod = a_pod("worker-0", phase, containers=(own, mesh))
    assert outcome(pod, "tensorflow", RestartPolicy(policy)) == expected
    assert outcome(replace(pod, containers=()), "tensorflow", RestartPolicy(policy)) == phase


@pytest.mark.parametrize("fields", [{"deleting": True}, {"disruption": "X"}, {"reason": "Evicted"}])
def test_a_container_that_ends_well_because_its_pod_must_go_has_not_succeeded(fields):
    own = Container("tensorflow", exit_code=0)
    assert outcome(a_pod("worker-0", containers=(own,), **fields), "tensorflow", RestartPolicy.NEVER) == "Running"


def test_the_last_words_are_kept_from_their_end():
    found = failure(a_pod("worker-0", "Failed", code=1, words="x" * 5000 + "the end\n"), "tensorflow", at(99))
    assert len(found.termination_message) == TERMINATION_MESSAGE_LIMIT
    assert found.termination_message.endswith("the end")
    assert found.time == at(0)
    silent = failure(a_pod("worker-0", "Failed", reason="Evicted", message="low on memory"), "tensorflow", at(99))
    assert (silent.termination_message, silent.time) == ("low on memory", at(99))


@pytest.mark.fault("H14")
def test_a_pod_of_which_nothing_is_known_for_a_while_is_waited_for():
    job = a_job(worker=2)
    pods, status = pods_of(job), running(job)
    assert (
        plan_for(job, replace(pods[0], phase=Phase.UNKNOWN, ready=False), pods[1], status=status, now=at(60)).actions
        == ()
    )
    later = plan_for(job, replace(pods[0], phase=Phase.UNKNOWN), pods[1], status=status, now=at(3600)).status
    assert (later.over, later.attempts, later.retries) == (False, status.attempts, status.retries)
    assert plan_for(job, *pods, status=later, now=at(7200)).actions == ()
