"""Commands that are run in replicas through the socket of a run."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from support.second_user import as_nobody, only_root, open_folder
from trainshed.local.node import remote_shell
from trainshed.local.node.exec_server import SOCKET, ExecServer
from trainshed.local.runtimes.protocol import StartFailed

SECRET = "0123"
#: Runs a command in the replica `w`, and prints the answer.
CALL = """
request = {"pod": "w", "container": "", "command": ["true"], "secret": sys.argv[2]}
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(sys.argv[1])
    streams = array.array("i", [0, 1, 2])
    content = json.dumps(request).encode() + b"\\n"
    connection.sendmsg([content], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
    print(connection.makefile().readline())
"""


class Program:
    """Implements `trainshed.local.runtimes.protocol.Process`."""

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
    server = serve(folder, found)
    os.environ[remote_shell.VARIABLE] = str(folder / SOCKET)
    os.environ[remote_shell.SECRET] = SECRET
    yield found
    del os.environ[remote_shell.VARIABLE], os.environ[remote_shell.SECRET]
    await server.close()


def serve(folder: Path, replica: Replica, *, in_containers: bool = False) -> ExecServer:
    """Start the server of a replica `w`."""

    def find(pod: str, container: str) -> Replica | None:
        return replica if (pod, container) == ("w", "") else None

    server = ExecServer(folder, find, SECRET, in_containers=in_containers)
    server.start()
    return server


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


GOOD = {"pod": "w", "container": "", "command": ["true"], "secret": "0123"}


@pytest.mark.parametrize(
    ("request_", "streams", "problem"),
    [
        (GOOD, 0, "the request has no streams"),
        *(
            (wrong, 3, "the request is no command for a replica")
            for wrong in ([], None, "x", {}, GOOD | {"command": []}, GOOD | {"command": [1]}, GOOD | {"pod": ["w"]})
        ),
    ],
)
async def test_what_is_no_request_is_refused_and_the_run_goes_on(replica, request_, streams, problem):
    faults = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: faults.append(context))
    path = Path(os.environ[remote_shell.VARIABLE])
    descriptor = os.open(path.parent, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(f"/proc/self/fd/{descriptor}/{SOCKET}")
        socket.send_fds(connection, [json.dumps(request_).encode() + b"\n"], [0] * streams)
        connection.setblocking(False)
        answer = await asyncio.get_running_loop().sock_recv(connection, 1000)
    os.close(descriptor)
    await asyncio.sleep(0)
    gc.collect()
    assert (json.loads(answer or "{}"), faults) == ({"error": problem}, [])


async def test_a_run_that_has_ended_is_reported(tmp_path, monkeypatch):
    monkeypatch.setenv(remote_shell.VARIABLE, str(tmp_path / SOCKET))
    process = await kubectl("exec", "w", "--", "true")
    _, errors = await process.communicate()
    assert process.returncode == 255
    assert f"the run does not answer at {tmp_path / SOCKET}" in errors.decode()


@only_root
@pytest.mark.parametrize(
    ("in_containers", "secret", "answer"),
    [
        (False, SECRET, "the run is another user's"),
        (True, "guessed", "the request does not have the secret of the run"),
        (True, "\u00e9", "the request does not have the secret of the run"),
        (True, SECRET, '{"code": 0}'),
    ],
)
async def test_another_user_runs_a_command_only_with_the_secret_and_where_replicas_are_containers(
    in_containers, secret, answer
):
    replica = Replica()
    with open_folder() as folder:
        server = serve(folder, replica, in_containers=in_containers)
        (folder / SOCKET).chmod(0o666)
        text = await asyncio.to_thread(as_nobody, CALL, folder / SOCKET, secret)
        await server.close()
    assert answer in text
    assert len(replica.programs) == ("code" in answer)


async def test_a_process_of_the_same_user_needs_the_secret(replica, monkeypatch):
    monkeypatch.setenv(remote_shell.SECRET, "guessed")
    process = await kubectl("exec", "w", "--", "true")
    _, errors = await process.communicate()
    assert "the request does not have the secret of the run" in errors.decode()
    assert not replica.programs
