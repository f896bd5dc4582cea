"""Processes and their descendants, and how one is killed and no other. The launcher uses it: only standard library."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

#: The flag of a process of the kernel, of which /proc/PID/stat tells (proc(5)), and where that has its variables.
PF_KTHREAD, OF_KERNEL = 0x200000, -1
#: Rounds of killing what is left; each kills all, so that more than one is only needed against fork bombs. Seconds
#: between two.
ROUNDS, ROUND = 50, 0.02


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """The parent of a process, and when it began, in ticks since the start of the machine."""

    parent: int
    began: int


def visit(examine: Callable[[Sequence[int]], bool]) -> None:
    """Call `examine` with the pids of all processes, in order, where /proc shows them.

    A list is old at once: one that has ended before it was examined may have started another. So `examine` returns
    whether it has met such a one, and gets the pids that are new then.
    """
    seen: set[int] = set()
    for _ in range(ROUNDS):
        names = os.listdir("/proc") if os.path.isdir("/proc/self") else ()  # noqa: PTH112, PTH208 - as `isolation`
        new = {int(name) for name in names if name.isdecimal()} - seen
        if not new or not examine(sorted(new)):
            return
        seen |= new


def processes() -> dict[int, ProcessStat]:
    """Return all processes by their pids, where /proc shows them."""
    known: dict[int, ProcessStat] = {}

    def examine(pids: Sequence[int]) -> bool:
        found = {pid: process for pid in pids if (process := process_of(pid))}
        known.update(found)
        return len(found) < len(pids)

    visit(examine)
    return known


def process_of(pid: int) -> ProcessStat | None:
    """Return a process, where /proc shows it; None if it has ended."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return None if fields[0] == b"Z" else ProcessStat(int(fields[1]), int(fields[19]))
    return None


def variables(pid: int) -> list[bytes] | None:
    """Return the variables that a process of this user has begun with, where /proc shows them, such as `A=1`.

    None while it begins another program: then the kernel shows it without any for a moment. Raises ProcessLookupError
    if it has ended.
    """
    try:
        before = _variables_at(pid)
        if before == OF_KERNEL:
            return []
        if found := Path(f"/proc/{pid}/environ").read_bytes():
            return found.split(b"\0")
        return None if before == 0 or _variables_at(pid) != before else []
    except FileNotFoundError as error:
        raise ProcessLookupError(error.errno, error.strerror) from error
    except PermissionError:
        return []


def _variables_at(pid: int) -> int:
    """Return where a process has its variables; 0 while it begins another program."""
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    if fields[0] == b"Z":
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
    return OF_KERNEL if int(fields[6]) & PF_KTHREAD else int(fields[47])


def pids_of(pid: int) -> list[int]:
    """Return the pids that a process has, from the namespace of /proc inwards; none if it has ended."""
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
        return [int(word) for line in lines if line.startswith("NSpid:") for word in line.split()[1:]]
    return []


def by_parent(known: Mapping[int, ProcessStat]) -> dict[int, list[int]]:
    """Return the children of processes by the pid of their parents."""
    tree: dict[int, list[int]] = {}
    for pid, process in known.items():
        tree.setdefault(process.parent, []).append(pid)
    return tree


def descendants(pid: int, tree: Mapping[int, Sequence[int]]) -> list[int]:
    """Return the descendants of a process, parents before their children."""
    found: list[int] = []
    queue = [pid]
    while queue:
        children = tree.get(queue.pop(), [])
        found += children
        queue += children
    return found


def descends(pid: int, ancestor: int) -> bool:
    """Return whether a process that runs is a descendant of another one."""
    while process := process_of(pid):
        pid = process.parent
        if pid == ancestor:
            return True
    return False


def parents_first(known: Mapping[int, ProcessStat | None]) -> list[int]:
    """Return processes in the order in which they have begun; those that have ended come first."""
    return sorted(known, key=lambda pid: (process.began if (process := known[pid]) else 0, pid))


def _began(process: ProcessStat | None) -> int | None:
    return process.began if process else None


def kill_descendants(pid: int) -> bool:
    """Kill the descendants of a process, also if they lose their parents meanwhile; return whether it had some."""
    known = processes()
    found = descendants(pid, by_parent(known))
    kill_known(found, known)
    return bool(found)


def kill_tree(pid: int) -> None:
    """Kill a child of this process that has not been waited for, and its descendants.

    Parents are killed first: a shell whose program is killed before it would run its next command.
    """
    known = processes()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
    kill_known(descendants(pid, by_parent(known)), known)


def kill_known(pids: Iterable[int], known: Mapping[int, ProcessStat]) -> None:
    """Kill processes in this order, but none that has begun since they were looked at."""
    for pid in pids:
        kill_if(pid, lambda pid: _began(process_of(pid)) == known[pid].began)


def kill_if(pid: int, is_meant: Callable[[int], bool]) -> None:
    """Kill a process of this user if it is the one that is meant.

    A pid may become another process's after one has looked at it. So the process is opened before `is_meant` looks,
    and that very one is killed; not on macOS and old kernels, which cannot do that.
    """
    handle: int | None = None
    if hasattr(os, "pidfd_open"):
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        except OSError:  # an old kernel, or too many open files
            handle = None
    try:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if is_meant(pid):
                if handle is None:
                    os.kill(pid, signal.SIGKILL)
                else:
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
    finally:
        if handle is not None:
            os.close(handle)


def kill_found(wanted: Callable[[int], int | None]) -> frozenset[int | None]:
    """Kill the processes for which `wanted` returns a number that is not 0, parents first; return these numbers.

    None, also in what is returned, means that it is not known yet. What it finds has not ended when it returns, and may
    have started more: only a call that finds nothing is the last. `wanted` may raise ProcessLookupError.
    """
    left: set[int | None] = set()

    def examine(pids: Sequence[int]) -> bool:
        found: dict[int, int] = {}
        any_has_ended = False
        for pid in pids:
            try:
                number = wanted(pid)
            except ProcessLookupError:
                any_has_ended = True
                continue
            if number is None:
                left.add(None)
            elif number:
                found[pid] = number
        known = {pid: process_of(pid) for pid in found}
        left.update(found[pid] for pid, process in known.items() if process)
        for pid in parents_first(known):
            kill_if(pid, lambda pid: wanted(pid) == found[pid])
        return any_has_ended or bool(found)

    visit(examine)
    return frozenset(left)
