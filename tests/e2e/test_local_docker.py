"""`trainshed run --runtime docker` with a docker engine and real containers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.local_runs import SOON, Machine, a_job, kill_at_many_points, until
from testbed import docker, images

IMAGE = "trainshed-local-run:test"
#: The image of this version, which reads stacks.
OPERATOR = "ghcr.io/trainshed/trainshed:dev"
#: A server in the master and its client in a worker, which know each other by name and port.
SERVE = "import os,socket;s=socket.create_server(('',int(os.environ['MASTER_PORT'])));s.accept()[0].send(b'hi')"
CALL = """import os, socket, time
for _ in range(200):
    try: s = socket.create_connection((os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT']))); break
    except OSError: time.sleep(0.1)
print('got', s.recv(9).decode(), socket.gethostname())
"""

#: Two ranks of which the first one does not join the other one.
HANGS = """import os, time
def load(): time.sleep(300)
def all_reduce(): time.sleep(300)
print("begun", flush=True)
load() if os.environ["RANK"] == "0" else all_reduce()
"""
#: A worker that is lost at its first attempt, and a master that fails when the worker has gone.
LOST = """import os, pathlib, socket, sys, time
for _ in range(200):
    try: s = socket.create_connection((os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT']))); break
    except OSError: time.sleep(0.1)
again = pathlib.Path('/claim/again')
if not again.exists():
    again.touch()
    sys.exit(137)
s.send(b'done')
"""
LEFT_ALONE = (
    "import os,socket,sys;s=socket.create_server(('',int(os.environ['MASTER_PORT'])));"
    "sys.exit(0 if s.accept()[0].recv(9) else 1)"
)


@pytest.fixture(autouse=True, scope="session")
def operator() -> None:
    """No operator is needed, in place of the fixture for the other tests."""


@pytest.fixture(scope="module")
def engine() -> Iterator[None]:
    """An engine with an image that has an entry point, arguments and a working directory of its own."""
    docker.start()
    changes = ('ENTRYPOINT ["echo", "entry"]', 'CMD ["default"]', "WORKDIR /srv")
    docker.docker("import", *(word for change in changes for word in ("--change", change)), images.base(), IMAGE)
    yield
    docker.docker("rmi", IMAGE)


@pytest.fixture
def machine(tmp_path: Path, engine: None, monkeypatch) -> Machine:
    for name, value in docker.environment().items():
        monkeypatch.setenv(name, value)
    return Machine(tmp_path)


def a_container_job(script: str = "", **container) -> dict:
    """Return a job whose replicas run a script, or without one what the image runs."""
    job = a_job(script)
    first = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]
    if not script:
        del first["command"]
    first |= {"image": IMAGE, "imagePullPolicy": "Never", **container}
    return job


def left(machine: Machine) -> str:
    """Return the containers and networks of all runs of this machine."""
    if not (machine.runs / "trainshed.mark").exists():  # no run has come so far that it created one
        return ""
    label = f"label={machine.known()}"
    commands = (("ps", "--all", "--quiet"), ("network", "ls", "--quiet"))
    return "".join(
        subprocess.run(["docker", *words, "--filter", label], check=True, capture_output=True, text=True).stdout
        for words in commands
    )


def until_nothing_is_left(machine: Machine) -> None:
    end = time.monotonic() + SOON
    while left(machine):
        assert time.monotonic() < end, left(machine)
        time.sleep(0.2)


def test_an_image_runs_its_own_entry_point(machine):
    done = machine.run(a_container_job(args=["own"], volumeMounts=[]), runtime="docker")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {"master-0 | entry own", "worker-0 | entry own"} <= set(done.stdout.splitlines())
    done = machine.run(a_container_job(), runtime="docker")
    assert "worker-0 | entry default" in done.stdout.splitlines()
    assert not left(machine)


def test_volumes_variables_and_the_working_directory_are_there(machine):
    words = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hello"}, "data": {"word": "bonjour\n"}}
    script = (
        "pwd; cat /etc/greeting/word; hostname; date > /claim/seen; touch /etc/greeting/new || echo read-only; id -u"
    )
    mounts = [
        {"name": "hello", "mountPath": "/etc/greeting", "readOnly": True},
        {"name": "claim", "mountPath": "/claim"},
    ]
    job = a_container_job(script, volumeMounts=mounts)
    job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["volumes"] = [
        {"name": "hello", "configMap": {"name": "hello"}},
        {"name": "claim", "persistentVolumeClaim": {"claimName": "data"}},
    ]
    done = machine.run(words, job, runtime="docker")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    for expected in ("/srv", "bonjour", "job-worker-0", "read-only", "0"):
        assert f"worker-0 | {expected}" in lines
    assert (machine.runs / "claims/default/data/seen").exists()


def test_replicas_reach_each_other_by_name_and_port(machine):
    job = a_container_job("", command=["python3", "-c", SERVE])
    job["spec"]["pytorchReplicaSpecs"]["Worker"] = json.loads(json.dumps(job["spec"]["pytorchReplicaSpecs"]["Worker"]))
    for role, script in (("Master", SERVE), ("Worker", CALL)):
        group = job["spec"]["pytorchReplicaSpecs"][role]
        group["template"]["spec"]["containers"][0]["command"] = ["python3", "-c", script]
    done = machine.run(job, runtime="docker", arguments=("--output", "json"))
    assert done.returncode == 0, done.stdout + done.stderr
    log = next(machine.runs.glob("2*/logs/job-worker-0.log")).read_text()
    assert log == "got hi job-worker-0\n"


def test_containers_of_a_pod_share_its_network(machine):
    job = a_container_job("for i in 1 2 3 4 5 6 7 8 9; do sleep 0.5; cat /dev/shm/word && break; done")
    template = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]
    beside = {"name": "beside", "image": IMAGE, "imagePullPolicy": "Never"}
    template["containers"].append({**beside, "command": ["sh", "-c", "hostname > /dev/shm/word; cat /etc/hosts"]})
    done = machine.run(job, runtime="docker")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "worker-0        | job-worker-0" in done.stdout.splitlines(), done.stdout


def test_failures_and_signals_are_those_of_the_cluster(machine):
    done = machine.run(a_container_job("echo oh no; exit 3"), runtime="docker", arguments=("--output", "json"))
    (job,) = json.loads(done.stdout)["jobs"]
    assert (done.returncode, job["status"]["failure"]["exitCode"]) == (1, 3)
    arguments = ("--fail", "worker-0@begun", "--output", "json")
    done = machine.run(a_container_job("echo begun; sleep 2; echo over"), runtime="docker", arguments=arguments)
    (job,) = json.loads(done.stdout)["jobs"]
    assert (done.returncode, job["status"]["restarts"]) == (0, 1), done.stderr
    assert job["status"]["failure"]["exitCode"] == 137
    done = machine.run(a_container_job("", command=["absent"]), runtime="docker")
    assert 'exec: "absent": executable file not found' in done.stdout
    assert not left(machine)


def test_the_first_failure_is_that_of_the_container_that_ended_first(machine):
    mounts = [{"name": "claim", "mountPath": "/claim"}]
    job = a_container_job("", command=[], volumeMounts=mounts)
    group = job["spec"]["pytorchReplicaSpecs"]["Worker"]
    group["template"]["spec"]["volumes"] = [{"name": "claim", "persistentVolumeClaim": {"claimName": "data"}}]
    job["spec"]["pytorchReplicaSpecs"]["Worker"] = json.loads(json.dumps(group))
    for role, script in (("Master", LEFT_ALONE), ("Worker", LOST)):
        container = job["spec"]["pytorchReplicaSpecs"][role]["template"]["spec"]["containers"][0]
        container["command"] = ["python3", "-c", script]
    done = machine.run(job, runtime="docker", arguments=("--output", "json"))
    (found,) = json.loads(done.stdout)["jobs"]
    assert (done.returncode, found["status"]["restarts"]) == (0, 1), done.stderr
    assert found["status"]["failure"]["exitCode"] == 137


def test_a_container_beyond_its_memory_is_killed(machine):
    greedy = ["python3", "-c", "import time; held = b'x' * (200 << 20); time.sleep(5)"]
    job = a_container_job("", command=greedy, resources={"limits": {"memory": "100Mi"}})
    for group in job["spec"]["pytorchReplicaSpecs"].values():
        group["restartPolicy"] = "Never"
    done = machine.run(job, runtime="docker", arguments=("--output", "json"))
    (found,) = json.loads(done.stdout)["jobs"]
    assert found["status"]["failure"]["reason"] == "OOMKilled", done.stderr


def test_the_rank_that_does_not_join_the_others_is_named(machine, monkeypatch):
    monkeypatch.setenv("TRAINSHED_IMAGE", OPERATOR)
    process = machine.start(a_container_job(f"exec python3 -c '{HANGS}'"), runtime="docker")
    until(process, "begun", times=2)
    process.send_signal(signal.SIGQUIT)
    until(process, "master-0 is in load, worker-0 is in all_reduce. The other may be waiting for master-0.")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=SOON)
    until_nothing_is_left(machine)


def test_ctrl_c_ends_the_containers(machine):
    script = "trap 'echo saved; exit 0' TERM; echo begun; sleep 99 & wait"
    run = machine.start(a_container_job(script), runtime="docker")
    until(run, "begun", 2)
    run.send_signal(signal.SIGINT)
    text, _ = run.communicate(timeout=SOON)
    assert run.returncode == 130
    assert text.count("| saved") == 2
    assert not left(machine)


def test_containers_are_removed_when_the_run_is_killed(machine):
    run = machine.start(a_container_job("echo begun; sleep 99"), runtime="docker")
    until(run, "begun", 2)
    run.kill()
    run.communicate(timeout=SOON)
    until_nothing_is_left(machine)


def test_the_next_run_removes_what_a_killed_run_and_its_reaper_have_left(machine):
    run = machine.start(a_container_job("echo begun; sleep 99"), runtime="docker")
    until(run, "begun", 2)
    for child in Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split():
        if b"read -r ended" in Path(f"/proc/{child}/cmdline").read_bytes():
            os.kill(int(child), signal.SIGKILL)
    run.kill()
    run.communicate(timeout=SOON)
    time.sleep(1)
    assert left(machine)
    assert machine.run(a_container_job("true"), runtime="docker").returncode == 0
    assert not left(machine)


@pytest.mark.long
def test_nothing_is_left_of_runs_that_are_killed_at_any_point(machine, monkeypatch):
    monkeypatch.setenv("STATE_OF_TEST", str(machine.state))
    script = f"export STATE_OF_TEST={machine.state}; (setsid sleep 99 &); echo begun; sleep 0.3"
    kill_at_many_points(machine, a_container_job(script), "docker", points=8)
    assert machine.run(a_container_job("true"), runtime="docker").returncode == 0
    assert not left(machine)
    assert not machine.remains()


def test_two_runs_have_networks_of_their_own(machine):
    job = a_container_job("getent hosts job-master-0; sleep 3")
    runs = [machine.start(job, runtime="docker"), machine.start(job, runtime="docker")]
    texts = [run.communicate(timeout=SOON)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], texts
    addresses = [next(line for line in text.splitlines() if line.startswith("worker-0 | 198.")) for text in texts]
    assert addresses[0] != addresses[1]
