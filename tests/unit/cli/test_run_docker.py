"""`trainshed run --runtime docker` with a program that stands for docker; tests/e2e has the real one."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from support import fake_docker
from support.local_runs import SOON, Machine, a_job, until
from trainshed.local.run_folder import LeftVolumes, new_run
from trainshed.local.runtimes.docker import mount_words
from trainshed.local.runtimes.docker_cli import DockerCli
from trainshed.local.runtimes.leftovers import Leftovers
from trainshed.local.runtimes.protocol import Mount


class FakeEngine:
    """The state of the fake engine, and its calls."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def calls(self, *beginning: str) -> list[list[str]]:
        """Return the calls that begin with these words."""
        lines = (self.home / "calls").read_text().splitlines()
        return [words for words in map(json.loads, lines) if words[: len(beginning)] == list(beginning)]

    def left(self) -> list[str]:
        """Return the containers and networks that exist."""
        return sorted(path.name for kind in ("containers", "networks") for path in self.home.glob(f"{kind}/*"))

    def until_empty(self) -> None:
        end = time.monotonic() + SOON
        while self.left():
            assert time.monotonic() < end, self.left()
            time.sleep(0.05)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def engine(tmp_path: Path, monkeypatch) -> FakeEngine:
    home, programs = tmp_path / "engine", tmp_path / "bin"
    (home / "images").mkdir(parents=True)
    (home / "images" / "x").touch()
    programs.mkdir()
    for name in ("docker", "podman"):
        script = f'#!/bin/sh\nexec "{sys.executable}" -P -S "{fake_docker.__file__}" "$@"\n'
        (programs / name).write_text(script)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("FAKE_DOCKER", str(home))
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    return FakeEngine(home)


def containers(job: dict) -> list[dict]:
    """Return the containers of all replicas, which share their template."""
    return job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"]


def options(words: list[str], name: str) -> list[str]:
    return [value for option, value in pairwise(words) if option == name]


@pytest.mark.parametrize("program", ["docker", "podman"])
def test_a_job_runs_in_containers(machine, engine, program):
    job = a_job('echo "$RANK of $WORLD_SIZE from $MASTER_ADDR on $HOSTNAME"', volumes=[{"name": "v", "emptyDir": {}}])
    template = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]
    template |= {"hostname": "trainer", "shareProcessNamespace": True}
    containers(job)[0] |= {
        "workingDir": "/srv",
        "volumeMounts": [{"name": "v", "mountPath": "/data", "readOnly": True}],
        "resources": {"limits": {"memory": "1Gi", "cpu": "1500m", "example.com/disk": 1}},
    }
    done = machine.run(job, runtime=program)
    assert done.returncode == 0, done.stdout + done.stderr
    for line in ("master-0 | 0 of 2 from job-master-0 on trainer", "worker-0 | 1 of 2 from job-master-0 on trainer"):
        assert line in done.stdout.splitlines()
    assert f"containers of {program} 99.0" in done.stdout
    assert "resource limits example.com/disk" in done.stdout
    assert "shareProcessNamespace (containers of a pod do not see each other's processes)" in done.stdout
    worker = next(words for words in engine.calls("create") if ".job-worker-0." in options(words, "--name")[0])
    assert options(worker, "--hostname") == ["trainer"]
    (hosts,) = [item.partition(":")[0] for item in options(worker, "--volume") if "/etc/hosts" in item]
    assert Path(hosts).name.startswith("hosts-198.")
    assert options(worker, "--workdir") == ["/srv"]
    logs = {"docker": ["max-size=10485760", "max-file=5"], "podman": ["max-size=10485760"]}
    assert options(worker, "--log-opt") == logs[program], "the engine's own log has a limit"
    assert options(worker, "--memory") == options(worker, "--memory-swap") == [str(2**30)]
    assert options(worker, "--cpu-quota") == ["150000"]
    assert not any("job-master-0" in word for word in worker), "values are not in arguments"
    mounts = options(worker, "--volume")
    for end in (":/data:ro,z", ":/etc/hosts:ro,z", ":/dev/termination-log:z"):
        assert any(mount.endswith(end) for mount in mounts)
    assert "label=disable" not in worker
    (subnet,) = {value for words in engine.calls("network", "create") for value in options(words, "--subnet")}
    assert subnet.startswith(("198.18.", "198.19."))
    assert engine.left() == []


def test_a_mount_path_with_a_colon_is_no_option_of_a_volume(machine, engine):
    job = a_job("true", volumes=[{"name": "v", "emptyDir": {}}])
    containers(job)[0]["volumeMounts"] = [{"name": "v", "mountPath": "/a:ro"}]
    assert machine.run(job, runtime="docker").returncode == 0
    mounts = [value for words in engine.calls("create") for value in options(words, "--mount")]
    assert [mount.partition("target=")[2] for mount in mounts] == ["/a:ro"] * 2


