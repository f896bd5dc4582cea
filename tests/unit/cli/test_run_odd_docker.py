"""`trainshed run --runtime docker` with an engine that fails once, hangs, or answers oddly."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.local_runs import SOON, Machine, a_job

from . import fake_docker

#: `trainshed run` with less patience.
HURRIED = """
import sys
from trainshed.local.runtimes import docker, docker_cli, docker_container
docker.PING, docker_container.DRAIN = 0.5, 0.5
docker_cli.PAUSE = docker_container.PAUSE = 0.1
import trainshed.__main__ as entry
sys.argv = ["trainshed", *sys.argv[1:]]
entry.main()
"""
COUNT = "for i in 1 2 3 4 5 6; do echo step $i; sleep 0.5; done; echo DONE"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch) -> Machine:
    home, programs = tmp_path / "engine", tmp_path / "bin"
    (home / "images").mkdir(parents=True)
    (home / "images" / "x").touch()
    programs.mkdir()
    monkeypatch.setenv("FAKE_DOCKER", str(home))
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    return Machine(tmp_path)


def run(
    machine: Machine, odd: str, script: str, *arguments: str, annotations: dict | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a job with one replica; `odd` is what a shell does before the engine, whose words `real` begins."""
    real = f'"{sys.executable}" -P -S "{fake_docker.__file__}" "$@"'  # a function and the program have their own words
    program = machine.folder / "bin" / "docker"
    program.write_text(f"#!/bin/sh\nreal() {{ {real}; }}\n{odd}\nexec {real}\n")
    program.chmod(0o755)
    job = a_job(script, restart="Never")
    job["metadata"]["annotations"] = annotations or {}
    del job["spec"]["pytorchReplicaSpecs"]["Worker"]
    command = [sys.executable, "-c", HURRIED, *machine.command(job, runtime="docker", arguments=arguments)[3:]]
    return subprocess.run(command, capture_output=True, text=True, timeout=SOON, check=False)


def once(condition: str) -> str:
    """Return what fails once when this is true."""
    return f'if {condition} && mkdir "$FAKE_DOCKER/once" 2>/dev/null; then echo "Error: oh no" >&2; exit 1; fi'


@pytest.mark.parametrize(
    "odd",
    [
        once('[ "$1" = ps ] && [ -e "$FAKE_DOCKER/containers" ]'),
        once('[ "$1" = inspect ]'),
        'case "$1" in wait) exec sleep 300;; logs) real "$@"; exec sleep 300;; esac',
        'if [ "$1" = inspect ]; then echo "level=warning msg=odd"; fi',
    ],
    ids=["ps fails once", "inspect fails once", "the log does not end", "a warning before an answer"],
)
def test_an_engine_that_is_odd_for_a_moment_changes_nothing(machine, odd):
    done = run(machine, odd, COUNT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "master-0 | DONE" in done.stdout
    assert not list((machine.folder / "engine" / "containers").iterdir())


@pytest.mark.parametrize("after", ["0.7", "0"])
def test_the_output_of_a_container_is_whole_although_its_log_ends_early(machine, after):
    early = '[ "$1 $3" != "logs --since" ] && [ "$1" = logs ]'
    odd = f'if {early}; then timeout {after} {sys.executable} -P -S {fake_docker.__file__} "$@"; exit 1; fi'
    done = run(machine, odd if after != "0" else f"if {early}; then exit 1; fi", COUNT)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("master-0 |")]
    assert lines == [*(f"master-0 | step {number}" for number in range(1, 7)), "master-0 | DONE"]
    assert "docker has stopped to print the output of" in done.stdout


def test_an_engine_with_a_network_that_this_machine_does_not_have_is_no_reason_not_to_train(machine):
    asks = {"trainshed.dev/progress": "Endpoint"}
    done = run(machine, "", 'echo "token=$KUBEFLOW_TRAINER_SERVER_TOKEN."', annotations=asks)
    assert (done.returncode, "master-0 | token=." in done.stdout) == (0, True), done.stdout + done.stderr
    why = "trainshed.dev/progress: Endpoint (containers of this docker do not reach programs of this machine)"
    assert why in done.stdout.splitlines()[1]


def test_a_kill_that_fails_once_is_tried_again(machine):
    done = run(machine, once('[ "$1" = kill ]'), "echo begun; sleep 5", "--fail", "master-0@begun")
    assert (done.returncode, "was killed by SIGKILL (137)" in done.stdout) == (1, True), done.stdout + done.stderr


@pytest.mark.parametrize(
    "answer", ["{}", "[]", "null", "x", "", '{"Running": false, "ExitCode": "x", "FinishedAt": ""}']
)
def test_an_answer_that_is_no_state_names_the_engine(machine, answer):
    done = run(machine, f"if [ \"$1\" = inspect ]; then echo '{answer}'; exit; fi", "echo ran")
    assert done.returncode == 1
    wrong = "Error: docker has stopped working: its answer to `inspect` is no state of a container"
    assert [line for line in done.stderr.splitlines() if line.startswith(wrong)], done.stdout + done.stderr
