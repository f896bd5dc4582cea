"""`trainshed adopt --dry-run`: what would become of a cluster's jobs if we took them over from training-operator v1."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from datetime import UTC, datetime

import click
from rich.console import Console
from rich.text import Text

from trainshed.cluster import ClusterError
from trainshed.cluster.census import Census
from trainshed.cluster.credentials import Credentials, NoCredentials, find
from trainshed.cluster.transport import Sockets
from trainshed.cluster.wire import Wire

from .foresight import Grade
from .premises import State
from .survey import Report, survey

HOW = """\
Adopting is nothing but starting Trainshed: it goes on with the jobs and the pods that it finds. In this order:

  trainshed adopt --dry-run                      what would change; nothing is written
  kubectl --namespace kubeflow scale deployment/training-operator --replicas=0
  kubectl delete validatingwebhookconfiguration validator.training-operator.kubeflow.org
  kubectl replace -f crds/                       never with --force, which deletes all jobs
  kubectl apply -k manifests/                    or manifests/overlays/v1, with v1's names
  trainshed adopt --dry-run                      is it all as it should be?

docs/switching.md says why, what else may happen, and how to go back."""
STATES = {State.FINE: "green", State.TO_DO: "yellow", State.WRONG: "bold red"}
GRADES = {
    Grade.SAME: ("as it is", "green"),
    Grade.GOES_ON: ("goes on", "yellow"),
    Grade.LOOK: ("look", "bold red"),
}


@click.command()
@click.option("--dry-run", is_flag=True, help="Look at the cluster and say what would change; nothing is written.")
@click.option("--kubeconfig", default="", help="Credentials outside of a cluster.")
@click.option("--context", default="", help="The context of the kubeconfig to use.")
@click.option("--namespace", default="", help="Look at the jobs of this namespace only.")
@click.argument("flags", nargs=-1)
def adopt(*, dry_run: bool, kubeconfig: str, context: str, namespace: str, flags: tuple[str, ...]) -> None:
    """Say what would become of a cluster's jobs if Trainshed took them over from training-operator v1.

    FLAGS, after --, are those that the operator would be started with; without any, those of v1's Deployment count.
    The exit code is 0 if nothing is wrong and no job wants a look, and 1 otherwise.
    """
    if not dry_run:
        click.echo(HOW)
        return
    try:
        report = asyncio.run(_look(find(kubeconfig, context), namespace, flags))
    except (NoCredentials, ClusterError, OSError) as error:
        raise click.ClickException(f"the cluster cannot be read: {error}") from error
    _print(Console(soft_wrap=True, highlight=False), report)
    sys.exit(0 if report.sound else 1)


async def _look(credentials: Credentials, namespace: str, flags: tuple[str, ...]) -> Report:
    wire = Wire(Sockets(credentials))
    try:
        now = datetime.now(UTC)  # noqa: TID251 - a look of its own, outside of the loop
        return await survey(Census(wire), namespace, flags, now)
    finally:
        await wire.close()


def _print(console: Console, report: Report) -> None:
    """The worst last: that is where one looks."""
    console.print(Text("The cluster", "bold"))
    for finding in report.findings:
        _line(console, finding.state, STATES[finding.state], finding.words)
        if finding.command:
            _line(console, "", "", f"  {finding.command}")
    for words in report.settings.passed_over:
        _line(console, "flag", "yellow", words)
    console.print(Text("\nThe jobs", "bold"))
    for outlook in report.outlooks:
        word, colour = GRADES[outlook.grade]
        _line(console, word, colour, str(outlook))
    console.print(Text(f"\n{_summary(report)}", "bold" if report.sound else "bold red"))


def _line(console: Console, word: str, colour: str, words: str) -> None:
    console.print(Text.assemble((f"  {word:<9}", colour), words))


def _summary(report: Report) -> str:
    count = Counter(outlook.grade for outlook in report.outlooks)
    told = ", ".join(f"{count[grade]} {word}" for grade, (word, _) in GRADES.items() if count[grade])
    jobs = f"{len(report.outlooks)} {'job' if len(report.outlooks) == 1 else 'jobs'}{': ' if told else ''}{told}"
    wrong = sum(finding.state is State.WRONG for finding in report.findings)
    to_do = sum(finding.state is State.TO_DO for finding in report.findings)
    rest = f"{wrong} wrong, {to_do} to do in the cluster" if wrong else f"{to_do} to do in the cluster"
    return f"{jobs}; {rest}. Nothing was written."
