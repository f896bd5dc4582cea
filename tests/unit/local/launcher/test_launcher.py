"""The launcher as a program of its own: what it reads and writes, and that it leaves no process behind."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.user_client import eventually
from trainshed.local.launcher import marks
from trainshed.local.launcher.marks import LIMIT
from trainshed.local.runtimes.launcher_client import PROGRAM

SOON = 300
#: The launcher, which waits for what a container has left however slow the machine is.
PATIENT = PROGRAM.replace("main()", f"sys.modules[main.__module__].LEFT = {SOON}; main()")
#: A replica that says which process it has left in a session of its own.
LEAVES = "setsid sh -c 'echo $$; exec sleep 99' & wait"
#: Signals process 1, which belongs to another user, as if it were a container; the number 0 does it no harm.
SIGNALS_ANOTHER_USER = """
import os, socket
from trainshed.local.launcher.isolation import Isolation
from trainshed.local.launcher.launcher import Launcher
launcher = Launcher(socket.socketpair()[0], Isolation(), 1024)
launcher._pids["container"] = 1
os.geteuid() or os.setuid(65534)
launcher._signal("container", 0)
"""


class Peer:
    """Speaks to a launcher that runs."""

    def __init__(self, near: socket.socket, process: subprocess.Popen[bytes]) -> None:
        self.socket, self.process = near, process
        self.lines = near.makefile("rb")
        assert self.read() == {"id": "launcher"}

    def read(self) -> dict:
        return json.loads(self.lines.readline())

    def start(self, known: str, script: str) -> int:
        """Start a container, and return the number that it prints first."""
        reader, writer = os.pipe()
        request = {"op": "start", "id": known, "argv": ["sh", "-c", script], "env": {**os.environ}, "cwd": "/"}
        socket.send_fds(self.socket, [_line({**request, "streams": 1})], [writer])
        os.close(writer)
        assert self.read().keys() == {"id", "pid"}
        with os.fdopen(reader, "rb") as output:
            return int(output.readline())

    def begin(self, known: str, script: str) -> int:
        """Start a container; return the descriptor of its output, from which is read what there is."""
        reader, writer = os.pipe2(os.O_NONBLOCK)
        request = {"op": "start", "id": known, "argv": ["sh", "-c", script], "env": {**os.environ}, "cwd": "/"}
        socket.send_fds(self.socket, [_line({**request, "streams": 1})], [writer])
        os.close(writer)
        return reader


@contextmanager
def launcher(prepare: str = "") -> Iterator[Peer]:
    near, far = socket.socketpair()
    near.settimeout(SOON)
    command = [sys.executable, "-I", "-S", "-c", prepare + PATIENT, "processes", str(far.fileno())]
    with near, subprocess.Popen(command, pass_fds=[far.fileno()], stderr=subprocess.PIPE) as process:
        far.close()
        try:
            yield Peer(near, process)
        finally:
            near.shutdown(socket.SHUT_RDWR)


def _line(message: dict) -> bytes:
    return json.dumps(message).encode() + b"\n"


def _runs(pid: int) -> bool:
    try:
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"", 0),
        (b'{"op": "start", "id": "2", "argv": ["tr', 0),
        (b"GET / HTTP/1.1\r\n\r\n", 1),
        (b"\xff\xfe\n", 1),
        (b"[]\n", 1),
        (b'{"op": "dance"}\n', 1),
        (b'{"op": "signal", "id": "1"}\n', 1),
        (_line({"op": "start", "id": "2", "argv": ["true"], "env": {}, "cwd": "/", "streams": 1}), 1),
    ],
    ids=["nothing", "half a message", "HTTP", "bytes", "no object", "no request", "a field too few", "no descriptor"],
)
@pytest.mark.skipif(sys.platform != "linux", reason="processes are found by /proc")
def test_a_run_that_goes_or_sends_garbage_leaves_no_process(sent, code):
    with launcher() as peer:
        left = peer.start("1", LEAVES)
        assert _runs(left)
        peer.socket.sendall(sent)
        peer.socket.shutdown(socket.SHUT_WR)
        assert peer.process.wait(SOON) == code, peer.process.stderr.read()
        eventually(lambda: not _runs(left))


def test_two_launchers_know_only_their_own_containers():
    with launcher() as one, launcher() as other:
        pids = [peer.start("1", "echo $$; exec sleep 99") for peer in (one, other)]
        assert len({*pids}) == 2
        one.socket.sendall(_line({"op": "signal", "id": "1", "number": signal.SIGTERM}))
        assert one.read() == {"exit": "1", "code": 128 + signal.SIGTERM, "reason": ""}
        one.socket.shutdown(socket.SHUT_RDWR)
        assert one.process.wait(SOON) == 0
        other.socket.sendall(_line({"op": "ping"}))
        assert other.read() == {"id": "ping"}
        os.kill(pids[1], 0)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found by /proc")
def test_all_processes_of_a_container_stop_and_go_on():
    with launcher() as peer:
        child = peer.start("1", "sh -c 'echo $$; exec sleep 99' & wait")
        for number, state in ((signal.SIGSTOP, "T"), (signal.SIGCONT, "S")):
            peer.socket.sendall(_line({"op": "signal", "id": "1", "number": number}))
            eventually(lambda state=state: f") {state} " in Path(f"/proc/{child}/stat").read_text())


def test_a_program_that_ends_at_once_is_answered_before_its_end():
    with launcher() as peer:
        for number in range(20):
            peer.start(str(number), "echo 1")
            assert peer.read() == {"exit": str(number), "code": 0, "reason": ""}


#: A process of a launcher that runs in a container.
INNER = """
import os, sys
sys.path.insert(0, {folder!r})
from trainshed.local.launcher.marks import Marks
env = {{**os.environ}}
Marks().put(7, env)
os.setsid()
os.execvpe("sleep", ["sleep", "99"], env)
"""
INNER = INNER.format(folder=str(Path(marks.__file__).parents[3]))
#: What containers leave when they end, or at SIGTERM.
UNLIMITED = f"import resource; resource.setrlimit({LIMIT}, (0, 0)); "
BEGUN = "echo begun; exec sleep 99"
HOPS = shlex.quote('[ "${1:-0}" -gt 2000 ] || setsid sh -c "$0" "$0" $((${1:-0} + 1)) & sleep 0.01')
LEFT = {
    "a session": f"setsid sh -c '{BEGUN}' & sleep 0.2",
    "a group, whose shell has a next command": f"(timeout 60 sh -c '{BEGUN}'; echo NEXT) & sleep 0.2",
    "groups of jobs": f"set -m; (sh -c '{BEGUN}'; echo NEXT) & sleep 0.2",
    "a child of an agent": "sh -c 'setsid sleep 99; echo NEXT' & sleep 0.2",
    "at SIGTERM": "sh -c 'setsid sleep 99; echo NEXT' & sleep 0.2; kill -TERM $$; sleep 1",
    "a daemon": "setsid sh -c 'setsid sh -c \"setsid sleep 99 & exit\" & exit' & sleep 0.2",
    "a program that forks all the time": "setsid sh -c 'while :; do sh -c \"sleep 0.01\"; done' & sleep 0.2",
    "a program that is another process all the time": f"setsid sh -c {HOPS} {HOPS} & sleep 0.2",
    "what a launcher in it has started": f"{shlex.quote(sys.executable)} -I -S -c {shlex.quote(INNER)} & sleep 0.5",
    "no variables": "env -i setsid sleep 99 & sleep 0.2",
    "no variables and no parent": "env -i setsid sh -c 'sleep 99 & exit' & sleep 0.2",
}


@pytest.mark.parametrize("limited", [True, False], ids=["", "where limits cannot be set"])
@pytest.mark.parametrize("left", LEFT)
@pytest.mark.skipif(sys.platform != "linux", reason="processes are found by /proc")
def test_what_a_container_has_started_has_ended_when_its_end_is_reported(left, limited):
    if not limited and left.startswith("no variables"):
        pytest.skip("then nothing shows whose it is")
    with launcher("" if limited else UNLIMITED) as peer:
        beside = peer.start("beside", "setsid sh -c 'echo $$; exec sleep 99' & wait")
        outputs = {str(number): peer.begin(str(number), LEFT[left]) for number in range(8)}
        while outputs:
            message = peer.read()
            if "exit" in message:
                output = outputs.pop(message["exit"])
                while text := os.read(output, 1000):  # it raises BlockingIOError while a process has the other end
                    assert b"NEXT" not in text
                os.close(output)
        assert _runs(beside), "another container goes on"


def test_it_imports_only_the_standard_library():
    program = PROGRAM.replace("main()", "print(*sorted(sys.modules))")
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], check=True, capture_output=True, text=True)
    others = {name for name in done.stdout.split() if name.partition(".")[0] not in sys.stdlib_module_names}
    assert all(
        name.startswith("trainshed.local.launcher") for name in others - {"__main__", "trainshed", "trainshed.local"}
    )
    assert not {"asyncio", "subprocess", "typing_extensions"} & {*done.stdout.split()}


def test_a_container_that_acts_as_another_user_does_not_end_the_launcher():
    subprocess.run([sys.executable, "-c", SIGNALS_ANOTHER_USER], check=True, timeout=SOON)
