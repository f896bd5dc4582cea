"""`trainshed run` never hangs in silence: whatever goes wrong inside ends it with one sentence."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support import reported
from support.local_runs import SOON, Machine, a_job, permitted, until

#: Where an error is raised that nothing expects: in tasks, in callbacks of the event loop and in what they call.
PLACES = (
    "kubelet.Kubelet._on_change",
    "kubelet.PodWorker._restarts",
    "volumes.Volumes.make",
    "environment.EnvironmentResolver.environment",
    "processes.ProcessRuntime.create_sandbox",
    "processes.ProcessRuntime.start",
    "processes.ProcessSandbox.remove",
    "launcher_client.LaunchedContainer.wait",
    "launcher_client.LauncherClient._on_message",
    "launcher_client.LauncherClient._look",
    "failures.FailureInjector.write",
    "output.Output.write",
    "output.Output.end",
    "run.LocalRun._kill",
    "run.LocalRun._on_change",
    "run.summary.described",
    "cluster.LocalCluster.create_pod",
    "cluster.LocalCluster.create_event",
    "controller.LocalController._on_change",
    "controller.Reconciler.reconcile",
)
SCRIPT = """
import sys
from importlib import import_module
def fail(*args, **kwargs):
    raise RuntimeError("injected")
module, *path, name = {place!r}.split(".")
holder = import_module(f"trainshed.local.{{module}}")
for part in path:
    holder = getattr(holder, part)
setattr(holder, name, fail)
import trainshed.__main__ as entry
sys.argv = ["trainshed", *{arguments!r}]
entry.main()
"""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize("place", PLACES)
def test_an_unexpected_error_ends_the_run_with_one_sentence(machine, place):
    job = a_job("echo hello; sleep 1; exit 1", restart="OnFailure", workers=1)
    job["spec"]["runPolicy"] = {"backoffLimit": 1}
    command = machine.command(job, arguments=("--fail", "worker-0@0.1s"))
    script = SCRIPT.format(place=place, arguments=command[3:])
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=SOON, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith("Error: ")
    assert sentence.endswith("internal error in Trainshed, please report it: RuntimeError: injected")
    assert not machine.remains()


def test_the_place_of_an_unexpected_error_is_shown_on_demand(machine):
    command = machine.command(a_job("true"), arguments=("--verbose",))
    script = SCRIPT.format(place="volumes.Volumes.make", arguments=command[3:])
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=SOON, check=False)
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
