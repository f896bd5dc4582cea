"""Commands that are run in replicas through the socket of a run."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from trainshed.local import remote_shell
from trainshed.local.exec_server import SOCKET, ExecServer
from trainshed.local.runtime import StartFailed


class Program:
    """Implements `trainshed.local.runtime.Process`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def wait(self) -> int:
        code = await self.process.wait()
        return code if code >= 0 else 128 - code

    def signal(self, number: int) -> None:
        self.process.send_signal(number)


class Replica:
    """A container whose programs are processes of this machine; `absent` cannot be run."""

    def __init__(self) -> None:
        self.programs: list[Program] = []

    async def exec(self, command, streams) -> Program:
        if command[0] == "absent":
            raise StartFailed('exec: "absent": No such file or directory')
        source, output, errors = streams
        process = await asyncio.create_subprocess_exec(*command, stdin=source, stdout=output, stderr=errors)
        self.programs.append(Program(process))
        return self.programs[-1]


@pytest.fixture
async def replica(tmp_path: Path):
    """A replica `w`, whose server has a path that is longer than an address may be."""
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    found = Replica()
    server = ExecServer(folder, lambda pod, container: found if (pod, container) == ("w", "") else None)
    server.start()
    os.environ[remote_shell.VARIABLE] = str(folder / SOCKET)
    yield found
    del os.environ[remote_shell.VARIABLE]
    await server.close()


async def kubectl(*words: str) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", remote_shell.__file__, *words), stdin=pipe, stdout=pipe, stderr=pipe
    )


async def test_streams_and_the_exit_code_are_those_of_the_command(replica):
    process = await kubectl("exec", "w", "--", "sh", "-c", "read word; echo got $word; echo bad >&2; exit 3")
    output, errors = await process.communicate(b"bonjour\n")
    assert (output, errors, process.returncode) == (b"got bonjour\n", b"bad\n", 3)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("exec", "other", "--", "true"), "remote_shell.py other: the pod does not run"),
        (("exec", "w", "-c", "beside", "--", "true"), "remote_shell.py w: the pod does not run"),
        (("exec", "w", "--", "absent"), 'remote_shell.py w: exec: "absent": No such file or directory'),
        (("get", "pods"), "only `kubectl exec POD"),
    ],
)
async def test_what_is_not_possible_is_reported(replica, words, message):
    process = await kubectl(*words)
    _, errors = await process.communicate()
    assert process.returncode == 255
    assert message in errors.decode()


async def test_a_command_ends_with_its_caller(replica):
    process = await kubectl("exec", "w", "--", "sleep", "99")
    while not replica.programs:
        await asyncio.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    assert await replica.programs[0].wait() == 128 + signal.SIGKILL
    await process.communicate()


async def test_a_request_without_streams_is_refused(replica):
    path = Path(os.environ[remote_shell.VARIABLE])
    descriptor = os.open(path.parent, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, f"/proc/self/fd/{descriptor}/{SOCKET}")
        await asyncio.get_running_loop().sock_sendall(connection, b'{"pod": "w", "container": "", "command": []}\n')
        answer = await asyncio.get_running_loop().sock_recv(connection, 1000)
    os.close(descriptor)
    assert answer == b'{"error": "the request has no streams"}\n'


async def test_a_run_that_has_ended_is_reported(tmp_path, monkeypatch):
    monkeypatch.setenv(remote_shell.VARIABLE, str(tmp_path / SOCKET))
    process = await kubectl("exec", "w", "--", "true")
    _, errors = await process.communicate()
    assert process.returncode == 255
    assert f"the run does not answer at {tmp_path / SOCKET}" in errors.decode()