def test_no_value_of_a_variable_is_in_the_arguments_of_the_engine(machine, engine):
    key = "-----BEGIN-----\n of a 'key' \n-----END-----\n"
    values = {"SSH_KEY": key, "PASSWORD": "s3cret", "PATH": "/usr/bin:/bin", "LD_PRELOAD": "", "1-x": "s3cret"}
    job = a_job('printf "%s|" "$SSH_KEY" "$PASSWORD"', restart="Never")
    containers(job)[0]["env"] = [{"name": name, "value": value} for name, value in values.items()]
    done = machine.run(job, runtime="docker")
    assert done.returncode == 0, done.stdout + done.stderr
    assert next(machine.runs.glob("2*/logs/job-worker-0.log")).read_text() == f"{key}|s3cret|"
    created = engine.calls("create")
    assert not [word for words in created for word in words if "BEGIN" in word or "s3cret" in word]
    assert {tuple(options(words, "--pull")) for words in created} == {("never",)}, "what a pull starts reads them, too"


@pytest.mark.parametrize("name", ["LD_PRELOAD", "BASH_FUNC_exec%%", "DOCKER_HOST", "https_proxy"])
def test_no_job_sets_the_variables_of_the_engine(machine, engine, name):
    job = a_job("true", restart="Never")
    containers(job)[0]["env"] = [{"name": name, "value": "/tmp/library.so\n"}]
    done = machine.run(job, runtime="docker")
    assert done.returncode == 1
    assert f"docker cannot get the variable {name}, which it may read itself" in done.stdout
    assert not engine.calls("create")


def test_an_image_runs_its_own_entry_point(machine, engine):
    job = a_job("")
    del containers(job)[0]["command"]
    done = machine.run(job, runtime="docker")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "worker-0 | from the image" in done.stdout
    assert not any("--entrypoint" in words for words in engine.calls("create"))


def test_exit_codes_and_failures_are_those_of_the_containers(machine, engine):
    done = machine.run(a_job("echo oh no; exit 3"), runtime="docker", arguments=("--output", "json"))
    (job,) = json.loads(done.stdout)["jobs"]
    assert (done.returncode, job["status"]["failure"]["exitCode"]) == (1, 3)


def test_what_a_container_has_written_goes_when_it_is_started_again(machine, engine):
    job = a_job('mkdir "$0" && exit 1; exit 0', restart="OnFailure")
    del job["spec"]["pytorchReplicaSpecs"]["Worker"]
    containers(job)[0]["args"] = [str(machine.folder / "begun")]
    done = machine.run(job, runtime="docker")
    assert done.returncode == 0, done.stdout
    first, second = (options(words, "--name")[0] for words in engine.calls("create"))
    assert engine.calls("rm")[0][-1] == first
    assert first not in engine.calls("rm")[-1]
    assert second in engine.calls("rm")[-1]


def test_a_container_that_is_killed_for_its_memory_is_reported_so(machine, engine):
    script = f'for c in {engine.home}/containers/*; do touch "$c/oom"; done; kill -9 $$$$'
    job = a_job(script, restart="Never")
    containers(job)[0]["resources"] = {"limits": {"memory": "1Gi"}}
    done = machine.run(job, runtime="docker", arguments=("--output", "json"))
    (job,) = json.loads(done.stdout)["jobs"]
    assert job["status"]["failure"]["reason"] == "OOMKilled", job["status"]["failure"]


def test_arguments_that_the_program_cannot_get_are_reported(machine, engine):
    job = a_job("", restart="Never")
    containers(job)[0]["args"] = ["y" * 200_000]
    done = machine.run(job, runtime="docker")
    assert done.returncode == 1
    assert "cannot run docker create: Argument list too long" in done.stdout


def test_a_program_that_the_image_lacks_is_reported(machine, engine):
    job = a_job("", restart="Never")
    containers(job)[0]["command"] = ["absent"]
    done = machine.run(job, runtime="docker")
    assert done.returncode == 1
    assert 'exec: "absent": executable file not found' in done.stdout


def test_ctrl_c_ends_the_containers(machine, engine):
    run = machine.start(a_job("trap 'echo saved; exit 0' TERM; echo begun; sleep 99 & wait"), runtime="docker")
    until(run, "begun", 2)
    run.send_signal(signal.SIGINT)
    text, _ = run.communicate(timeout=SOON)
    assert run.returncode == 130
    assert text.count("| saved") == 2
    assert engine.left() == []


def test_containers_are_removed_when_the_run_is_killed(machine, engine):
    run = machine.start(a_job("echo begun; sleep 99"), runtime="docker")
    until(run, "begun", 2)
    assert engine.left()
    run.kill()
    run.communicate(timeout=SOON)
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
    end = time.monotonic() + SOON
    while not (engine.home / "begun").exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    run.kill()
    run.communicate(timeout=SOON)
    while not engine.calls(verb):
        assert time.monotonic() < end
        time.sleep(0.05)
    engine.until_empty()


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
    run = machine.start(a_job(f"echo begun; while ! [ -e {machine.folder}/go ]; do sleep 0.1; done"), runtime="docker")
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


