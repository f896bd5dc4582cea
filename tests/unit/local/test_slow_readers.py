"""However slowly the output of a run is read: nothing is lost of a container that has ended, and its end is found."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from support.scripted_runtime import NoLogs, ScriptedContainer
from trainshed.local.node import container_output
from trainshed.local.node.container_output import ContainerOutput
from trainshed.local.runtimes import docker_container
from trainshed.local.runtimes.docker_cli import DockerCli
from trainshed.local.runtimes.docker_container import DockerContainer, Engine
from trainshed.local.runtimes.protocol import ContainerSpec, Ends

SIZE = 1_500_000
POD = {"metadata": {"name": "pod"}}


class SlowLogs(NoLogs):
    """Holds the event loop up, as a reader of the output does that takes its time."""

    def write(self, pod, container: str, chunk: bytes) -> None:
        super().write(pod, container, chunk)
        time.sleep(len(chunk) / 1_000_000)


@pytest.fixture
def file(tmp_path) -> Path:
    (tmp_path / "output").write_bytes(b"y\n" * (SIZE // 2))
    return tmp_path / "output"


#: What prints the output goes on to do.
ENDS = ["exec cat {file}", "cat {file}; exec sleep 99", "cat {file}; while echo x; do sleep 0.05; done"]


@pytest.mark.parametrize("script", ENDS)
async def test_a_log_is_read_to_its_end_though_the_engine_lists_the_container_as_ended(file, monkeypatch, script):
    monkeypatch.setattr(docker_container, "DRAIN", 0.5)
    monkeypatch.setattr(docker_container, "ALL_IN_ALL", 2)
    state = '{"Running": false, "ExitCode": 0, "FinishedAt": ""}'
    program = file.with_name("engine")
    program.write_text(f"#!/bin/sh\nif [ $1 = inspect ]; then echo '{state}'; exit; fi\n{script.format(file=file)}\n")
    program.chmod(0o755)
    cli, logs = DockerCli(str(program)), SlowLogs()
    engine = Engine(cli, (), lambda: datetime.now(UTC), Ends(), lambda _: None, lambda _: None)
    follower = await cli.follow("logs", "c")
    container = DockerContainer(engine, "c", follower, limited=False)
    output = ContainerOutput(container, logs, POD, "main")
    container.note_end()
    assert await asyncio.wait_for(container.wait(), 30) == 0
    await output.drain()
    await asyncio.wait_for(follower.wait(), 30)
    found = logs.text.count(b"y\n")
    assert found == SIZE // 2


@pytest.mark.parametrize("script", [*ENDS, "cat {file}; exec yes x"])
async def test_the_output_of_a_container_is_read_to_its_end_but_not_that_of_others(file, monkeypatch, script):
    monkeypatch.setattr(container_output, "DRAIN", 0.5)
    process = await asyncio.create_subprocess_exec("sh", "-c", script.format(file=file), stdout=asyncio.subprocess.PIPE)
    container, logs = ScriptedContainer("pod", ContainerSpec("main", "x"), stubborn=False), SlowLogs()
    container.output = process.stdout
    await asyncio.wait_for(ContainerOutput(container, logs, POD, "main").drain(), 30)
    process._transport.close()
    await asyncio.wait_for(process.wait(), 30)
    found = logs.text.count(b"y\n")
    assert found == SIZE // 2
