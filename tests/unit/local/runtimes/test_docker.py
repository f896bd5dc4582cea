"""The words of the command line of docker, and the networks of runs."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from trainshed.local import tasks
from trainshed.local.runtimes import docker_cli
from trainshed.local.runtimes.docker import container_words, images_of, in_full, mount_words, subnets
from trainshed.local.runtimes.docker_cli import DockerCli, message
from trainshed.local.runtimes.docker_variables import passed
from trainshed.local.runtimes.protocol import ContainerSpec, Ends, Mount, StartFailed


def no_mount(_mount: Mount) -> bool:
    """Return that a mount is that of a host path."""
    return False


def test_only_containers_with_host_paths_are_not_confined_by_selinux():
    own, host = Mount(Path("/state/claim"), "/claim", read_only=True), Mount(Path("/data"), "/data")
    for mounts, confined in (((own,), True), ((own, host), False)):
        words = container_words(ContainerSpec("c", "i", mounts=mounts), DockerCli("docker"), lambda item: item is own)
        assert words[:2] == ["--volume", "/state/claim:/claim:ro,z"]
        assert ("label=disable" not in words) is confined


def test_paths_with_commas_and_quotes_are_mounted():
    (_, line) = mount_words([Mount(Path('/a,b"c'), "/data")], no_mount)
    assert line == 'type=bind,"source=/a,b""c",target=/data'


@pytest.mark.parametrize("end", ["\n", "\r"])
def test_a_path_with_an_end_of_line_takes_nothing_from_the_mount(end):
    (_, line) = mount_words([Mount(Path("/a"), f"/data{end}b", read_only=True)], no_mount)
    assert line == f'type=bind,source=/a,"target=/data{end}b",readonly'


@pytest.mark.parametrize(("limit", "passed_on"), [("1Ki", "1024"), ("100m", "1"), ("1025.5", "1026"), ("0", "")])
def test_a_part_of_a_byte_is_a_whole_one_of_the_limit(limit, passed_on):
    words = container_words(ContainerSpec("c", "i", limits={"memory": limit}), DockerCli("docker"), no_mount)
    assert " ".join(words) == (f"--memory {passed_on} --memory-swap {passed_on} i" if passed_on else "i")


def test_command_replaces_the_entry_point_and_args_follow():
    spec = ContainerSpec("c", "image", ("python", "-m", "train"), ("--lr", "1"))
    assert container_words(spec, DockerCli("docker"), no_mount)[-7:] == [
        "--entrypoint",
        "python",
        "image",
        "-m",
        "train",
        "--lr",
        "1",
    ]
    assert container_words(ContainerSpec("c", "image", (), ("a",)), DockerCli("docker"), no_mount)[-2:] == [
        "image",
        "a",
    ]


@pytest.mark.parametrize(
    ("value", "in_file"),
    [("x" * 31_900, True), ("é" * 15_900, True), ("x" * 32_000, False), ("é" * 16_100, False), ("語" * 31_000, False)],
)
def test_a_line_of_the_file_with_variables_has_at_most_as_many_bytes_as_docker_reads(value, in_file):
    options, file, own = passed({"BIG": value}, "docker")
    with file:
        assert file.read() == (f"BIG={value}\n".encode() if in_file else b"")
    assert ("--env" in options, own) == ((False, {}) if in_file else (True, {"BIG": value}))


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("python:3.11", "docker.io/library/python:3.11"),
        ("team/model", "docker.io/team/model"),
        ("ghcr.io/team/model:1", "ghcr.io/team/model:1"),
        ("registry:5000/model", "registry:5000/model"),
        ("localhost/model", "localhost/model"),
    ],
)
def test_an_image_without_a_registry_is_pulled_from_docker_io(image, name):
    assert in_full(image) == name


def test_gpus_are_given_by_number():
    spec = ContainerSpec("c", "image", gpus="2,3")
    assert '"device=2,3"' in container_words(spec, DockerCli("docker"), no_mount)
    podman = container_words(spec, DockerCli("podman"), no_mount)
    assert [word for word in podman if "gpu" in word] == ["--device=nvidia.com/gpu=2", "--device=nvidia.com/gpu=3"]
    assert not any(
        "gpu" in word for word in container_words(ContainerSpec("c", "i", gpus=""), DockerCli("docker"), no_mount)
    )


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["cause first", "effect first"])
def test_ends_that_the_engine_cannot_tell_apart_have_one_time(order):
    """The failure that came first is then found by the exit codes: an effect may have the earlier time."""
    cause, effect = (datetime(2026, 1, 1, 12, 0, 0, micros, UTC) for micros in (990_000, 985_000))
    ends = Ends()
    found = [ends.at_once((cause, effect)[number]) for number in order]
    assert found[0] == found[1]
    later = effect + timedelta(seconds=2)
    assert (ends.at_once(later), ends.at_once(None)) == (later, None)


def test_networks_have_enough_addresses_and_all_differ():
    small = list(subnets(64, 4711))
    assert len({str(net) for net in small}) == len(small) == 128
    assert all(net.subnet_of(IPv4Network("198.18.0.0/15")) for net in small)
    assert next(subnets(5000, 0)).num_addresses == 8192


def test_the_message_is_that_of_the_engine():
    start = "Error response from daemon: exec failed\nError: failed to start containers: abc\n"
    assert message(start) == "exec failed"
    assert message("docker: Error response from daemon: no image.\nSee 'docker run --help'.") == "no image."
    assert message("Error: no container with name abc") == "no container with name abc"
    assert message("") == ""


def test_images_are_those_of_all_containers():
    main = {"name": "a", "image": "a"}
    pod = {"spec": {"initContainers": [{"name": "b", "image": "b"}], "containers": [main]}}
    again = {"spec": {"containers": [{**main, "imagePullPolicy": "Always"}]}}
    assert images_of([pod, again]) == {"b": "", "a": "Always"}


def an_engine(folder: Path, script: str) -> DockerCli:
    engine = folder / "engine"
    engine.write_text(f"#!/bin/sh\n{script}\n")
    engine.chmod(0o755)
    return DockerCli(str(engine))


@pytest.mark.parametrize(
    ("call", "verb", "ends_the_run"),
    [
        (lambda cli: cli.version(), "version", True),
        (lambda cli: cli.run("start", "c"), "start", True),
        (lambda cli: cli.create(("image",), {}), "create", True),
        (lambda cli: cli.run("run", "image"), "run", False),
        (lambda cli: cli.run("rm", "c"), "rm", False),
        (lambda cli: cli.pull("image", lambda _: None), "version", True),
    ],
)
async def test_an_engine_that_hangs_is_reported(tmp_path, monkeypatch, call, verb, ends_the_run):
    cli = an_engine(tmp_path, "exec sleep 99")
    monkeypatch.setattr(docker_cli, "ANSWER", 0.3)
    monkeypatch.setattr(docker_cli, "LONGEST", 0.3)
    with pytest.raises(StartFailed, match=f"has not answered `{verb}` for 0 s"):
        await asyncio.wait_for(call(cli), 20)
    assert bool(cli.problem) is ends_the_run


async def test_a_long_pull_goes_on_while_the_engine_answers(tmp_path, monkeypatch):
    cli = an_engine(tmp_path, f"[ $1 = version ] || until [ -e {tmp_path}/pulled ]; do sleep 0.05; done")
    monkeypatch.setattr(docker_cli, "ANSWER", 0.3)
    waited: list[float] = []

    def waiting(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            (tmp_path / "pulled").touch()

    await asyncio.wait_for(cli.pull("image", waiting), 20)
    assert waited == sorted(waited)
    assert (len(waited) >= 3, cli.problem) == (True, "")


@pytest.mark.parametrize(("failures", "problem"), [(0, ""), (2, ""), (3, "oh no")])
async def test_an_engine_works_unless_it_fails_again_and_again(tmp_path, monkeypatch, failures, problem):
    monkeypatch.setattr(docker_cli, "PAUSE", 0.0)
    again = (
        f"echo x >> {tmp_path}/asked; [ $(wc -l < {tmp_path}/asked) -gt {failures} ] || {{ echo oh no >&2; exit 1; }}"
    )
    cli = an_engine(tmp_path, f"{again}; echo a Exited 1 second ago; echo b Up 1 second; echo")
    assert await cli.check("label") == ([] if problem else ["a"])
    assert cli.problem == problem


async def test_a_pull_goes_on_though_the_engine_fails_once_meanwhile(tmp_path, monkeypatch):
    monkeypatch.setattr(docker_cli, "ANSWER", 0.5)
    pulled = f"[ $1 = version ] || until [ -e {tmp_path}/pulled ]; do sleep 0.05; done"
    cli = an_engine(
        tmp_path, f"{pulled}; [ $1 = pull ] || mkdir {tmp_path}/once 2>/dev/null && [ $1 = version ] && exit 1; :"
    )
    await asyncio.wait_for(cli.pull("image", lambda _: (tmp_path / "pulled").touch()), 20)


async def test_an_answer_that_came_while_the_run_was_stopped_is_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(docker_cli, "ANSWER", 1.0)
    monkeypatch.setattr(tasks, "STEP", 0.2)
    cli = an_engine(tmp_path, "sleep 0.5; echo answered")
    asyncio.get_running_loop().call_later(0.3, time.sleep, 1.5)  # as if Ctrl-Z had stopped it
    assert (await cli.run("version"), cli.problem) == ("answered", "")