def test_addresses_in_use_are_left_to_others(machine, engine, monkeypatch):
    (engine.home / "taken").write_text("".join(f"198.18.{third}.0/22\n" for third in range(0, 256, 4)))
    done = machine.run(a_job("true"), runtime="docker")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("image", "policy", "message"),
    [
        ("gone", "Never", "image gone is not here, and its imagePullPolicy is Never"),
        ("gone", "IfNotPresent", "cannot pull image gone: Get https://registry.example.com/v2/: no such host"),
        ("x", "Always", "cannot pull image x: Get https://registry.example.com/v2/: no such host"),
    ],
)
def test_an_image_that_cannot_be_had_is_reported_before_anything_starts(machine, engine, image, policy, message):
    job = a_job("true")
    containers(job)[0] |= {"image": image, "imagePullPolicy": policy}
    done = machine.run(job, runtime="docker")
    assert done.returncode == 1
    assert f"Error: cannot run jobs with --runtime docker: {message}" in done.stderr
    assert not engine.calls("create")


def test_ctrl_c_ends_a_pull(machine, engine):
    job = a_job("true")
    containers(job)[0]["image"] = "slow"
    run = machine.start(job, runtime="docker")
    until(run, "pulling image slow")
    end = time.monotonic() + SOON
    while not (engine.home / "pulling").exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    run.send_signal(signal.SIGINT)
    text, _ = run.communicate(timeout=SOON)
    assert (run.returncode, text) == (130, "")
    program = Path("/proc") / (engine.home / "pulling").read_text()
    while program.exists():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_an_engine_that_does_not_answer_is_reported(machine, engine):
    (engine.home / "stopped").touch()
    done = machine.run(a_job("true"), runtime="docker")
    assert done.returncode == 1
    assert "cannot run jobs with --runtime docker: Cannot connect to the Docker daemon" in done.stderr


def test_an_engine_that_stops_ends_the_run(machine, engine):
    run = machine.start(a_job("echo begun; sleep 3"), runtime="docker")
    until(run, "begun", 2)
    (engine.home / "stopped").touch()
    text, _ = run.communicate(timeout=SOON)
    assert run.returncode == 1
    assert "docker has stopped working: Cannot connect to the Docker daemon" in text


#: `trainshed run` with less patience.
HURRIED = """
import sys
from trainshed.local.runtimes import docker, docker_cli
docker_cli.ANSWER = docker_cli.LONGEST = docker.END = docker.PING = 2.0
import trainshed.__main__ as entry
sys.argv = ["trainshed", *sys.argv[1:]]
entry.main()
"""


@pytest.mark.parametrize("verbs", ["network", "create", "start", "logs ps kill"])
def test_an_engine_that_hangs_ends_the_run(machine, engine, verbs):
    (engine.home / "hangs").write_text(verbs)
    words = machine.command(a_job("echo begun; sleep 99"), runtime="docker")[3:]
    command = [sys.executable, "-c", HURRIED, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SOON, check=False)
    assert done.returncode == 1
    late = [verb for verb in verbs.split() if f"docker has not answered `{verb}` for 2 s" in done.stderr]
    assert late, done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_the_third_ctrl_c_ends_the_run_though_the_engine_hangs(machine, engine):
    """Without it, each of the three waits here is one of minutes: for `kill`, for `rm`, and for the reaper."""
    run = machine.start(a_job("echo begun; sleep 99"), runtime="docker")
    until(run, "begun", 2)
    (engine.home / "hangs").write_text("kill rm ps")
    run.send_signal(signal.SIGINT)
    until(run, "Ctrl-C again kills them")
    for _ in range(2):
        run.send_signal(signal.SIGINT)
        time.sleep(2)  # two signals at once are one
    text, _ = run.communicate(timeout=SOON)
    assert run.returncode == 130, text
    (engine.home / "hangs").unlink()


def test_a_program_that_is_not_installed_is_reported(machine, engine, monkeypatch, tmp_path):
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    done = machine.run(a_job("true"), runtime="podman")
    assert done.returncode == 1
    assert "cannot run jobs with --runtime podman: podman is not installed" in done.stderr


def test_containers_of_a_pod_share_its_network(machine, engine):
    job = a_job("true")
    containers(job).append({"name": "beside", "image": "x", "command": ["true"]})
    done = machine.run(job, runtime="docker")
    assert done.returncode == 0, done.stdout + done.stderr
    (holder,) = [words for words in engine.calls("run") if ".job-master-0." in options(words, "--name")[0]]
    name = options(holder, "--name")[0]
    assert holder[-3:] == ["sleep", "x", "365d"]
    joined = [words for words in engine.calls("create") if options(words, "--network") == [f"container:{name}"]]
    assert len(joined) == 2
    assert not any("--hostname" in words for words in joined)
    assert engine.left() == []
