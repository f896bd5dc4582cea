"""When an MPIJob's launcher starts, and when its success is accepted."""

from __future__ import annotations

from support.builders import a_job, a_pod, at, made, message, plan_for, states
from trainshed.api.actions import CreateDependent


def a_run(**fields):
    """A job `m` with two workers."""
    return a_job("MPIJob", name="m", launcher=1, worker=2, **fields)


def elastic():
    """The same, its launcher asking who is there."""
    command = ["horovodrun", "--host-discovery-script", "/etc/mpi/discover_hosts.sh"]
    return a_run(template={"spec": {"containers": [{"name": "main", "image": "x", "command": command}]}})


def test_the_launcher_is_created_together_with_its_workers():
    first = plan_for(a_run(), services=())
    assert made(first) == ["m-launcher", "m-worker-0", "m-worker-1"]
    assert [action.name for action in first.actions if isinstance(action, CreateDependent)] == [
        "m-launcher",
        "m-config",
        "m-launcher",
        "m-launcher",
    ]


def worker(index, phase="Running", **fields):
    """A worker's pod."""
    return a_pod(f"worker-{index}", phase, job="m", container="main", **fields)


def launcher(phase="Succeeded", **fields):
    """The launcher's pod; it ended 60 s after the beginning."""
    fields = {"code": 0, "ended": 60.0, **fields} if phase == "Succeeded" else fields
    return a_pod("launcher", phase, job="m", container="main", started=1.0, **fields)


def test_a_launcher_that_succeeds_while_its_workers_live_is_success():
    decision = plan_for(a_run(), launcher(), worker(0), worker(1), now=at(61))
    assert states(decision.status) == ["Created", "Succeeded"]
    assert message(decision.status, "Succeeded") == "MPIJob m is successfully completed."
    assert decision.status.replica_statuses["Launcher"].succeeded == 1
    assert (
        decision.status.replica_statuses["Worker"].active == decision.status.replica_statuses["Worker"].succeeded == 0
    )


def test_a_worker_that_ends_after_the_launcher_does_no_harm():
    decision = plan_for(a_run(), launcher(), worker(0, "Succeeded", code=0, ended=62.0), worker(1), now=at(63))
    assert states(decision.status) == ["Created", "Succeeded"]
    unknown = plan_for(a_run(), launcher(code=None), worker(0, "Succeeded"), worker(1), now=at(63))
    assert states(unknown.status) == ["Created", "Succeeded"]


def test_a_success_without_all_workers_is_none():
    decision = plan_for(a_run(), launcher(), worker(0, "Succeeded", code=0, ended=30.0), worker(1), now=at(61))
    assert states(decision.status) == ["Created", "Failed"]
    text = message(decision.status, "Failed")
    assert text.startswith("MPIJob m is failed because 1 Worker replica(s) failed. worker-0 exited too early with code")
    assert "before m-launcher succeeded" in decision.status.failure.termination_message


def test_a_worker_that_was_taken_away_brings_a_new_try_in_spite_of_the_launchers_success():
    for lost in (
        worker(0, deleting=True),
        worker(0, "Succeeded", code=0, ended=30.0, disruption="EvictionByEvictionAPI"),
        worker(0, "Failed", code=0, ended=30.0, reason="Evicted"),
    ):
        decision = plan_for(a_run(), launcher(), lost, worker(1), now=at(61))
        assert states(decision.status) == ["Created", "Restarting"], lost
        assert decision.status.attempts == {"Launcher": 1, "Worker": 1}
        assert decision.status.retries.used == 0


def test_a_worker_that_was_started_again_meanwhile_is_lost_too():
    policy = {"restart": "OnFailure"}
    again = worker(0, restarted=1, started=30.0)
    decision = plan_for(a_run(**policy), launcher(), again, worker(1), now=at(61))
    assert states(decision.status) == ["Created", "Restarting"]
    before = worker(0, restarted=1, started=0.5)
    assert states(plan_for(a_run(**policy), launcher(), before, worker(1), now=at(61)).status) == [
        "Created",
        "Succeeded",
    ]


def test_with_elastic_horovod_the_launchers_word_is_enough():
    gone = worker(0, deleting=True)
    decision = plan_for(elastic(), launcher(), gone, worker(1), now=at(61))
    assert states(decision.status) == ["Created", "Succeeded"]


def test_a_launcher_that_fails_may_be_tried_again_by_its_exit_code():
    job = a_run(restart="ExitCode")
    retry = plan_for(job, launcher("Failed", code=137, ended=60.0), worker(0), worker(1), now=at(61))
    assert states(retry.status) == ["Created", "Restarting"]
    final = plan_for(job, launcher("Failed", code=1, ended=60.0), worker(0), worker(1), now=at(63))
    assert states(final.status) == ["Created", "Failed"]
