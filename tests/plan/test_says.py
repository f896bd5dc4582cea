"""What users are told: v1's words wherever v1 has words for it."""

from __future__ import annotations

import pytest

from make import a_job, a_pod, look, message, pods_of, running
from trainshed.api.actions import Tone
from trainshed.api.pod import Container
from trainshed.plan import says

JOBS = [
    (a_job(chief=1), "TFJob ml/mnist is running.", "TFJob ml/mnist successfully completed."),
    (a_job("PyTorchJob", master=1), "PyTorchJob mnist is running.", "PyTorchJob mnist is successfully completed."),
    (a_job("PyTorchJob", worker=1), "PyTorchJob ml/mnist is running.", "PyTorchJob ml/mnist successfully completed."),
]


@pytest.mark.parametrize(("job", "runs", "ends"), JOBS)
def test_messages_are_v1s(job, runs, ends):
    assert message(running(job), "Running") == runs
    done = [a_pod(str(member), "Succeeded", code=0) for member in job.members]
    assert message(look(job, *done).status, "Succeeded") == ends
    assert message(running(job), "Created") == f"{job.kind} mnist is created."


def notes_of(*pods, job=None):
    job = job or a_job(chief=1, worker=1)
    return look(job, *pods_of(job, *pods), status=running(job)).notes


def test_a_waiting_container_is_told_of_once_for_each_reason():
    container = Container("tensorflow", waiting=True, reason="ErrImagePull", message="no such image")
    (note,) = notes_of(a_pod("worker-0", "Pending", containers=(container,)))
    assert (note.tone, note.reason) == (Tone.WARNING, "ErrImagePull")
    assert note.message == "Error pod mnist-worker-0 container tensorflow waiting message: no such image"
    assert note.key == "worker-0-uid/tensorflow/ErrImagePull/0"
    silent = Container("tensorflow", waiting=True, reason="ContainerCreating")
    assert notes_of(a_pod("worker-0", "Pending", containers=(silent,))) == ()


def test_a_container_that_ended_badly_in_a_pod_that_goes_on_is_told_of():
    container = Container("tensorflow", exit_code=9, message="Killed", restarts=2)
    (note,) = notes_of(a_pod("worker-0", containers=(container,)))
    assert note.message == "Error pod mnist-worker-0 container tensorflow exitCode: 9 terminated message: Killed"
    assert note.reason == "Error"


def test_a_pod_that_finds_no_node_is_told_of():
    (note,) = notes_of(a_pod("worker-0", "Pending", containers=(), unschedulable="0/3 nodes are available"))
    assert note.reason == "Unschedulable"
    assert note.message == "Error pod mnist-worker-0 condition message: 0/3 nodes are available"


def test_no_more_than_a_few_pods_are_told_of_in_one_look():
    job = a_job(chief=1, worker=40)
    waiting = (
        Container("a", waiting=True, reason="X", message="m"),
        Container("b", waiting=True, reason="X", message="m"),
    )
    pods = [a_pod(f"worker-{index}", "Pending", containers=waiting) for index in range(40)]
    assert len(notes_of(*pods, job=job)) == says.ENOUGH


def test_who_took_a_pod_away_is_told():
    notes = notes_of(a_pod("worker-0", "Failed", reason="Evicted", message="low on memory", node="n1", containers=()))
    expected = "Pod mnist-worker-0 on node n1 could not go on (Evicted): low on memory"
    assert ("PodDisruption", expected) in [(note.reason, note.message) for note in notes]
