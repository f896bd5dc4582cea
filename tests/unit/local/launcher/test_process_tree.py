"""A process is killed, and no other that has got its pid meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.second_user import only_root
from trainshed.local.launcher.process_tree import kill_if, kill_tree, processes, variables
from trainshed.local.run_folder import MARK, kill_marked

LAST_PID = Path("/proc/sys/kernel/ns_last_pid")
SLEEP = ("sleep", "60")
#: A shell that waits for its first child of many: while the others are killed it would print another line.
SHELL = "sleep 60 & first=$!; for i in $(seq 200); do sleep 60 & done; echo begun; wait $first; echo over"


def with_pid(pid: int) -> subprocess.Popen[bytes]:
    """Start a process that gets this pid, which is free."""
    for _ in range(50):  # others of this machine may start processes too
        LAST_PID.write_text(str(pid - 1))
        process = subprocess.Popen(SLEEP)
        if process.pid == pid:
            return process
        process.kill()
        process.wait()
    pytest.skip("no process has got the pid that was wanted")


@only_root
@pytest.mark.skipif(not LAST_PID.exists(), reason="the kernel does not let a test choose pids")
def test_a_process_that_gets_the_pid_of_one_that_has_ended_is_not_killed():
    meant = subprocess.Popen(SLEEP)
    found: list[subprocess.Popen[bytes]] = []

    def ends(pid: int) -> bool:
        """Let another process have the pid, and say that the first one is meant."""
        meant.kill()
        meant.wait()
        found.append(with_pid(pid))
        return True

    kill_if(meant.pid, ends)
    with found[0] as other:
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(0.3)
        other.kill()


@pytest.mark.parametrize("is_meant", [True, False])
def test_a_process_is_killed_if_it_is_meant(is_meant):
    with subprocess.Popen(("cat",), stdin=subprocess.PIPE) as process:
        kill_if(process.pid, lambda pid: is_meant and pid == process.pid)
        assert process.stdin is not None
        process.stdin.close()
        assert (process.wait() != 0) is is_meant


@pytest.mark.parametrize("kill", [kill_tree, lambda pid: kill_marked("a-run")])
def test_a_shell_does_not_go_on_when_the_program_that_it_waits_for_is_killed(kill):
    with subprocess.Popen(("sh", "-c", SHELL), stdout=subprocess.PIPE, env=os.environ | {MARK: "a-run"}) as shell:
        assert shell.stdout is not None
        assert shell.stdout.readline() == b"begun\n"
        kill(shell.pid)
        assert shell.stdout.read() == b"", "the end of the output is that of all descendants"


#: Begins another program all the time; and one that also starts others, in sessions of their own.
EXECUTES = 'exec sh -c "$0" "$0"'
FORKS = "for i in $(seq 2000); do setsid sh -c 'sleep 0.01'; done"


@pytest.mark.skipif(sys.platform != "linux", reason="variables are found by /proc")
def test_a_process_that_begins_another_program_is_not_one_without_variables():
    with subprocess.Popen(("sh", "-c", EXECUTES, EXECUTES), env={"A": "1", "PATH": os.defpath}) as process:
        seen = [variables(process.pid) for _ in range(5_000)]
        process.kill()
    assert None in seen
    assert all(b"A=1" in found for found in seen if found is not None)


@pytest.mark.skipif(sys.platform != "linux", reason="variables are found by /proc")
def test_processes_without_variables_have_none():
    with subprocess.Popen(SLEEP, env={}) as process:
        assert variables(process.pid) == []
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(ProcessLookupError):
            variables(process.pid)
    with pytest.raises(ProcessLookupError):
        variables(process.pid)
    assert variables(2) == [], "one of the kernel"


@pytest.mark.skipif(sys.platform != "linux", reason="variables are found by /proc")
def test_nothing_is_left_of_a_run_that_starts_processes_all_the_time():
    mark = {MARK: "a-run-that-forks"}
    shells = [subprocess.Popen(("sh", "-c", FORKS), env=os.environ | mark, start_new_session=True) for _ in range(8)]
    kill_marked("a-run-that-forks")
    for shell in shells:
        shell.wait()
    wanted = b"=".join(word.encode() for item in mark.items() for word in item)
    assert not [pid for pid in processes() if wanted in known_variables(pid)]


def known_variables(pid: int) -> list[bytes]:
    """The variables of a process, none if it ends meanwhile."""
    try:
        return variables(pid) or []
    except ProcessLookupError:
        return []
