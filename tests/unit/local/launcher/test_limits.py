"""Limits of processors and memory for processes of this machine."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from support.user_client import eventually
from trainshed.local.launcher.limits import Processors, exceeds
from trainshed.local.launcher.process_tree import by_parent, descendants, processes

MIB = 1 << 20
#: Takes 60 MiB, then has three children that share them, and waits.
SHARES = """
import os, time
held = bytearray(os.urandom(1) * (60 << 20))
if all(os.fork() for _ in range(3)):
    print("ready", flush=True)
time.sleep(60)
"""


def test_processors_are_spread():
    known = Processors(range(4))
    assert known.take(2.0) == [0, 1]
    assert known.take(1.5) == [2, 3]
    assert known.take(0.5) == [0]
    assert known.take(1) == [1]
    known.release([2, 3])
    assert known.take(2) == [2, 3]


def test_no_limit_takes_no_processors():
    known = Processors(range(4))
    assert [known.take(limit) for limit in (0, 4, 64)] == [[], [], []]
    assert Processors([]).take(1) == []


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_memory_that_processes_share_counts_once():
    with subprocess.Popen([sys.executable, "-c", SHARES], stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        pids = (process.pid, *descendants(process.pid, by_parent(processes())))
        assert len(pids) == 4
        assert not exceeds(pids, 120 * MIB)
        assert exceeds(pids, 50 * MIB)
        os.killpg(process.pid, 9)
    assert eventually(lambda: not exceeds(pids, 0)), "processes that have ended use nothing"
