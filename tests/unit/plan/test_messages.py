"""Messages of conditions and Events; v1's to the letter where v1 has one."""

from __future__ import annotations

import pytest

from support.builders import a_job, a_pod, at, message, plan_for, pods_of, replace, run_policy, running
from trainshed.api.actions import DeleteDependent, EventType
from trainshed.api.framework import JobDefaults
from trainshed.api.objects import CONFIG_MAPS, VOLCANO_GROUPS, Container
from trainshed.frameworks.tensorflow import TFJobOptions
from trainshed.plan.messages import job_events

JOBS = [
    (a_job(chief=1), "TFJob ml/mnist is running.", "TFJob ml/mnist successfully completed."),
    (a_job("PyTorchJob", master=1), "PyTorchJob mnist is running.", "PyTorchJob mnist is successfully completed."),
    (a_job("PyTorchJob", worker=1), "PyTorchJob ml/mnist is running.", "PyTorchJob ml/mnist successfully completed."),
]


@pytest.mark.parametrize(("job", "runs", "ends"), JOBS)
def test_messages_are_v1s(job, runs, ends):
    assert message(running(job), "Running") == runs
    done = [a_pod(str(replica), "Succeeded", code=0) for replica in job.all_replicas]
    assert message(plan_for(job, *done).status, "Succeeded") == ends
    assert message(running(job), "Created") == f"{job.kind} mnist is created."


def notes_of(*pods, job=None):
    job = job or a_job(chief=1, worker=1)
    return plan_for(job, *pods_of(job, *pods), status=running(job)).events


@pytest.mark.fault("H11")
def test_a_waiting_container_has_one_event_for_each_reason():
    container = Container("tensorflow", waiting=True, reason="ErrImagePull", message="no such image")
    (note,) = notes_of(a_pod("worker-0", "Pending", containers=(container,)))
    assert (note.type, note.reason) == (EventType.WARNING, "ErrImagePull")
    assert note.message == "Error pod mnist-worker-0 container tensorflow waiting message: no such image"
    assert note.key == "worker-0-uid/tensorflow/ErrImagePull/0"
    silent = Container("tensorflow", waiting=True, reason="ContainerCreating")
    assert notes_of(a_pod("worker-0", "Pending", containers=(silent,))) == ()


def test_a_container_that_failed_in_a_pod_that_runs_on_has_an_event():
    container = Container("tensorflow", exit_code=9, message="Killed", restarts=2)
    (note,) = notes_of(a_pod("worker-0", containers=(container,)), job=a_job(restart="OnFailure", chief=1, worker=1))
    assert note.message == "Error pod mnist-worker-0 container tensorflow exitCode: 9 terminated message: Killed"
    assert note.reason == "Error"


@pytest.mark.parametrize("reason", ["Unschedulable", "SchedulingGated"])
def test_a_pod_that_finds_no_node_has_an_event(reason):
    pod = a_pod("worker-0", "Pending", containers=(), unplaced=reason, unschedulable="0/3 nodes are available")
    (note,) = notes_of(pod)
    assert (note.type, note.reason) == (EventType.WARNING, reason)
    assert note.message == "Error pod mnist-worker-0 condition message: 0/3 nodes are available"
    assert note.key == f"worker-0-uid/{reason}"


def test_one_plan_has_events_about_a_few_pods_at_most():
    job = a_job(chief=1, worker=40)
    waiting = (
        Container("a", waiting=True, reason="X", message="m"),
        Container("b", waiting=True, reason="X", message="m"),
    )
    pods = [a_pod(f"worker-{index}", "Pending", containers=waiting) for index in range(40)]
    assert len(notes_of(*pods, job=job)) == job_events.MAX_LISTED


def test_an_event_says_that_the_kubelet_evicted_a_pod():
    notes = notes_of(a_pod("worker-0", "Failed", reason="Evicted", message="low on memory", node="n1", containers=()))
    expected = "Pod mnist-worker-0 on node n1 was evicted by the kubelet: low on memory"
    assert ("Warning", "PodDisrupted", expected) in [(note.type, note.reason, note.message) for note in notes]


