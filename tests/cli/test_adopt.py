"""Adopting says what to do; what a look at a cluster says is tested on a real API server."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner
from rich.console import Console

from make import a_job, pods_of, running, seen
from trainshed.cli import cli
from trainshed.cli.adopt import _print
from trainshed.cli.foresight import Grade, Outlook, foresee
from trainshed.cli.premises import Finding, State
from trainshed.cli.survey import Report
from trainshed.settings import Settings

ROOT = Path(__file__).parents[2]


def printed(report: Report, capsys) -> list[str]:
    _print(Console(soft_wrap=True, highlight=False), report)
    return capsys.readouterr().out.splitlines()


def test_without_dry_run_it_says_what_to_run_and_touches_nothing():
    result = CliRunner().invoke(cli, ["adopt", "--kubeconfig", "none"])
    assert result.exit_code == 0
    commands = [line.strip() for line in result.stdout.splitlines() if line.startswith("  ")]
    assert [command.split()[0] for command in commands] == ["trainshed", *["kubectl"] * 4, "trainshed"]
    assert (ROOT / "docs" / "switching.md").exists()


def test_a_cluster_that_cannot_be_read_is_said_and_fails(tmp_path):
    result = CliRunner().invoke(cli, ["adopt", "--dry-run", "--kubeconfig", str(tmp_path / "none")])
    assert result.exit_code == 1
    assert "the cluster cannot be read: " in result.stderr


def test_the_worst_stands_last_and_the_sum_below_it(capsys):
    job = a_job(worker=1)
    fine = foresee(seen(job, *pods_of(job), status=running(job)))
    bad = Outlook(seen(job), Grade.LOOK, ("[it] would fail",))
    told = Settings(passed_over=("--a is passed over: b",))
    found = Finding(State.TO_DO, "v1 runs", "kubectl scale")
    lines = printed(Report((found,), told, (fine, bad)), capsys)
    assert lines == [
        "The cluster",
        "  to do    v1 runs",
        "             kubectl scale",
        "  flag     --a is passed over: b",
        "",
        "The jobs",
        "  as it is TFJob ml/mnist (Running, 1 pod): goes on as it is",
        "  look     TFJob ml/mnist (New, 0 pods): [it] would fail",
        "",
        "2 jobs: 1 as it is, 1 look; 1 to do in the cluster. Nothing was written.",
    ]


def test_no_jobs_at_all_are_said(capsys):
    lines = printed(Report((Finding(State.WRONG, "w"),), Settings(), ()), capsys)
    assert lines[-1] == "0 jobs; 1 wrong, 0 to do in the cluster. Nothing was written."
