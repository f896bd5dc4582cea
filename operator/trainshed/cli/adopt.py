"""`trainshed migrate --dry-run`: report what changes for each job when Trainshed replaces training-operator v1."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from datetime import UTC, datetime

import click
from rich.console import Console
from rich.text import Text

from trainshed.client import ApiError
from trainshed.client.client import Lister
from trainshed.client.credentials import Credentials, NoCredentials, find_credentials
from trainshed.client.transport import AiohttpTransport, RestClient

from .foresight import Grade
from .premises import State
from .survey import Report, survey

STEPS = """\
To migrate, stop training-operator v1 and start Trainshed: it takes over the existing jobs and pods. In this order:

  trainshed migrate --dry-run                    reports what will change; writes nothing
  kubectl --namespace kubeflow scale deployment/training-operator --replicas=0
  kubectl delete validatingwebhookconfiguration validator.training-operator.kubeflow.org
  kubectl replace -f crds/                       never with --force, which deletes all jobs
  kubectl apply -k manifests/                    or manifests/overlays/v1, with v1's names
  trainshed migrate --dry-run                    checks the result

docs/switching.md gives the reasons, other things to consider, and the way back."""
STATES = {State.OK: "green", State.ACTION_REQUIRED: "yellow", State.ERROR: "bold red"}
GRADES = {
    Grade.UNCHANGED: ("unchanged", "green"),
    Grade.WILL_CHANGE: ("will change", "yellow"),
    Grade.NEEDS_ATTENTION: ("needs attention", "bold red"),
}
#: The width of the first column, in characters.
COLUMN = max(map(len, (*STATES, *(word for word, _ in GRADES.values()))))


@click.command()
@click.option("--dry-run", is_flag=True, help="Report what will change, without writing anything to the cluster.")
@click.option("--kubeconfig", default="", help="Path of the kubeconfig file.")
@click.option("--context", default="", help="Context of the kubeconfig (default: its current context).")
@click.option(
    "--namespace", default="", help="Namespace of the jobs to check (default: all that the operator watches)."
)
@click.argument("flags", nargs=-1)
def migrate(*, dry_run: bool, kubeconfig: str, context: str, namespace: str, flags: tuple[str, ...]) -> None:
    """Preview the migration from training-operator v1.

    Without --dry-run, print the steps of the migration and exit. With it, report the state of the cluster and what
    will change for each job.

    FLAGS, after --, are the flags of the operator to be started (default: the flags of v1's Deployment). The exit code
    is 1 if the cluster is in an error state or a job needs attention, and 0 otherwise.
    """
    if not dry_run:
        click.echo(STEPS)
        return
    try:
        report = asyncio.run(_survey(find_credentials(kubeconfig, context), namespace, flags))
    except (NoCredentials, ApiError, OSError) as error:
        raise click.ClickException(f"cannot read the cluster: {error}") from error
    _print(Console(soft_wrap=True, highlight=False), report)
    sys.exit(0 if report.sound else 1)


async def _survey(credentials: Credentials, namespace: str, flags: tuple[str, ...]) -> Report:
    wire = RestClient(AiohttpTransport(credentials))
    try:
        now = datetime.now(UTC)  # noqa: TID251 - this command runs once, outside the operator and its clock
        return await survey(Lister(wire), namespace, flags, now)
    finally:
        await wire.close()


def _print(console: Console, report: Report) -> None:
    """Print the report, with the most severe jobs last: they stay visible above the prompt."""
    console.print(Text("Cluster", "bold"))
    for finding in report.findings:
        _line(console, finding.state, STATES[finding.state], finding.words)
        if finding.command:
            _line(console, "", "", f"  {finding.command}")
    for words in report.settings.passed_over:
        _line(console, "flag", "yellow", words)
    console.print(Text("\nJobs", "bold"))
    for outlook in report.outlooks:
        word, colour = GRADES[outlook.grade]
        _line(console, word, colour, str(outlook))
    console.print(Text(f"\n{_summary(report)}", "bold" if report.sound else "bold red"))


def _line(console: Console, word: str, colour: str, words: str) -> None:
    console.print(Text.assemble((f"  {word:<{COLUMN}} ", colour), words))


def _summary(report: Report) -> str:
    severities = Counter(outlook.grade for outlook in report.outlooks)
    counts = ", ".join(f"{word}: {severities[grade]}" for grade, (word, _) in GRADES.items() if severities[grade])
    jobs = f"{len(report.outlooks)} {'job' if len(report.outlooks) == 1 else 'jobs'}"
    states = Counter(finding.state for finding in report.findings)
    cluster = ", ".join(f"{state}: {states[state]}" for state in (State.ERROR, State.ACTION_REQUIRED))
    return f"{jobs}{f' ({counts})' if counts else ''}; cluster ({cluster}). Nothing was written."
