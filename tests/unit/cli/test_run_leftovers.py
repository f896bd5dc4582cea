"""What `trainshed run --runtime docker` removes of runs that were killed, and what it leaves alone."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from support.local_runs import SOON, Machine, a_job, until
from support.user_client import eventually
from trainshed.local.run_folder import LeftVolumes, new_run
from trainshed.local.runtimes.docker import mount_words
from trainshed.local.runtimes.docker_cli import DockerCli
from trainshed.local.runtimes.leftovers import Leftovers
from trainshed.local.runtimes.protocol import Mount

from .fake_engine import FakeEngine, containers, installed, options


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def engine(tmp_path: Path, monkeypatch) -> FakeEngine:
    return installed(tmp_path, monkeypatch)


#: An engine that takes long to start a container.
SLOW = """#!/bin/sh
case $1 in {verb}) touch {home}/begun; sleep {seconds};; esac
exec {engine} "$@"
"""


@pytest.mark.parametrize(("verb", "seconds"), [("run", 2), ("create", 2), ("run", 6)])
def test_what_the_engine_was_just_making_for_a_run_that_is_killed_is_removed(machine, engine, verb, seconds):
    program = machine.folder / "bin" / "docker"
    fast = program.rename(program.with_name("fast"))
    program.write_text(SLOW.format(verb=verb, home=engine.home, seconds=seconds, engine=fast))
    program.chmod(0o755)
    job = a_job("sleep 99")
    containers(job).append({"name": "beside", "image": "x", "command": ["sleep", "99"]})
    run = machine.start(job, runtime="docker")
    eventually((engine.home / "begun").exists, SOON)
    run.kill()
    run.communicate(timeout=SOON)
    eventually(lambda: engine.calls(verb), SOON)
    engine.until_empty()


def left_by(engine: FakeEngine, run: str, known: str, *, running: bool = False) -> set[str]:
    """Let a run have a container and a network; return their names."""
    names = {"containers": f"{run}.job-worker-0.1234.pytorch.0", "networks": f"trainshed-{run}"}
    for kind, name in names.items():
        folder = engine.home / kind / name
        folder.mkdir(parents=True)
        (folder / "spec").write_text(json.dumps({"labels": [f"trainshed.run={run}", known]}))
        if running:
            (folder / "pid").write_text("4194305")  # above the largest of Linux
    return set(names.values())


@pytest.mark.parametrize("job", ["job", "resnet.v1", "resnet-50.v1", "job-20260101-000000-x-1-0123456789abcdef"])
def test_the_next_run_removes_what_is_left_of_runs_that_have_ended(machine, engine, job):
    over, living = (new_run(machine.state, job, datetime(2026, 1, day, tzinfo=UTC)) for day in (1, 2))
    os.close(over.lock)
    left_by(engine, over.id, machine.known())
    kept = left_by(engine, living.id, machine.known())
    kept |= left_by(engine, f"20260103-000000-{job}-1-0123456789abcdef", "trainshed.runs=0123456789abcdef")
    done = machine.run(a_job("true"), runtime="docker")
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(engine.left()) == kept


@pytest.mark.parametrize("running", [True, False])
def test_containers_of_a_run_whose_folder_is_gone_are_named_if_they_run(machine, engine, running):
    gone = new_run(machine.state, "resnet-50.v1", datetime(2026, 1, 1, tzinfo=UTC))
    gone.path.rename(machine.folder / "elsewhere")
    container, _ = sorted(left_by(engine, gone.id, machine.known(), running=running))
    done = machine.run(a_job("true"), runtime="docker")
    assert done.returncode == 0, done.stdout + done.stderr
    note = f"such as {container}; if no run needs it: docker rm --force {container}"
    assert (engine.left() == [container], note in done.stdout) == (running, running)


def test_a_run_in_a_copied_folder_leaves_the_containers_of_the_original_alone(machine, engine):
    assert machine.run(a_job("true"), runtime="docker").returncode == 0
    other = Machine(machine.folder / "copy")
    shutil.copytree(machine.state, other.state)
    script = f"echo begun; while ! [ -e {machine.folder}/go ]; do sleep 0.1; done"
    run = machine.start(a_job(script, restart="Never"), runtime="docker")
    until(run, "begun", 2)
    done = other.run(a_job("true"), runtime="docker")
    (machine.folder / "go").touch()
    text, _ = run.communicate(timeout=SOON)
    assert (done.returncode, run.returncode) == (0, 0), done.stderr + text
    assert machine.known() != other.known()


def test_what_a_container_has_written_is_removed_by_one_as_by_its_user(machine, engine):
    """Only an engine removes it: files of another user in a folder without a name that this one could change."""
    run = new_run(machine.state, "job", datetime(2026, 1, 1, tzinfo=UTC))
    (run.pods / "v").mkdir()
    stuck = replace(run, left=LeftVolumes(stuck=(run.pods, run.path / "gone", a_link_to(machine.folder))))
    left = Leftovers(DockerCli("docker"), stuck, print)
    asyncio.run(left.empty(("x", "y"), lambda folder: mount_words([Mount(folder, "/folder")], lambda _: True)))
    (words,) = engine.calls("run")
    assert options(words, "--volume") == [f"{run.pods}:/folder:z"]
    assert options(words, "--user") == ["0"]
    rest = words[words.index("--entrypoint") :]
    assert (rest[:4], set(rest[4:])) == (["--entrypoint", "rm", "x", "-rf"], {"/folder/v"})


def a_link_to(folder: Path) -> Path:
    (folder / "link").symlink_to(folder)
    return folder / "link"
