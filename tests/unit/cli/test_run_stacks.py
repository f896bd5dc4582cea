r"""SIGQUIT, which is Ctrl-\ on a terminal, makes `trainshed run` print what all ranks are doing."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from support.local_runs import Machine, a_job, permitted, until

RANK = """
import os, time
def load(): time.sleep(300)
def all_reduce(): time.sleep(300)
def train():
    print("begun", flush=True)
    load() if os.environ["RANK"] == "2" else all_reduce()
train()
"""


@pytest.fixture(params=["processes", "namespaces"])
def runtime(request) -> str:
    permitted(request.param)
    return request.param


def a_job_that_hangs() -> dict:
    """Return a job of four ranks, of which worker-1 does not join the others, and worker-2 runs no Python."""
    return a_job(f"if [ \"$RANK\" = 3 ]; then echo begun; sleep 300; else {sys.executable} -c '{RANK}'; fi", workers=3)


@pytest.mark.skipif(not Path("/proc/self/exe").exists() or os.geteuid() != 0, reason="reads /proc as root")
def test_a_rank_that_does_not_join_the_others_is_named(tmp_path, runtime):
    with Machine(tmp_path).start(a_job_that_hangs(), runtime=runtime) as process:
        try:
            until(process, "begun", times=4)
            process.send_signal(signal.SIGQUIT)
            lines = (line.rstrip("\n") for line in process.stdout if "SuccessfulCreate" not in line)
            shown = [next(lines) for _ in range(11)]
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate()
    assert shown == [
        "2 ranks are in all_reduce, worker-1 is in load. The others may be waiting for worker-1.",
        "2 ranks: master-0, worker-0",
        *("    all_reduce (<string>:4)", "    train (<string>:7)", "    <module> (<string>:8)"),
        "",
        "1 rank: worker-1",
        *("    load (<string>:3)", "    train (<string>:7)", "    <module> (<string>:8)"),
        "no stack of worker-2: no Python process runs in the container",
    ]
