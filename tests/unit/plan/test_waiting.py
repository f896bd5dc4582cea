"""Pods that do not run: the columns of `kubectl get -o wide` and the conditions."""

from __future__ import annotations

import pytest

from support.builders import T0, a_job, a_pod, at, plan_for, printed, replace, run_policy, running, states
from trainshed.api import coerce, status_codec
from trainshed.api.objects import Container, TerminatedState
from trainshed.api.status import ConditionType

JOB = a_job("PyTorchJob", master=1, worker=3, restart="OnFailure")
OWN = Container("pytorch", waiting=True, reason="ContainerCreating", image="x:1")
PREP = Container("prep", init=True, waiting=True, reason="PodInitializing", image="busybox")
INITIALIZING = replace(OWN, reason="PodInitializing")
NO_CPU = "0/1 nodes are available: 1 Insufficient cpu."
PULL = 'failed to pull and unpack image "x:1": not found'


def placed(replica, *containers, **fields):
    """A pod with a node whose containers do not run."""
    known = {"node": "node-a", "created": T0, "scheduled": at(2), "containers": containers or (OWN,)}
    return a_pod(replica, fields.pop("phase", "Pending"), **known | fields)


def unplaced(replica, reason="Unschedulable", words=NO_CPU):
    return a_pod(replica, "Pending", created=T0, containers=(), unplaced=reason, unschedulable=words)


def up(replica, job=JOB):
    return a_pod(replica, container="pytorch", created=T0, node="node-b", scheduled=at(1))


def decided(*pods, now=60.0, status=None, job=JOB):
    there = {pod.name for pod in pods}
    others = [up(str(replica)) for replica in job.all_replicas if f"mnist-{replica}" not in there]
    return plan_for(job, *others, *pods, status=status or running(job), now=at(now))


def waits(reason, words="", **fields):
    return replace(OWN, reason=reason, message=words, **fields)


def crashed(restarts, *, waiting=True, code=1, why="Error", words="Traceback\nValueError: bad batch", **fields):
    """A container in a crash loop."""
    before = TerminatedState(code, at(40), at(42), why, words)
    reason = {"waiting": True, "reason": "CrashLoopBackOff", "message": "back-off 40s restarting failed container"}
    return replace(
        OWN,
        **({"waiting": False, "reason": "", "message": ""} | (reason if waiting else {})),
        before=before,
        restarts=restarts,
        **fields,
    )


