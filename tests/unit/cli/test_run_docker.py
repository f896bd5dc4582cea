"""`trainshed run --runtime docker` with a program that stands for docker; tests/e2e has the real one."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.local_runs import SOON, Machine, a_job, until
from support.user_client import eventually

from .fake_engine import FakeEngine, containers, installed, options


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def engine(tmp_path: Path, monkeypatch) -> FakeEngine:
    return installed(tmp_path, monkeypatch)


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
    eventually((engine.home / "pulling").exists, SOON)
    run.send_signal(signal.SIGINT)
    text, _ = run.communicate(timeout=SOON)
    assert (run.returncode, "interrupted" in text, engine.calls("create")) == (130, True, [])
    program = Path("/proc") / (engine.home / "pulling").read_text()
    eventually(lambda: not program.exists(), SOON)


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
from trainshed.local.runtimes import docker, docker_cli, docker_container
docker_cli.ANSWER = docker_cli.LONGEST = docker.END = docker.PING = 2.0
docker_cli.PAUSE = docker_container.PAUSE = 0.1
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
