"""The output of `trainshed migrate`; tests/integration/test_migrate.py has its checks of a real API server."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner
from rich.console import Console

from support.builders import a_job, pods_of, running, seen
from trainshed.cli import cli
from trainshed.cli.migrate import Report, _print
from trainshed.cli.preflight import Check, JobForecast, Severity, State, dry_run, subject
from trainshed.config import Config

ROOT = Path(__file__).parents[3]


def printed(report: Report, capsys) -> list[str]:
    _print(Console(soft_wrap=True, highlight=False), report)
    return capsys.readouterr().out.splitlines()


def test_without_dry_run_the_steps_are_printed_and_the_cluster_is_not_read():
    result = CliRunner().invoke(cli, ["migrate", "--kubeconfig", "none"])
    assert result.exit_code == 0
    commands = [line.strip() for line in result.stdout.splitlines() if line.startswith("  ")]
    assert [command.split()[0] for command in commands] == ["trainshed", *["kubectl"] * 4, "trainshed"]
    assert (ROOT / "docs" / "switching.md").exists()


def test_a_cluster_that_cannot_be_read_is_an_error(tmp_path):
    result = CliRunner().invoke(cli, ["migrate", "--dry-run", "--kubeconfig", str(tmp_path / "none")])
    assert result.exit_code == 1
    assert f"cannot read the cluster: cannot read kubeconfig {tmp_path / 'none'}: " in result.stderr


def test_the_most_severe_job_is_last_and_followed_by_a_summary(capsys):
    job = a_job(worker=1)
    fine = dry_run(seen(job, *pods_of(job), status=running(job)))
    bad = JobForecast(subject(seen(job)), Severity.NEEDS_ATTENTION, ("[it] would fail",))
    settings = Config(flag_warnings=("--a is ignored: b",))
    found = Check(State.ACTION_REQUIRED, "v1 runs", "kubectl scale")
    lines = printed(Report((found,), settings, (fine, bad)), capsys)
    assert lines == [
        "Cluster",
        "  action required v1 runs",
        "                    kubectl scale",
        "  flag            --a is ignored: b",
        "",
        "Jobs",
        "  unchanged       TFJob ml/mnist (Running, 1 pod): no change",
        "  needs attention TFJob ml/mnist (Pending, 0 pods): [it] would fail",
        "",
        "2 jobs (unchanged: 1, needs attention: 1); cluster (error: 0, action required: 1). Nothing was written.",
    ]


def test_a_cluster_without_jobs_has_a_summary_too(capsys):
    lines = printed(Report((Check(State.ERROR, "w"),), Config(), ()), capsys)
    assert lines[-1] == "0 jobs; cluster (error: 1, action required: 0). Nothing was written."
