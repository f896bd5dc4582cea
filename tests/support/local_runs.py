"""Runs `trainshed run` as a program, with real processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from .jobs import pytorchjob
from .user_client import eventually

#: Seconds within which something happens on a busy machine.
SOON = 60


def a_job(script: str, workers: int = 1, restart: str = "ExitCode", **spec) -> dict:
    """Return a job whose replicas share one template: a test that changes it changes all of them."""
    container = {"name": "pytorch", "image": "x", "command": ["sh", "-c", script]}
    template = {"spec": {"containers": [container], "terminationGracePeriodSeconds": 1, **spec}}
    found = pytorchjob("job", restart=restart, Master=1, Worker=workers)
    for replicas in found["spec"]["pytorchReplicaSpecs"].values():
        replicas["template"] = template
    return found


#: Runs `trainshed run` with another statement, such as an error, at a place, `module:name`, of its code.
FAILING = """
import sys
from importlib import import_module
def fail(*args, **kwargs):
    {statement}
module, _, path = {place!r}.partition(":")
*path, name = path.split(".")
holder = import_module(f"trainshed.local.{{module}}")
for part in path:
    holder = getattr(holder, part)
setattr(holder, name, fail)
import trainshed.__main__ as entry
sys.argv = ["trainshed", *{arguments!r}]
entry.main()
"""


class Started(subprocess.Popen[str]):
    """A run that ends with the test that fails while it waits: `Popen` would wait for it."""

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is not None:
            self.terminate()
        super().__exit__(kind, *rest)


class Machine:
    """Runs `trainshed run` on files in a folder, with the logs and claims in another one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.runs = self.state / "trainshed-runs"

    def known(self) -> str:
        """Return the label of containers and networks of all runs."""
        return f"trainshed.runs={(self.runs / 'trainshed.mark').read_text().split()[2]}"

    def command(self, *documents: dict, runtime: str = "processes", arguments: tuple[str, ...] = ()) -> list[str]:
        file = self.folder / "job.yaml"
        file.write_text(yaml.safe_dump_all(documents))
        fixed = ("--state", str(self.state), "--no-color", "--runtime", runtime, "-f", str(file))
        return [sys.executable, "-m", "trainshed", "run", *fixed, *arguments]

    def run(self, *documents: dict, **how) -> subprocess.CompletedProcess[str]:
        command = self.command(*documents, **how)
        return subprocess.run(command, capture_output=True, text=True, timeout=SOON * 2, check=False)

    def start(self, *documents: dict, **how) -> Started:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return Started(self.command(*documents, **how), **pipes)

    def changed(self, statement: str, place: str, *documents: dict, **how) -> list[str]:
        """Return the command that runs jobs with a statement in place of a function."""
        arguments = self.command(*documents, **how)[3:]
        return [sys.executable, "-c", FAILING.format(statement=statement, place=place, arguments=arguments)]

    def run_failing(self, place: str, *documents: dict, **how) -> subprocess.CompletedProcess[str]:
        """Run jobs with an error at a place that nothing expects."""
        command = self.changed('raise RuntimeError("injected")', place, *documents, **how)
        return subprocess.run(command, capture_output=True, text=True, timeout=SOON, check=False)

    def marked(self) -> list[str]:
        """Return the processes of all runs of this machine."""
        mark = str(self.state).encode()
        found = []
        for entry in Path("/proc").glob("[0-9]*/environ"):
            try:
                variables = entry.read_bytes()
            except OSError:
                continue
            if b"STATE_OF_TEST=" + mark in variables and int(entry.parent.name) != os.getpid():
                found.append(entry.parent.name)
        return found

    def remains(self) -> list[str]:
        """Return the volumes of runs and the mounts that exist."""
        mounts = Path("/proc/self/mountinfo").read_text().splitlines() if Path("/proc/self/mountinfo").exists() else []
        return [*map(str, self.runs.glob("2*/pods")), *(line for line in mounts if str(self.state) in line)]


def until(process: subprocess.Popen[str], text: str, times: int = 1) -> None:
    """Read the output until a line has this text so often."""
    assert process.stdout is not None
    for line in process.stdout:
        times -= text in line
        if not times:
            return
    pytest.fail(f"ended without {text!r}")


def kill_at_many_points(machine: Machine, job: dict, runtime: str, points: int = 20) -> None:
    """Kill runs of a job at times from the start of the program to its end, and wait until their processes are gone.

    Every process of these runs has the variable STATE_OF_TEST, see `Machine.marked`.
    """
    begun = time.monotonic()
    assert machine.run(job, runtime=runtime).returncode == 0
    length = time.monotonic() - begun
    for point in range(points):
        run = machine.start(job, runtime=runtime)
        time.sleep(length * point / points)
        run.kill()
        run.communicate(timeout=SOON)
    eventually(lambda: not machine.marked(), 3 * SOON)  # a reaper goes on for a minute after it has found something


def permitted(runtime: str) -> None:
    """Skip a test with namespaces where the machine does not permit them."""
    if runtime != "namespaces":
        return
    probe = ["unshare", "--user", "--map-root-user", "--mount", "--net", "--pid", "--fork", "ip", "link", "show"]
    try:
        subprocess.run(probe, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this machine does not permit namespaces")
