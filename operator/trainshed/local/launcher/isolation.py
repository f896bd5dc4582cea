"""How containers are isolated from each other: a session for each. The launcher uses it: only standard library."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .limits import limit_files
from .marks import Marks
from .process_tree import ROUND, ROUNDS, kill_descendants, kill_tree

Message = dict[str, Any]
#: The descriptors of the standard streams of a container; a single one is for its output and its errors.
Streams = Sequence[int]
#: The first of the 128 exit codes that mean a signal, and the code of a container that could not be started.
SIGNALLED, NOT_STARTED = 128, 127
#: prctl: a signal when the parent ends; orphaned grandchildren become children of this process.
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


class Isolation:
    """Each container is a session of its own, on the network and the files of this machine."""

    def __init__(self) -> None:
        self._marks = Marks()
        self._numbers: dict[int, int] = {}
        if sys.platform == "linux":
            prctl(PR_SET_CHILD_SUBREAPER, 1)

    def add(self, messages: Sequence[Message]) -> None:
        """Create sandboxes: there is nothing to do."""

    def remove(self, known: str) -> None:
        """Remove a sandbox: there is nothing to do."""

    def start(self, message: Message, streams: Streams) -> int:
        """Start a container; return the pid of its first process. Raises OSError."""
        number, launcher = self._marks.new(), os.getpid()

        def body() -> None:
            self._marks.put(number, message["env"])
            execute_with_parent(message, streams, launcher)

        pid = fork(body)
        self._numbers[pid] = number
        return pid

    def target(self, pid: int) -> int:
        """Return the process that gets the signals of a container."""
        return pid

    def kill(self, pid: int) -> None:
        """Kill a container: its session, and all descendants of its first process."""
        kill_tree(pid)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)

    def ended(self, pid: int) -> int:
        """Kill the session of a container that has ended; return the number by which `kill_left` names it."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        return self._numbers.pop(pid)

    def kill_left(self) -> frozenset[int]:
        """Kill what containers that have ended have left, also in other sessions; return those that had left some.

        What it finds has not ended yet, and may have started more meanwhile: only a call that finds nothing is the
        last.
        """
        return self._marks.kill_others({*self._numbers.values()})

    def kill_rest(self) -> None:
        """Kill all descendants of this process."""
        for _ in range(ROUNDS):
            if not kill_descendants(os.getpid()):
                return
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            select.select([], [], [], ROUND)


def fork(body: Callable[[], None]) -> int:
    """Run `body`, which replaces the process, in a child; return its pid. Raises the OSError of the child."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(reader)
        try:
            body()
        except (OSError, ValueError) as error:  # a ValueError is an argument that no program can have
            number = error.errno if isinstance(error, OSError) else errno.EINVAL
            os.write(writer, json.dumps([number, text_of(error)]).encode())
        finally:
            os._exit(NOT_STARTED)
    os.close(writer)
    with open(reader, "rb") as pipe:
        failed = pipe.read()
    if failed:
        os.waitpid(pid, 0)
        raise OSError(*json.loads(failed))
    return pid


def text_of(error: OSError | ValueError) -> str:
    """Return what an error says to the user, with the file that it is about."""
    text = (error.strerror if isinstance(error, OSError) else "") or str(error)
    return f"{error.filename}: {text}" if isinstance(error, OSError) and error.filename else text


def named(error: OSError, what: str) -> OSError:
    """Return an error that begins with what has failed; as it is, if it does so already."""
    return error if not error.filename else OSError(error.errno, f"{what}: {error.strerror}")


def execute_with_parent(message: Message, streams: Streams, parent: int) -> None:
    """Do what `execute` does, but let the kernel kill the process when its parent is killed, where it can."""
    if sys.platform == "linux":
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(NOT_STARTED)
    execute(message, streams)


def execute(message: Message, streams: Streams) -> None:
    """Replace the process with the program of a container; raises OSError with a message for the user."""
    with contextlib.suppress(PermissionError):
        os.setsid()
    if len(streams) == 1:
        streams = (os.open(os.devnull, os.O_RDONLY), streams[0], streams[0])
    for target, found in enumerate(streams):
        os.dup2(found, target)
        # dup2 does nothing with a stream that has this number already.
        os.set_inheritable(target, True)  # noqa: FBT003 - it has no name
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    if message.get("processors"):
        os.sched_setaffinity(0, message["processors"])
    limit_files(message["files"])
    try:
        os.chdir(message["cwd"])
    except OSError as error:
        raise OSError(error.errno, f"cannot use working directory {message['cwd']}: {error.strerror}") from error
    program = message["argv"][0]
    try:
        # The program of a container.
        os.execvpe(program, message["argv"], message["env"])  # noqa: S606 # nosec B606
    except OSError as error:
        raise OSError(error.errno, f'exec: "{program}": {error.strerror}') from error


def private(descriptors: Sequence[int]) -> list[int]:
    """Return descriptors that have come through a socket, which no program inherits any more."""
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - it has no name
    return [*descriptors]


def exit_code(status: int) -> int:
    """Return the exit code of a wait status, 128+n after signal n."""
    return SIGNALLED + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def children(pid: int) -> list[int]:
    """Return the children of a process, where /proc shows them."""
    with contextlib.suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def prctl(option: int, value: int) -> None:
    """Set an attribute of this process, as the system call prctl does."""
    import ctypes  # noqa: PLC0415 - only Linux needs it

    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
