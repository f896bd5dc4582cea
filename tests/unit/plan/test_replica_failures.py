"""The failure of a replica in one sentence."""

from __future__ import annotations

import pytest

from support.builders import a_job, a_pod, at, plan_for, pods_of, running, seen
from trainshed.api.job import Replica
from trainshed.api.objects import Container, TerminatedState
from trainshed.api.status import Failure
from trainshed.plan.facts import Facts
from trainshed.plan.messages import phrases, replica_failures

WORKER = Replica("Worker", 1)
LIMITED = {"spec": {"containers": [{"name": "tensorflow", "resources": {"limits": {"memory": "2Gi"}}}]}}
PROBED = {"spec": {"containers": [{"name": "tensorflow", "livenessProbe": {"periodSeconds": 5}}]}}
BOTH = {"spec": {"containers": [PROBED["spec"]["containers"][0] | LIMITED["spec"]["containers"][0]]}}
OF_POD = {"spec": {"containers": [{"name": "tensorflow"}], "resources": {"limits": {"memory": "4Gi"}}}}
NO_LIMIT = {"spec": {"containers": [{"name": "tensorflow", "resources": {"limits": {"memory": "0"}}}]}}
KILLED, PERHAPS_MEMORY = "was killed by SIGKILL (137) 14s after start", "it used more memory than its limit of 2Gi"


def worker_failure(
    reason="Error", code=1, *, pod=None, kind="Application", template=None, node="node-a", words=""
) -> Failure:
    """Return the complete failure of worker 1."""
    job = a_job(chief=1, worker=2, **({"template": template} if template else {}))
    pods = [pod or a_pod("worker-1", "Failed", code=code, ended=14.0, node=node)]
    failure = Failure("mnist-worker-1", kind, reason, code, node, words, at(14))
    return replica_failures.with_message(Facts(seen(job, *pods)), WORKER, failure)


@pytest.mark.parametrize(
    ("reason", "code", "template", "expected"),
    [
        ("Error", 3, None, "exited with code 3 after 14s"),
        ("Error", 127, None, "exited with code 127 (command not found) after 14s"),
        ("Strange", 7, None, "exited with code 7 (Strange) after 14s"),
        ("Error", 137, None, KILLED),
        ("Error", 137, PROBED, f"{KILLED}; perhaps its livenessProbe failed"),
        ("Error", 137, LIMITED, f"{KILLED}; perhaps {PERHAPS_MEMORY}"),
        ("Error", 137, BOTH, f"{KILLED}; perhaps its livenessProbe failed, or {PERHAPS_MEMORY}"),
        ("Error", 137, OF_POD, f"{KILLED}; perhaps it used more memory than its limit of 4Gi of the whole pod"),
        ("Error", 137, NO_LIMIT, KILLED),
        ("Error", 143, LIMITED, "was killed by SIGTERM (143) 14s after start"),
        ("Error", 1, LIMITED, "exited with code 1 after 14s"),
        ("OOMKilled", 137, PROBED, "was OOMKilled (no memory limit set) 14s after start"),
        ("Error", 1, PROBED, "exited with code 1 after 14s"),
        ("Error", 139, None, "crashed with a segmentation fault (SIGSEGV, 139) 14s after start"),
        ("Error", 255, None, "exited with code 255 after 14s"),
        ("OOMKilled", 137, LIMITED, "was OOMKilled (limit 2Gi) 14s after start"),
        ("OOMKilled", 137, None, "was OOMKilled (no memory limit set) 14s after start"),
        ("OOMKilled", 137, NO_LIMIT, "was OOMKilled (no memory limit set) 14s after start"),
        ("OOMKilled", 137, OF_POD, "was OOMKilled (limit 4Gi of the whole pod) 14s after start"),
        ("ExitedEarly", 0, None, "exited too early with code 0 after 14s"),
        ("ExitedEarly", None, None, "exited too early after 14s"),
        ("DeadlineExceeded", None, None, "failed (DeadlineExceeded) 14s after start"),
    ],
)
def test_what_a_program_did_is_said_in_words(reason, code, template, expected):
    pod = a_pod("worker-1", "Failed", code=code, ended=14.0)
    assert worker_failure(reason, code, template=template, pod=pod).message == f"worker-1 on node-a {expected}"


def test_a_launcher_that_ends_as_if_it_was_killed_may_have_lost_a_rank_elsewhere():
    own = {"name": "mpi", "resources": {"limits": {"memory": "1Gi"}}}
    job = a_job("MPIJob", launcher=1, worker=2, template={"spec": {"containers": [own]}})
    pod, launcher = a_pod("launcher", "Failed", code=137, ended=14.0, container="mpi"), Replica("Launcher", 0)
    failure = Failure("mnist-launcher", "Application", "Error", 137, "node-a", "", at(14))
    assert replica_failures.with_message(Facts(seen(job, pod)), launcher, failure).message == (
        "launcher on node-a was killed by SIGKILL (137) 14s after start; perhaps only one of its ranks was, whose code "
        "mpirun returns, or it used more memory than its limit of 1Gi"
    )


@pytest.mark.parametrize("template", [PROBED, BOTH])
def test_a_probe_that_killed_a_container_is_named_in_place_of_the_signal(template):
    found = replica_failures.by_probe(
        worker_failure("Error", 137, template=template), "Liveness probe failed: no such file"
    )
    assert (
        found
        == "worker-1 on node-a was killed by the kubelet, as its liveness probe failed (SIGKILL, 137), 14s after start"
    )


