"""The program in the container of `trainshed stacks` says what Python processes are doing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from trainshed import stack_dump

PROGRAM = """
import sys, threading
def wait_for_the_others():
    print("begun", flush=True)
    sys.stdin.read()
threading.Thread(target=threading.Event().wait, name="loader", daemon=True).start()
wait_for_the_others()
"""


@pytest.fixture
def rank():
    variables = os.environ | {"RANK": "3", "LOCAL_RANK": "1", "SECRET": "hunter2"}
    with subprocess.Popen(
        (sys.executable, "-c", PROGRAM), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


@pytest.mark.skipif(not Path("/proc/self/exe").exists() or os.geteuid() != 0, reason="reads /proc as root")
def test_a_rank_is_described_with_its_stacks_and_without_its_secrets(rank):
    assert rank.pid in stack_dump.python_processes()
    found = json.loads(json.dumps(stack_dump.describe(rank.pid)))
    assert (found["parent"], found["RANK"], found["LOCAL_RANK"]) == (os.getpid(), "3", "1")
    assert "hunter2" not in str(found)
    first, second = found["threads"]
    assert (first["main"], first["frames"][0][0], second["main"]) == (True, "wait_for_the_others", False)


@pytest.mark.parametrize(
    ("program", "error"),
    [
        ("", stack_dump.NO_PROGRAM),
        ("echo Permission denied >&2; exit 1", stack_dump.NO_RIGHT),
        ("echo no python here >&2; exit 1", "no python here"),
        ("echo [1]", "py-spy printed something else than stacks"),
        ("exec sleep 60", "could not be read within"),
    ],
)
def test_why_there_is_no_stack_is_said(tmp_path, monkeypatch, program, error):
    if program:
        (tmp_path / "py-spy").write_text(f"#!/bin/sh\n{program}\n")
        (tmp_path / "py-spy").chmod(0o700)
    monkeypatch.setattr(stack_dump, "SECONDS", 0.5)
    monkeypatch.setattr(stack_dump.shutil, "which", lambda *_, **__: str(tmp_path / "py-spy") if program else None)
    assert error in stack_dump.describe(os.getpid())["error"]


def test_long_names_do_not_fill_the_memory_of_the_reader(monkeypatch, capsys):
    monkeypatch.setattr(stack_dump, "python_processes", lambda _: range(10))
    monkeypatch.setattr(stack_dump, "describe", lambda pid: {"pid": pid, "command": "x" * 3_000_000})
    monkeypatch.setattr(sys, "argv", ["stack_dump"])
    stack_dump.main()
    *_, last = found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert ([process["pid"] for process in found[:-1]], last) == ([0, 1], {"left_out": 8})