def test_a_fatal_failure_without_an_exit_code_is_a_warning_in_the_words_of_the_condition():
    runc = (
        "failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: "
    )
    state = {"code": 128, "why": "StartError", "words": f"{runc}exec: no such file"}
    notes = notes_of(a_pod("worker-0", "Failed", node="n1", **state), job=a_job(worker=1))
    assert [(note.type, note.reason) for note in notes] == [("Warning", "PodFailed"), ("Warning", "TFJobFailed")]
    end = "could not be started (StartError)"
    assert notes[0].message == f"Pod mnist-worker-0 on node n1 {end}: {runc}exec: no such file"
    assert f"worker-0 on n1 {end} 0s after start: exec: no such file; restartPolicy" in notes[1].message, (
        "only the cause"
    )


def test_pods_that_exited_together_have_one_event_each():
    job = a_job("PyTorchJob", master=1, worker=3, restart="ExitCode")
    codes = {"worker-2": 1, "worker-0": 134}
    pods = [a_pod(replica, "Failed", code=code, container="pytorch") for replica, code in codes.items()]
    notes = plan_for(job, *pods_of(job, *pods), status=running(job)).events
    exits = [note for note in notes if note.reason == "ExitedWithCode"]
    assert [note.message for note in exits] == [
        "Pod: ml.mnist-worker-0 exited with code 134",
        "Pod: ml.mnist-worker-2 exited with code 1",
    ]
    assert [note.key for note in exits] == ["worker-0-uid/Failed", "worker-2-uid/Failed"]
    assert {note.type for note in exits} == {EventType.WARNING}


def test_a_failure_that_changes_nothing_has_an_event_as_well():
    job = a_job(chief=1, worker=2, options=TFJobOptions(dynamic_workers=True))
    pods = pods_of(job, a_pod("worker-1", "Failed", code=2))
    decision = plan_for(job, *pods, status=running(job))
    assert [note.message for note in decision.events] == ["Pod: ml.mnist-worker-1 exited with code 2"]
    assert not decision.status.over


IN_VAIN = "Restart policy in pod template will be overwritten by restart policy in replica spec"
ANOTHER = "Another scheduler is specified when gang-scheduling is enabled and it will not be overwritten"


def asking(gang: str = "", **spec):
    """The Events when pods are created from templates with these fields."""
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "x"}], **spec}}
    job = a_job(chief=1, worker=2, template=template)
    job_defaults = JobDefaults(gang_scheduler=gang)
    first = [note for note in plan_for(job, job_defaults=job_defaults).events if note.key.startswith("Set")]
    later = [
        note for note in plan_for(job, *pods_of(job), job_defaults=job_defaults).events if note.key.startswith("Set")
    ]
    assert later == [], "no pod is made any more"
    assert {note.type for note in first} <= {EventType.WARNING}
    return [(note.reason, note.message) for note in first]


def test_what_a_template_asks_for_in_vain_has_one_event_when_pods_are_created():
    assert asking() == []
    assert asking(restartPolicy="Always") == [("SetPodTemplateRestartPolicy", IN_VAIN)]


def test_a_template_with_another_scheduler_has_an_event_only_with_gang_scheduling():
    assert asking(schedulerName="mine") == []
    assert asking("volcano", schedulerName="volcano") == []
    assert asking("volcano", schedulerName="mine") == [("SetPodTemplateSchedulerName", ANOTHER)]


def test_the_deletion_of_pod_groups_has_the_event_of_the_end_of_the_job():
    groups = (DeleteDependent(VOLCANO_GROUPS, "mnist", "g"), DeleteDependent(CONFIG_MAPS, "mnist", "c"))
    (note,) = job_events.pod_groups_deleted(groups)
    assert (note.type, note.reason) == (EventType.NORMAL, "JobTerminated")
    assert note.message == "Job has been terminated. Deleting PodGroup"
    assert note.key == "JobTerminated/g"


def suspended_job(**fields):
    return a_job("PyTorchJob", master=1, policy=run_policy(suspend=True), **fields)


