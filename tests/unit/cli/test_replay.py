"""`trainshed replay` of a run on this machine: all of it, a time, a pod, and what this version would decide."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from support.builders import a_job, seen
from support.decided import FAILED, RUNS
from support.replace import replace
from trainshed import plan as planner
from trainshed.api.actions import Plan, Snapshot
from trainshed.cli import cli
from trainshed.decisions.recording import FILE
from trainshed.local import decision_log
from trainshed.local.decision_log import DecisionLog

OTHER = seen(replace(a_job(worker=1, name="other"), uid="uid-2"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a run that has kept decisions about two jobs."""
    log = DecisionLog(tmp_path, print)
    for snapshot in RUNS, RUNS, FAILED, OTHER:
        log.on_decision(snapshot, planner.plan(snapshot))
    log.close()
    log.on_decision(RUNS, planner.plan(RUNS))
    return tmp_path


def replay(*words: object) -> tuple[int, str]:
    """Run the command; return its exit code and output."""
    result = CliRunner().invoke(cli, ["replay", *map(str, words)])
    return result.exit_code, result.output


def test_replay_prints_a_run_step_by_step(folder: Path):
    code, said = replay("mnist", "--run", folder)
    assert code == 0
    assert said.startswith("PyTorchJob ml/mnist: ")
    assert "  fact   container pytorch of pod mnist-worker-1 has ended with exit code 137 (OOMKilled)\n" in said
    assert "  rule   restart: Restart the failed replicas" in said
    assert replay("--run", folder) == (
        1,
        "Error: name one of the jobs whose decisions are kept: pytorchjob/mnist, tfjob/other\n",
    )
    assert "TFJob ml/other: 1 decision," in replay("tfjob/other", "--run", folder)[1]


def test_a_pod_and_a_time_are_chosen(folder: Path):
    _, said = replay("mnist", "--run", folder, "--pod", "mnist-worker-1")
    assert "decision 1\n" not in said
    assert "deleted mnist-worker-1 at 2026-01-01 12:01:01Z by the rule restart: " in said.splitlines()[-1]
    assert "no decision is about that pod" in replay("mnist", "--run", folder, "--pod", "x")[1]
    _, said = replay("mnist", "--run", folder, "--pod", "mnist-worker-1", "-o", "json")
    found = json.loads(said)
    assert [step["rule"] for step in found["steps"]] == ["restart"]
    assert len(found["deleted"]) == 1
    for time in "2026-01-01T12:00:30Z", "2026-01-01 12:00:30", "12:00:30", "12:00":
        code, said = replay("mnist", "--run", folder, "--at", time)
        assert (code, said.count("decision ")) == (0, 1), said
        assert "decision 1" in said
    for time, problem in (
        ("25:00", "hour must be"),
        ("soon", "is no time"),
        ("11:00", "the first decision that is kept"),
    ):
        code, said = replay("mnist", "--run", folder, "--at", time)
        assert (code != 0, problem in said) == (True, True)
    assert "there is none" in replay("mnist", "--run", folder, "--at", "12:00", "--pod", "x")[1]


def test_another_version_is_compared(folder: Path, monkeypatch: pytest.MonkeyPatch):
    code, said = replay("mnist", "--run", folder, "--with-this-version")
    assert (code, said.splitlines()[1].endswith("decided otherwise: 0")) == (0, True)

    def other(snapshot: Snapshot) -> Plan:
        plan = planner.plan(snapshot)
        return replace(plan, rule="fail", actions=()) if plan.rule == "restart" else plan

    monkeypatch.setattr("trainshed.decisions.again.decide_again", other)
    code, said = replay("mnist", "--run", folder, "--with-this-version")
    assert code == 3
    assert "by restart\n  this version: by fail\n  actions then: " in said
    code, said = replay("mnist", "--run", folder, "--with-this-version", "-o", "json")
    (one,) = json.loads(said)["otherwise"]
    assert (code, one["then"]["rule"], one["now"]["rule"]) == (3, "restart", "fail")


def test_what_no_planner_has_seen_is_said_to_fail_and_does_not_act_on_a_terminal(folder: Path):
    """Who may write the record of a job may change what is in it."""
    first, *others = (folder / FILE).read_bytes().splitlines()
    changed = json.loads(first)
    changed["saw"] |= {"pods": [], "status": {}}  # so that pods are to be made of the template
    changed["saw"]["job"]["groups"][0]["template"]["spec"] = "text"
    changed |= {"rule": "\x1b[31mred", "plan": {"\x1b[2J": 1}}
    changed["of"] |= {"version": "\x1b[1m9", "name": "mnist\x1b[5m"}
    (folder / FILE).write_bytes(b"\n".join((json.dumps(changed).encode(), *others, b"")))
    code, said = replay("mnist\x1b[5m", "--run", folder, "--with-this-version")
    assert (code, "\x1b" in said) == (3, False)
    assert "version 9 by red\n  this version: it cannot plan what is recorded: " in said
    code, said = replay("mnist\x1b[5m", "--run", folder, "--with-this-version", "-o", "json")
    assert (code, "cannot plan" in json.loads(said)["otherwise"][0]["failure"]) == (3, True)


def test_what_is_no_run_is_said(folder: Path, tmp_path: Path):
    assert "name the job, or the folder of a run" in replay()[1]
    assert "--run is about no cluster" in replay("mnist", "--run", folder, "-n", "ml")[1]
    assert "cannot read kubeconfig" in replay("mnist", "--kubeconfig", tmp_path / "none")[1]
    assert "has no decisions.jsonl" in replay("--run", tmp_path / "x")[1]
    (folder / FILE).write_bytes(b"torn")
    said = "Error: there is no decision that can be read: none was recorded, or the file is damaged\n"
    assert replay("--run", folder) == replay("mnist", "--run", folder) == (1, said)
    os.truncate(folder / FILE, (256 << 20) + 1)
    assert "too large" in replay("--run", folder)[1]


def test_a_full_disk_or_a_long_run_ends_the_log_and_not_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    said: list[str] = []
    monkeypatch.setattr(decision_log, "MOST_BYTES", 100)
    full = DecisionLog(tmp_path, said.append)
    full.on_decision(RUNS, planner.plan(RUNS))
    full.on_decision(FAILED, planner.plan(FAILED))
    assert said == ["note: decisions are no longer kept in decisions.jsonl: they have 0 MiB"]
    assert (tmp_path / FILE).read_bytes() == b""
    monkeypatch.undo()
    (tmp_path / "other").mkdir()
    broken = DecisionLog(tmp_path / "other", said.append)
    os.close(broken._file or 0)
    broken._file = os.open(tmp_path / FILE, os.O_RDONLY)  # which cannot be written
    broken.on_decision(RUNS, planner.plan(RUNS))
    assert "Bad file descriptor" in said[-1]
