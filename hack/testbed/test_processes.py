"""No process of the bed is lost sight of: not without its pid file, and not with its parent killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.processes import Process, strays, wait_for

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
NAME = Path(sys.executable).name
HEADLESS = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
ctypes.CDLL(None).pthread_exit(None)
"""
PARENT = """
import os, sys
from pathlib import Path
from testbed.processes import Process
process = Process("child", Path(sys.argv[1]))
process.start([sys.executable, "-c", "import time; time.sleep(60)"], tied=True)
print(process.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    started = Process("sleeper", tmp_path)
    started.start([*SLEEP, f"{tmp_path}/data"])
    yield started
    started.stop(signal.SIGKILL)


def test_it_is_started_once(process: Process) -> None:
    first = process.pid
    process.start(SLEEP)
    assert process.pid == first != 0


def test_it_is_gone_when_stop_returns(process: Process) -> None:
    pid = process.pid
    process.stop()
    assert process.pid == 0
    assert not Path(f"/proc/{pid}").exists()


def test_it_is_there_as_long_as_one_of_its_threads_is(tmp_path: Path) -> None:
    headless = Process("headless", tmp_path)
    headless.start([sys.executable, "-c", HEADLESS])
    pid = headless.pid
    assert wait_for(lambda: ") Z " in Path(f"/proc/{pid}/stat").read_text(), 10)
    assert headless.pid == pid
    headless.stop(signal.SIGKILL)
    assert not Path(f"/proc/{pid}").exists()


def test_a_pid_that_has_come_again_is_not_ours(process: Process, tmp_path: Path) -> None:
    other = Process("other", tmp_path)
    (tmp_path / "other.pid").write_text(f"{process.pid} 1")
    assert other.pid == 0
    other.stop()
    assert process.pid


def test_it_is_found_without_its_pid_file(process: Process, tmp_path: Path) -> None:
    pid = process.pid
    assert wait_for(lambda: strays({NAME}, tmp_path) == {pid: NAME}, 5)  # it begins before its command line is there
    assert strays({"etcd"}, tmp_path) == {}
    assert strays({NAME}, tmp_path / "elsewhere") == {}


def test_a_tied_one_dies_with_its_parent(tmp_path: Path) -> None:
    tests = str(Path(__file__).parents[1])
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": tests},
    )
    assert parent.stdout
    child = int(parent.stdout.readline())
    parent.kill()
    parent.communicate()
    assert wait_for(lambda: not _runs(child), 10)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