NEVER_BEGAN = TerminatedState(128, coerce.EARLIEST, at(42), "StartError", "exec: no such file")  # as of containerd
ONE = "1 of 4 replicas is not running: worker-1 on node-a: "
MOUNT = "container pytorch is not created: a volume is not mounted, or the pod sandbox is not ready; "
CASES = {
    "no node has room": (
        [unplaced("worker-0"), unplaced("worker-1")],
        60,
        "Unschedulable",
        f"2 of 4 replicas are not running: worker 0-1: not scheduled: {NO_CPU}",
    ),
    "a scheduling gate is closed": (
        [unplaced("worker-1", "SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates")],
        60,
        "SchedulingGated",
        (
            "1 of 4 replicas is not running: worker-1: not scheduled: Scheduling is blocked due to "
            "non-empty scheduling gates"
        ),
    ),
    "the scheduler gives no message": (
        [unplaced("worker-1", "SchedulerError", "")],
        60,
        "SchedulerError",
        "1 of 4 replicas is not running: worker-1: not scheduled: SchedulerError",
    ),
    "the scheduler gives no reason": (
        [unplaced("worker-1", "")],
        60,
        "Unschedulable",
        f"1 of 4 replicas is not running: worker-1: not scheduled: {NO_CPU}",
    ),
    "no scheduler has the pod": (
        [unplaced("worker-1", "", "")],
        300,
        "NotScheduled",
        (
            "1 of 4 replicas is not running: worker-1: no scheduler has tried to place the pod: check its "
            "schedulerName, and that this scheduler runs"
        ),
    ),
    "the image is not there": (
        [placed(f"worker-{index}", waits("ErrImagePull", PULL)) for index in (0, 1, 2)],
        60,
        "ImagePullBackOff",
        f"3 of 4 replicas are not running: worker 0-2 on node-a: image x:1 cannot be pulled: {PULL}",
    ),
    "the back-off quotes the error": (
        [placed("worker-1", waits("ImagePullBackOff", f'Back-off pulling image "x:1": ErrImagePull: {PULL}'))],
        60,
        "ImagePullBackOff",
        ONE + f"image x:1 cannot be pulled: {PULL}",
    ),
    "the back-off says nothing": (
        [placed("worker-1", waits("ImagePullBackOff", 'Back-off pulling image "x:1"', image=""))],
        60,
        "ImagePullBackOff",
        ONE + "image of container pytorch cannot be pulled",
    ),
    "the image may not be pulled": (
        [placed("worker-1", waits("ErrImageNeverPull", "not present with pull policy of Never"))],
        60,
        "ErrImageNeverPull",
        (ONE + "image x:1 cannot be pulled: not present with pull policy of Never"),
    ),
    "a ConfigMap for the environment is missing": (
        [placed("master-0", waits("CreateContainerConfigError", 'configmap "settings" not found'))],
        60,
        "CreateContainerConfigError",
        (
            "1 of 4 replicas is not running: master-0 on node-a: container pytorch cannot be "
            'started (CreateContainerConfigError): configmap "settings" not found'
        ),
    ),
    "the runtime says nothing": (
        [placed("master-0", waits("RunContainerError"))],
        60,
        "RunContainerError",
        "1 of 4 replicas is not running: master-0 on node-a: container pytorch cannot be started (RunContainerError)",
    ),
    "a volume cannot be mounted, or the sandbox not created": (
        [placed("worker-1", sandbox_ready=False)],
        60,
        "ContainerCreating",
        (ONE + f"{MOUNT}`kubectl describe pod mnist-worker-1` shows the Events"),
    ),
    "a volume for an init container cannot be mounted": (
        [placed("worker-1", PREP, INITIALIZING, sandbox_ready=False)],
        60,
        "ContainerCreating",
        (ONE + f"init {MOUNT.replace('pytorch', 'prep')}`kubectl describe pod mnist-worker-1` shows the Events"),
    ),
    "a large image takes long": (
        [placed("worker-1", sandbox_ready=True)],
        302,
        "ContainerCreating",
        (ONE + "container pytorch is not created yet; its image may still be being pulled"),
    ),
    "the kubelet is silent": (
        [a_pod("worker-1", "Pending", created=T0, node="node-a", containers=())],
        60,
        "ContainerCreating",
        ONE + "the kubelet has not reported the containers",
    ),
    "an init container fails": (
        [placed("worker-1", replace(crashed(4, code=2, words="no data"), name="prep", init=True), INITIALIZING)],
        60,
        "CrashLoopBackOff",
        (ONE + "init container prep was restarted 4 times and last exited with code 2: no data"),
    ),
    "an init container is slow": (
        [placed("worker-1", replace(PREP, waiting=False, reason="", started=at(5)), INITIALIZING)],
        305,
        "PodInitializing",
        ONE + "init container prep is still running",
    ),
    "after an init container the image is not there": (
        [
            placed(
                "worker-1",
                replace(PREP, waiting=False, exit_code=0, started=at(5), finished=at(20)),
                waits("ErrImagePull", PULL),
            )
        ],
        50,
        "ImagePullBackOff",
        ONE + f"image x:1 cannot be pulled: {PULL}",
    ),
    "a sidecar has no image": (
        [placed("worker-1", replace(PREP, sidecar=True, reason="ErrImagePull", message="gone"), INITIALIZING)],
        60,
        "ImagePullBackOff",
        ONE + "image busybox cannot be pulled: gone",
    ),
    "a container beside a running sidecar has no image": (
        [
            placed(
                "worker-1",
                replace(PREP, sidecar=True, waiting=False, reason="", started=at(3)),
                waits("ErrImagePull", "gone"),
            )
        ],
        60,
        "ImagePullBackOff",
        ONE + "image x:1 cannot be pulled: gone",
    ),
    "a crash loop": (
        [placed("worker-1", crashed(5), phase="Running")],
        60,
        "CrashLoopBackOff",
        (ONE + "container pytorch was restarted 5 times and last exited with code 1: ValueError: bad batch"),
    ),
    "a crash loop while the container runs for a moment": (
        [placed("worker-1", crashed(5, waiting=False, started=at(50)), phase="Running")],
        60,
        "CrashLoopBackOff",
        (ONE + "container pytorch was restarted 5 times and last exited with code 1: ValueError: bad batch"),
    ),
    "a crash loop just after the container has exited": (
        [
            placed(
                "worker-1",
                replace(crashed(3, waiting=False), exit_code=137, reason="OOMKilled", started=at(57), finished=at(58)),
                phase="Running",
            )
        ],
        60,
        "CrashLoopBackOff",
        (ONE + "container pytorch was restarted 3 times and last exited with code 137 (OOMKilled)"),
    ),
    "a young crash loop": (
        [placed("worker-1", crashed(1, words=""), phase="Running")],
        72,
        "CrashLoopBackOff",
        (ONE + "container pytorch was restarted 1 time and last exited with code 1"),
    ),
    "a crash loop of a command that is not there": (
        [placed("worker-1", replace(crashed(3), before=NEVER_BEGAN, reason="RunContainerError"))],
        60,
        "CrashLoopBackOff",
        ONE + "container pytorch was restarted 3 times and last exited with code 128 (StartError): exec: no such file",
    ),
    "the image of a container that ran is gone": (
        [placed("worker-1", replace(crashed(3), reason="ErrImagePull", message="gone"))],
        80,
        "ImagePullBackOff",
        ONE + "image x:1 cannot be pulled: gone",
    ),
    "several causes on several nodes": (
        [
            unplaced("master-0"),
            placed("worker-0", waits("ErrImagePull", "gone")),
            placed("worker-2", waits("ErrImagePull", "gone"), node="node-b"),
            placed("worker-1", replace(PREP, waiting=False, reason="", started=at(5)), INITIALIZING),
        ],
        400,
        "Unschedulable",
        (
            f"4 of 4 replicas are not running: master-0: not scheduled: {NO_CPU}; worker 0,2: image x:1 "
            "cannot be pulled: gone; worker-1 on node-a: init container prep is still running"
        ),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_job_whose_pods_do_not_run_says_why(case):
    pods, now, reason, sentence = CASES[case]
    decision = decided(*pods, now=now)
    shown = printed(decision)
    assert (shown["State"], shown["Reason"], shown["Blocked"]) == ("Blocked", reason, sentence)
    assert "Running" in states(decision.status) or case.startswith("several"), "v1's conditions are what they were"


@pytest.mark.parametrize(
    ("pod", "due"),
    [
        (unplaced("worker-1"), 30),
        (unplaced("worker-1", "", ""), 300),
        (placed("worker-1"), 302),
        (placed("worker-1", sandbox_ready=False), 32),
        (placed("worker-1", waits("ErrImagePull", "dial tcp 10.0.0.1:443: i/o timeout")), 32),
        (placed("worker-1", waits("ErrImagePull", PULL)), 7),
        (placed("worker-1", waits("ImagePullBackOff", "manifest unknown: manifest unknown")), 7),
        (placed("worker-1", waits("InvalidImageName", "invalid reference format")), 7),
        (placed("worker-1", crashed(2)), 72),
        (placed("worker-1", replace(PREP, waiting=False, reason="", started=at(5)), INITIALIZING), 305),
    ],
)
def test_what_may_still_pass_is_not_said_before_its_time(pod, due):
    early, late = decided(pod, now=due - 1), decided(pod, now=due)
    assert (states(early.status), early.requeue_at) == (["Created", "Running"], at(due))
    assert printed(late)["State"] == "Blocked"


@pytest.mark.parametrize(
    "pod",
    [
        up("worker-1"),
        placed("worker-1", deleting=True),
        placed("worker-1", created=None),
        a_pod("worker-1", created=T0, containers=()),
        a_pod("worker-1", created=T0, node="node-a", containers=()),
        placed("worker-1", crashed(2, waiting=False, started=at(50)), phase="Running"),
        placed(
            "worker-1",
            replace(OWN, waiting=False, reason="", started=at(3)),
            replace(crashed(3, waiting=False), name="log", exit_code=0, started=at(50), finished=at(51)),
            phase="Running",
        ),
        placed(
            "worker-1",
            replace(crashed(3, waiting=False), before=TerminatedState(1, at(-900), at(0)), started=at(70)),
            phase="Running",
        ),
        placed(
            "worker-1",
            replace(crashed(3, waiting=False), before=TerminatedState(1, None, None), started=at(70)),
            phase="Running",
        ),
    ],
)
def test_a_job_that_runs_is_not_blocked(pod):
    assert printed(decided(pod, now=80))["State"] == "Running"


def test_a_crash_loop_shows_its_restarts_and_is_over_when_the_container_stays():
    decision = decided(placed("worker-1", crashed(5), phase="Running"))
    assert printed(decision)["Restarts"] == 5
    trying = placed("worker-1", crashed(6, waiting=False, started=at(100)), phase="Running")
    again = decided(trying, now=101, status=decision.status)
    assert (printed(again)["State"], again.requeue_at) == ("Blocked", at(130))
    assert again.status.waiting[0].since == at(42), "it began with the first crash that was seen"
    over = decided(trying, now=130, status=again.status)
    assert (printed(over)["State"], over.status.waiting, over.requeue_at) == ("Running", (), None)


def test_it_is_taken_back_when_it_is_over_though_other_pods_are_missing():
    pods = [unplaced("worker-0"), up("master-0")]
    status = plan_for(JOB, *pods, now=at(60)).status
    assert status.state == "Blocked"
    assert plan_for(JOB, up("worker-0"), up("master-0"), status=status, now=at(61)).status.state == "Running"


def test_the_kubelet_alternates_between_two_reasons_and_the_status_does_not():
    status = decided(placed("worker-1", waits("ErrImagePull", PULL))).status
    back_off = placed("worker-1", waits("ImagePullBackOff", 'Back-off pulling image "x:1"'))
    decision = decided(back_off, now=61, status=status)
    assert (decision.status, decision.requeue_at) == (status, None)


def test_other_details_are_stored_twice_a_minute_and_another_reason_at_once():
    status = decided(unplaced("worker-0"), unplaced("worker-1")).status
    soon = decided(unplaced("worker-1"), unplaced("worker-0", words="0/2"), now=80, status=status)
    assert (soon.status, soon.requeue_at) == (status, at(90))
    later = decided(unplaced("worker-1"), unplaced("worker-0", words="0/2"), now=90, status=status)
    assert [item.message for item in later.status.waiting] == ["not scheduled: 0/2"]
    assert later.status.condition(ConditionType.BLOCKED).changed == at(60)
    broken = decided(placed("worker-1", waits("ErrImagePull", PULL)), now=80, status=status)
    assert broken.status.reason == "ImagePullBackOff"


def test_a_refusal_is_said_first_and_the_list_has_the_waiting_pods_too():
    pods = [up("master-0"), unplaced("worker-0")]
    decision = plan_for(JOB, *pods, now=at(60), refusal=("QuotaExceeded", "exceeded quota: gpus"))
    shown = printed(decision)
    expected = ("Blocked", "QuotaExceeded", "exceeded quota: gpus; 2 of 4 pods created; retrying the rest")
    assert (shown["State"], shown["Reason"], shown["Blocked"]) == expected
    assert [item.reason for item in decision.status.waiting] == ["Unschedulable"]


def test_a_suspended_and_a_finished_job_wait_for_nothing():
    status = decided(unplaced("worker-0")).status
    paused = plan_for(
        replace(JOB, policy=run_policy(suspend=True)), unplaced("worker-0"), status=status, now=at(70)
    ).status
    assert (paused.state, paused.waiting) == ("Suspended", ())
    late = replace(JOB, policy=run_policy(deadline=65))
    failed = plan_for(late, unplaced("worker-0"), status=replace(status, start=T0), now=at(70)).status
    assert (failed.state, failed.waiting) == ("Failed", ())


def test_the_list_is_read_back_as_it_was_and_small_whatever_pods_say():
    job = a_job("PyTorchJob", master=1, worker=999, restart="OnFailure")
    words = '<&"\\\n€😀\ud800' * 90
    pods = [
        placed(f"worker-{2 * index}", waits(f"Reason{index % 7}" + "r" * 99, words), node="n" * 253)
        for index in range(400)
    ]
    status = plan_for(job, *pods, now=at(60.5)).status
    document = status_codec.status_document(status)
    assert len(status.waiting) == 5
    assert coerce.json_size(document["waiting"]) < 5 * 800
    assert status.waiting[0].count == 58
    assert status.waiting[0].indexes == "0,14,28,42,56,70,84,98,112,126,140,154,168,182,196,210,224,..."
    forged = {"waiting": [{"indexes": "0"}, *document["waiting"]]}
    assert status_codec.parse_status({"status": document | forged}).waiting == status.waiting
    assert plan_for(job, *pods, status=status, now=at(99)).status.waiting == status.waiting