MASTER = {"container": "pytorch"}
ALONE = a_job("PyTorchJob", master=1)
RETRYING = a_job("PyTorchJob", master=1, worker=1, restart="ExitCode")
SPENT = replace(RETRYING, policy=run_policy(backoff_limit=0))
LATE = a_job("PyTorchJob", master=1, policy=run_policy(deadline=60))
RUNS = running(RETRYING)
REFUSED = replace(ALONE, problems=("spec: Invalid value: no",))
#: §7.1 of v1's behaviour: the Events of a job's transitions, with D17's type for failures.
TURNS = [
    (plan_for(suspended_job()), [("Normal", "PyTorchJobSuspended", "PyTorchJob mnist is suspended.")]),
    (
        plan_for(ALONE, status=plan_for(suspended_job()).status),
        [("Normal", "PyTorchJobResumed", "PyTorchJob mnist is resumed.")],
    ),
    (
        plan_for(ALONE, a_pod("master-0", "Succeeded", code=0, **MASTER)),
        [("Normal", "PyTorchJobSucceeded", "PyTorchJob mnist is successfully completed.")],
    ),
    (
        plan_for(ALONE, a_pod("master-0", "Failed", code=9, **MASTER)),
        [
            ("Warning", "ExitedWithCode", "Pod: ml.mnist-master-0 exited with code 9"),
            (
                "Warning",
                "PyTorchJobFailed",
                (
                    "PyTorchJob mnist is failed because 1 Master replica(s) failed. "
                    "master-0 exited with code 9 after 0s; restartPolicy is Never"
                ),
            ),
        ],
    ),
    (
        plan_for(RETRYING, *pods_of(RETRYING, a_pod("worker-0", "Failed", code=130, **MASTER)), status=RUNS),
        [
            ("Warning", "ExitedWithCode", "Pod: ml.mnist-worker-0 exited with code 130"),
            (
                "Warning",
                "PyTorchJobRestarting",
                (
                    "job mnist is restarting because Worker replica(s) failed. "
                    "worker-0 was killed by SIGINT (130) 0s after start; restarting all 2 replicas now (restart 1)"
                ),
            ),
        ],
    ),
    (
        plan_for(RETRYING, *pods_of(RETRYING, a_pod("worker-0", "Failed", code=1, **MASTER)), status=RUNS, now=at(3)),
        [
            ("Warning", "ExitedWithCode", "Pod: ml.mnist-worker-0 exited with code 1"),
            (
                "Warning",
                "PyTorchJobFailed",
                (
                    'job "mnist" is failing because "Worker" replica(s) failed. worker-0 exited with code 1 after 0s; '
                    "restartPolicy ExitCode retries only exit codes 128 and above"
                ),
            ),
        ],
    ),
    (
        plan_for(SPENT, *pods_of(SPENT, a_pod("worker-0", "Failed", code=130, **MASTER)), status=RUNS, now=at(3)),
        [
            ("Warning", "ExitedWithCode", "Pod: ml.mnist-worker-0 exited with code 130"),
            (
                "Warning",
                "PyTorchJobFailed",
                (
                    "Job mnist has failed because it has reached the specified backoff limit: "
                    "backoffLimit is 0; last failure: worker-0 was killed by SIGINT (130) 0s after start"
                ),
            ),
        ],
    ),
    (
        plan_for(LATE, *pods_of(LATE), status=running(LATE), now=at(61)),
        [
            (
                "Warning",
                "PyTorchJobFailed",
                (
                    "Job mnist has failed because it was active longer than specified deadline: "
                    "limit 60s; 1 of 1 replica running"
                ),
            )
        ],
    ),
    (plan_for(REFUSED), [("Warning", "PyTorchJobFailed", "spec: Invalid value: no")]),
    (plan_for(ALONE), []),
    (plan_for(ALONE, *pods_of(ALONE)), []),
]


@pytest.mark.parametrize(("decision", "expected"), TURNS)
def test_each_change_of_a_job_has_an_event_in_v1s_words(decision, expected):
    assert [(note.type, note.reason, note.message) for note in decision.events] == expected
