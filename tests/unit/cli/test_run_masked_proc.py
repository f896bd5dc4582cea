"""`trainshed run` where namespaces are permitted but not /proc of their own, as in many containers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.local_runs import SOON, Machine, a_job, permitted, until

#: Runs a command in a container of which a part of /proc is hidden, as engines do.
MASKED = (
    *("unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
    *("sh", "-c", 'mount -t tmpfs -o ro none /proc/tty && exec "$@"', "sh"),
)
NOTE = "not with Linux namespaces, which this machine does not permit (namespaces: cannot mount proc at /proc:"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    permitted("namespaces")
    return Machine(tmp_path)


def test_a_replica_gets_sigterm(machine):
    job = a_job(
        "trap 'echo saved; exit 0' TERM; echo begun; while :; do sleep 0.1; done", terminationGracePeriodSeconds=9
    )
    words = [*MASKED, *machine.command(job, runtime="auto")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
        try:
            until(run, NOTE)
            until(run, "begun", 2)
            (child,) = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
            os.kill(int(child), signal.SIGINT)
            shown, _ = run.communicate(timeout=SOON)
        finally:
            run.kill()
    assert shown.count("| saved") == 2, shown


def test_a_limit_of_memory_holds(machine):
    job = a_job("", restart="Never")
    del job["spec"]["pytorchReplicaSpecs"]["Worker"]
    (container,) = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"]
    container["command"] = [sys.executable, "-c", "import time; x = bytearray(200 << 20); time.sleep(30)"]
    container["resources"] = {"limits": {"memory": "100Mi"}}
    words = [*MASKED, *machine.command(job, runtime="auto")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=SOON, check=False)
    assert (done.returncode, "OOMKilled" in done.stdout) == (1, True), done.stdout + done.stderr


def test_namespaces_are_refused(machine):
    words = [*MASKED, *machine.command(a_job("true"), runtime="namespaces")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=SOON, check=False)
    assert done.returncode == 1
    assert "Error: cannot run jobs with --runtime namespaces: cannot mount proc at /proc: " in done.stderr
