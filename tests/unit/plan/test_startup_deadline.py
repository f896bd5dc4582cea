"""The start-up deadline."""

from __future__ import annotations

import pytest

from support.builders import a_job, a_pod, at, message, plan_for, pods_of, replace, running, states
from trainshed.api.objects import Container, Phase, TerminatedState

JOB = a_job("PyTorchJob", master=1, worker=2, startup_deadline=600)
NOT_CREATED = "container pytorch is not created yet; its image may still be being pulled"
OWN = Container("pytorch", waiting=True, reason="ContainerCreating", image="x:1")


def pending(replica="worker-1", *containers, **fields):
    known = {"node": "node-a", "created": at(0), "containers": containers or (OWN,)}
    return a_pod(replica, "Pending", **known | fields)


def up(replica):
    return a_pod(replica, container="pytorch", created=at(0))


def decided(pod, now=600.0, job=JOB):
    others = [up(replica) for replica in ("master-0", "worker-0", "worker-1") if f"mnist-{replica}" != pod.name]
    return plan_for(job, *others, pod, status=running(job), now=at(now))


def why(pod, now=600.0):
    decision = decided(pod, now)
    head = "PyTorchJob mnist has failed because worker-1 on node-a did not start running within 10m of pod "
    head += "creation: "
    assert message(decision.status, "Failed").startswith(head), message(decision.status, "Failed")
    return message(decision.status, "Failed").removeprefix(head), decision.status.failure


def waiting(reason, words="", **fields):
    return replace(OWN, reason=reason, message=words, **fields)


def test_there_is_time_until_the_deadline_and_then_there_is_none():
    early = decided(pending(), 599)
    assert (states(early.status), early.requeue_at) == (["Created", "Running", "Blocked"], at(600))
    late = decided(pending())
    assert states(late.status) == ["Created", "-Running", "Failed"]
    assert late.status.completion == at(600)


@pytest.mark.fault("H11")
def test_who_sets_no_deadline_waits_for_ever():
    decision = decided(pending(), 99_999, replace(JOB, startup_deadline=None))
    assert states(decision.status) == ["Created", "Running", "Blocked"]


@pytest.mark.parametrize(
    "pod",
    [
        up("worker-1"),
        replace(up("worker-1"), created=None),
        pending(deleting=True),
        pending(created=at(1)),
        pending("worker-1", replace(OWN, waiting=False, reason="", started=at(599))),
    ],
    ids=["running", "of unknown age", "leaving", "younger", "has just begun"],
)
def test_who_is_in_time_or_on_its_way_out_is_not_late(pod):
    assert "Failed" not in states(decided(pod).status)


def test_who_ran_and_is_about_to_be_started_again_is_not_late():
    ended = Container("pytorch", exit_code=1, started=at(590), finished=at(599))
    job = a_job("PyTorchJob", restart="OnFailure", master=1, worker=2, startup_deadline=600)
    assert "Failed" not in states(decided(replace(up("worker-1"), containers=(ended,)), job=job).status)


@pytest.mark.fault("H11")
@pytest.mark.parametrize(
    "reason", ["ImageInspectError", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable"]
)
def test_an_image_that_cannot_be_had_is_named_with_the_kubelets_words(reason):
    words, failure = why(pending("worker-1", waiting(reason, "pull access denied")))
    assert words == "image x:1 cannot be pulled: pull access denied"
    assert (failure.reason, failure.node) == (reason, "node-a")
    assert why(pending("worker-1", waiting(reason, image="")))[0] == "image of container pytorch cannot be pulled"


@pytest.mark.fault("H11")
def test_a_pod_that_no_node_takes_says_why():
    pod = pending(node="", containers=(), unplaced="Unschedulable", unschedulable="0/3 nodes are available")
    decision = decided(pod)
    assert message(decision.status, "Failed").endswith("not scheduled: 0/3 nodes are available")
    assert decision.status.failure.kind == "Infrastructure"
    assert decided(replace(pod, unplaced="")).status.failure.reason == "Unschedulable"


def test_a_crash_loop_says_how_often_and_with_which_code():
    loop = waiting("CrashLoopBackOff", "back-off 5m0s", restarts=6, before=TerminatedState(3, at(400), at(405)))
    words, failure = why(replace(pending("worker-1", loop), phase=Phase.RUNNING), 601)
    assert words == "container pytorch was restarted 6 times and last exited with code 3"
    assert (failure.kind, failure.exit_code) == ("Application", 3)
    once = replace(loop, restarts=1, before=TerminatedState(128, at(-1.76e9), at(20)))
    for before in (once.before, TerminatedState(128, None, at(9))):  # the first began in 1970: it never began
        words, _ = why(pending("worker-1", replace(once, before=before)))
        assert words == "container pytorch was restarted 1 time and last exited with code 128"


@pytest.mark.parametrize(
    "before", [TerminatedState(1, at(60), at(18_000)), TerminatedState(1, at(9_000), at(9_010)), TerminatedState(1)]
)
def test_whoever_has_run_for_long_enough_is_no_beginner(before):
    loop = waiting("CrashLoopBackOff", restarts=1, before=before)
    assert "Failed" not in states(decided(replace(pending("worker-1", loop), phase=Phase.RUNNING), 18_100).status)


@pytest.mark.fault("H11")
def test_an_init_container_that_is_not_done_is_named():
    own = waiting("PodInitializing")
    done = Container("first", init=True, exit_code=0)
    slow = Container("prepare", init=True, started=at(5))
    words, _ = why(pending("worker-1", done, slow, own))
    assert words == "init container prepare is still running"
    no_image = Container("prepare", init=True, waiting=True, reason="ErrImagePull", image="y:2", message="no")
    assert why(pending("worker-1", no_image, own))[0] == "image y:2 cannot be pulled: no"
    failing = Container(
        "prepare",
        init=True,
        waiting=True,
        reason="CrashLoopBackOff",
        restarts=2,
        before=TerminatedState(4, at(1), at(2)),
    )
    assert why(pending("worker-1", failing, own))[0].startswith("init container prepare was restarted 2 times and last")


def test_a_sidecar_that_runs_holds_nobody_up_and_one_that_does_not_does():
    mesh = Container("mesh", init=True, sidecar=True, started=at(1))
    assert why(pending("worker-1", mesh, OWN))[0] == NOT_CREATED
    held = replace(mesh, started=None, waiting=True, reason="ErrImagePull", image="mesh:1")
    assert why(pending("worker-1", held, waiting("PodInitializing")))[0] == "image mesh:1 cannot be pulled"


def test_a_message_says_how_far_the_kubelet_is_with_the_containers():
    assert why(pending(containers=()))[0] == "the kubelet has not reported the containers"
    for reason in ("PodInitializing", ""):
        assert why(pending("worker-1", waiting(reason)))[0] == NOT_CREATED
    assert why(pending("worker-1", Container("pytorch")))[0] == "no container has started"


def test_the_one_that_should_have_run_first_stands_for_all():
    pods = pending("worker-1"), pending("worker-0", created=at(-5))
    decision = plan_for(JOB, *pods_of(JOB, *pods), status=running(JOB), now=at(700))
    assert decision.status.failure.pod == "mnist-worker-0"


def test_what_is_tried_again_has_its_time_anew():
    retrying = a_job("PyTorchJob", master=1, worker=2, restart="ExitCode", startup_deadline=600)
    killed = a_pod("worker-0", "Failed", code=137, ended=599, container="pytorch")
    decision = plan_for(retrying, *pods_of(retrying, killed, pending()), status=running(JOB), now=at(601))
    assert states(decision.status) == ["Created", "Restarting"]
