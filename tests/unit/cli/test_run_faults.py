"""`trainshed run` never hangs in silence: whatever goes wrong inside ends it with one sentence."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from support import reported
from support.local_runs import SOON, Machine, a_job, permitted, until
from support.user_client import eventually

#: Where an error is raised that nothing expects: in tasks, in callbacks of the event loop and in what they call.
PLACES = (
    "node.kubelet:Kubelet._on_change",
    "node.pod_worker:PodWorker._restarts",
    "node.volumes:Volumes.make",
    "node.environment:EnvironmentResolver.environment",
    "runtimes.processes:ProcessRuntime.create_sandbox",
    "runtimes.processes:ProcessRuntime.start",
    "runtimes.processes:ProcessSandbox.remove",
    "runtimes.launcher_client:LaunchedContainer.wait",
    "runtimes.launcher_client:LauncherClient._on_message",
    "runtimes.launcher_client:LauncherClient._ping",
    "failure_injection:FailureInjector.write",
    "output:Output.write",
    "output:Output.end",
    "run:LocalRun._kill",
    "run:LocalRun._on_change",
    "run:summary.described",
    "cluster:Server.handle",
    "cluster:LocalCluster._on_commit",
    "local_controller:ApiClient.create_pod",
    "local_controller:ApiClient.create_event",
    "local_controller:Controller._add",
)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize("place", PLACES)
def test_an_unexpected_error_ends_the_run_with_one_sentence(machine, place):
    job = a_job("echo hello; sleep 1; exit 1", restart="OnFailure", workers=1)
    job["spec"]["runPolicy"] = {"backoffLimit": 1}
    done = machine.run_failing(place, job, arguments=("--fail", "worker-0@0.1s"))
    assert done.returncode == 1, done.stdout + done.stderr
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith("Error: ")
    assert sentence.endswith("internal error in Trainshed, please report it: RuntimeError: injected")
    assert not machine.remains()


def test_the_place_of_an_unexpected_error_is_shown_on_demand(machine):
    done = machine.run_failing("node.volumes:Volumes.make", a_job("true"), arguments=("--verbose",))
    assert done.returncode == 1
    assert "in _prepare" in done.stderr


@pytest.mark.parametrize("script", ["yes", "head -c 300000 /dev/zero | tee $STATE; sleep 99"])
def test_a_full_disk_ends_the_run_with_one_sentence(machine, script):
    permitted("namespaces")
    machine.state.mkdir()
    job = a_job(f"STATE={machine.state}/more; {script}")
    words = machine.command(job)
    prepare = f'mount -t tmpfs -o size=256k none {machine.state} && exec "$@"'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", prepare, "sh", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SOON, check=False)
    assert done.returncode == 1, done.stdout[-1000:] + done.stderr
    (sentence,) = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert "No space left on device" in sentence
    assert "Traceback" not in done.stderr


@pytest.mark.reported("17-run-missing-key")
def test_a_missing_key_is_refused_before_the_start(machine):
    done = machine.run(*reported.documents("17-run-missing-key"))
    assert done.returncode == 1
    assert done.stderr == (
        "Error: pod key-worker-0: spec.containers[0].env[0].valueFrom.configMapKeyRef:"
        " Not found: ConfigMap settings has no key RATE; add it to the file\n"
    )


@pytest.mark.reported("15-run-binary-envfrom")
def test_variables_are_the_texts_of_a_config_map_and_not_its_binary_data(machine):
    done = machine.run(*reported.documents("15-run-binary-envfrom"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "worker-0 | 3" in done.stdout.splitlines()


def launcher(run: subprocess.Popen[str]) -> int:
    """Return the pid of the launcher of a run."""
    (child,) = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
    return int(child)


def test_a_launcher_that_is_killed_ends_the_run(machine, monkeypatch):
    monkeypatch.setenv("STATE_OF_TEST", str(machine.state))
    script = f"export STATE_OF_TEST={machine.state}; (setsid sleep 99 &); echo begun; sleep 99"
    run = machine.start(a_job(script))
    until(run, "begun", 2)
    os.kill(launcher(run), signal.SIGKILL)
    text, _ = run.communicate(timeout=SOON)
    assert run.returncode == 1
    assert "Error: the program that starts containers has ended unexpectedly, and with it all replicas" in text
    assert not machine.remains()
    assert not machine.marked()


def test_ctrl_c_ends_a_run_whose_launcher_is_stopped(machine, monkeypatch):
    monkeypatch.setenv("STATE_OF_TEST", str(machine.state))
    run = machine.start(a_job(f"export STATE_OF_TEST={machine.state}; echo begun; exec sleep 99"))
    until(run, "begun", 2)
    os.kill(launcher(run), signal.SIGSTOP)
    for _ in range(3):
        run.send_signal(signal.SIGINT)
        time.sleep(0.3)
    text, _ = run.communicate(timeout=SOON)
    assert run.returncode == 130
    assert "not ended, although killed: job-master-0, job-worker-0; ending the runtime" in text
    assert not machine.remains()
    assert not machine.marked()


@pytest.mark.parametrize("place", ["output:Output.write", "node.volumes:Volumes.make", "run:summary.described"])
def test_the_third_ctrl_c_ends_a_run_that_computes(machine, monkeypatch, place):
    monkeypatch.setenv("STATE_OF_TEST", str(machine.state))
    job = a_job(f"export STATE_OF_TEST={machine.state}; echo begun; exec sleep 99")
    computing = machine.folder / "computing"
    endless = f"import pathlib; pathlib.Path({str(computing)!r}).touch()\n    while True: pass"
    run = subprocess.Popen(machine.changed(endless, place, job), stdout=subprocess.PIPE, text=True)
    if place.startswith("run:"):
        until(run, "begun", 2)
        run.send_signal(signal.SIGINT)
    eventually(computing.exists, SOON)
    for _ in range(3):
        run.send_signal(signal.SIGINT)
        time.sleep(0.3)
    assert run.wait(timeout=20) == 130
    run.communicate()
    eventually(lambda: not machine.marked(), SOON)


#: Bytes of a pipe that is nearly full.
FULL = 1 << 15


def waiting(run: subprocess.Popen[str]) -> int:
    """Return how many bytes of output wait to be read."""
    return struct.unpack("i", fcntl.ioctl(run.stdout, termios.FIONREAD, bytes(4)))[0]


def test_ctrl_c_ends_a_run_whose_output_nobody_reads(machine):
    run = machine.start(a_job("yes"))
    while waiting(run) < FULL:
        time.sleep(0.1)
    time.sleep(0.5)
    run.send_signal(signal.SIGINT)
    assert run.wait(timeout=SOON) == 130
    run.communicate()
    assert not machine.remains()


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&- <&-"])
def test_a_run_needs_no_open_streams(machine, closed):
    words = [*machine.command(a_job("echo ran")), "--output", "json"]
    done = subprocess.run(["sh", "-c", f'"$@" {closed}', "sh", *words], timeout=SOON, check=False)
    assert done.returncode == 0


def test_characters_that_the_output_cannot_have_are_question_marks(machine, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    done = machine.run(a_job("printf 'h\\303\\251\\n'"))
    assert (done.returncode, "worker-0 | h?" in done.stdout) == (0, True), done.stdout + done.stderr


def test_a_current_folder_that_was_removed_is_refused(machine, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    words = machine.command(a_job("true"))
    done = subprocess.run(
        ["sh", "-c", 'cd "$0" && rmdir "$0" && exec "$@"', gone, *words],
        capture_output=True,
        text=True,
        timeout=SOON,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "Error: the current folder was removed; change to another one\n")


#: What `kubectl get -o yaml` writes of a job that has ended, or that is being deleted.
EXPORTED = {"uid": "x", "resourceVersion": "7", "generation": 3, "deletionTimestamp": "2026-01-01T00:00:00Z"} | {
    "ownerReferences": [{"kind": "Workflow", "name": "w", "controller": True}],
    "finalizers": ["example.com/kept"],
}
ENDED = {"conditions": [{"type": "Succeeded", "status": "True"}], "completionTime": "2026-01-01T00:00:00Z"}


def test_a_job_runs_whatever_its_file_says_of_an_earlier_one(machine):
    job = a_job("exit 3", restart="Never")
    job |= {"metadata": {**job["metadata"], **EXPORTED}, "status": ENDED}
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "labels": {"a": None}, **EXPORTED}}
    done = machine.run(settings, job)
    assert "Failed" in done.stdout, done.stdout + done.stderr


def test_a_job_that_is_deleted_in_its_file_is_checked_as_others(machine):
    job = a_job("true", volumes=[{"name": "v", "hostPath": {"path": "../x"}}])
    done = machine.run(job | {"metadata": {**job["metadata"], **EXPORTED}})
    assert (done.returncode, "hostPath.path: Invalid value" in done.stderr) == (1, True)


def test_a_container_does_not_outlive_the_process_that_waits_for_it(machine):
    permitted("namespaces")
    run = machine.start(a_job("echo begun; sleep 99", restart="OnFailure"), runtime="namespaces")
    until(run, "begun", 2)
    (first,) = Path(f"/proc/{launcher(run)}/task/{launcher(run)}/children").read_text().split()
    waiting = [int(pid) for pid in Path(f"/proc/{first}/task/{first}/children").read_text().split()]
    inits = [Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0] for pid in waiting]
    for pid in waiting:
        os.kill(pid, signal.SIGKILL)
    until(run, "begun", 2)
    # The kernel ends them one after another.
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in inits), SOON)
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=SOON)


def test_a_pipe_in_a_folder_of_manifests_is_refused(machine, tmp_path):
    os.mkfifo(tmp_path / "job.yaml")
    words = [sys.executable, "-m", "trainshed", "run", "-f", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=SOON, check=False)
    assert (done.returncode, done.stderr) == (1, f"Error: {tmp_path}/job.yaml is neither a file nor a folder\n")


def test_ctrl_c_ends_a_run_that_waits_for_its_file(tmp_path):
    os.mkfifo(tmp_path / "job")
    words = [sys.executable, "-m", "trainshed", "run", "-f", str(tmp_path / "job")]
    run = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    with (tmp_path / "job").open("w"):  # which waits until the run reads
        run.send_signal(signal.SIGINT)
        assert run.communicate(timeout=SOON) == ("", None)
    assert run.returncode == 130


def test_a_closed_standard_input_has_no_job():
    words = ["sh", "-c", '"$@" <&-', "sh", sys.executable, "-m", "trainshed", "run", "-f", "-"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=SOON, check=False)
    assert (done.returncode, done.stderr.partition(";")[0]) == (1, "Error: standard input contains no job")