@pytest.mark.parametrize(
    ("kind", "reason", "expected"),
    [
        ("Disruption", "Evicted", "was evicted by the kubelet"),
        ("Disruption", "SomethingNew", "was disrupted (SomethingNew)"),
        ("Infrastructure", "OutOfcpu", "failed with an infrastructure error (OutOfcpu)"),
    ],
)
def test_what_was_done_to_it_is_said_in_words(kind, reason, expected):
    pod = a_pod("worker-1", "Failed", containers=())
    assert worker_failure(reason, None, kind=kind, pod=pod).message == f"worker-1 on node-a {expected}"
    ran = a_pod("worker-1", deleting=True)
    assert worker_failure(reason, None, kind=kind, pod=ran).message == f"worker-1 on node-a {expected} 14s after start"


def test_what_never_ran_could_not_be_started():
    pod = a_pod("worker-1", "Failed", code=128, ended=14.0, started=-2e9)
    assert worker_failure("StartError", None, pod=pod, words="no such file").message == (
        "worker-1 on node-a could not be started (StartError)"
    )


def test_another_container_is_named_with_its_own_limit():
    fetch = {"name": "fetch", "resources": {"limits": {"memory": 1024}}}
    template = {"spec": {"containers": [{"name": "tensorflow"}], "initContainers": [fetch, "nonsense"]}}
    ended = Container("fetch", init=True, exit_code=137, reason="OOMKilled", started=at(10), finished=at(14))
    waiting = Container("tensorflow", waiting=True, reason="PodInitializing")
    failure = worker_failure(
        "OOMKilled", 137, template=template, pod=a_pod("worker-1", "Failed", containers=(ended, waiting))
    )
    assert failure.message == "container fetch of worker-1 on node-a was OOMKilled (limit 1024) 4s after start"
    assert (failure.container, failure.ran, failure.replica) == ("fetch", 4, "worker-1")


def test_a_failure_without_pod_and_without_node_has_a_message_as_well():
    job = a_job(chief=1, worker=2, template={"spec": {}})
    lost = Failure("mnist-worker-1", "Disruption", "PodDisappeared", None, "", "", at(14))
    assert replica_failures.with_message(Facts(seen(job)), WORKER, lost).message == "worker-1 disappeared"
    starved = Failure("mnist-worker-1", "Application", "OOMKilled", 137, "", "", at(14))
    assert "no memory limit" in replica_failures.with_message(Facts(seen(job)), WORKER, starved).message


@pytest.mark.parametrize("started", [-2e9, -6.3e10])
def test_a_start_that_the_runtime_does_not_know_is_left_out(started):
    pod = a_pod("worker-1", "Failed", code=137, ended=14.0, started=started)
    assert worker_failure("ContainerStatusUnknown", 137, kind="Infrastructure", pod=pod).ran is None


def test_of_restarted_containers_a_failure_names_that_of_the_framework_and_no_sidecar():
    job = a_job(worker=2, restart="OnFailure")
    mesh = Container("mesh", init=True, sidecar=True, restarts=9, exit_code=1)
    own = Container("tensorflow", restarts=1, exit_code=137, reason="OOMKilled", started=at(3), finished=at(5))
    other = Container("log", restarts=2, before=TerminatedState(4, at(1), at(2)))
    pods = [a_pod("worker-0"), a_pod("worker-1", containers=(mesh, own))]
    assert replica_failures.last_container_failure(Facts(seen(job, *pods))).message.startswith("worker-1 was OOMKilled")
    both = a_pod("worker-1", containers=(mesh, other, own))
    assert replica_failures.last_container_failure(Facts(seen(job, both))).message.startswith("worker-1 was OOMKilled")
    for silent in ((), (Container("tensorflow", restarts=1),), (mesh,)):
        assert replica_failures.last_container_failure(Facts(seen(job, a_pod("worker-1", containers=silent)))) is None
    assert replica_failures.last_container_failure(Facts(seen(job))) is None


def test_the_last_words_are_cleared_of_a_terminals_colours():
    words = "\x1b[31mTraceback (most recent call last):\x1b[0m\r\n  File\n\x1b]0;title\x07ValueError: no\n"
    failure = worker_failure(words=words)
    assert failure.termination_message == "Traceback (most recent call last):\n  File\nValueError: no"
    assert replica_failures.sentence(failure) == "worker-1 on node-a exited with code 1 after 14s: ValueError: no"


def test_a_sentence_has_one_line_of_the_last_words_that_is_not_too_long():
    assert replica_failures.sentence(worker_failure()) == worker_failure().message
    assert len(replica_failures.sentence(worker_failure(words="x" * 5000)).encode()) < phrases.LINE + 100


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (119, "119s"), (185, "3m5s"), (600, "10m"), (7199, "119m59s"), (94_200, "26h10m"), (7200, "2h")],
)
def test_a_length_of_time_has_two_units_at_the_most(seconds, text):
    assert phrases.duration(seconds) == text


def test_the_status_of_a_verdict_tells_who_it_was():
    job = a_job("PyTorchJob", master=1, worker=2)
    pod = a_pod("worker-1", "Failed", code=3, ended=10.0, container="pytorch", words="Traceback ...\nValueError: no")
    failure = plan_for(job, *pods_of(job, pod), status=running(job), now=at(13)).status.failure
    assert failure == Failure(
        "mnist-worker-1",
        "Application",
        "Error",
        3,
        "",
        "Traceback ...\nValueError: no",
        at(10),
        replica="worker-1",
        ran=10,
        message="worker-1 exited with code 3 after 10s: ValueError: no",
    )
