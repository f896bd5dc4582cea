"""`trainshed replay`: why the operator did what it did to a job, decision by decision."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import click

from trainshed.api.foreign_text import one_line
from trainshed.client.job_reader import NoSuchJob
from trainshed.decisions import again
from trainshed.decisions.recording import Decision, Recording, recordings
from trainshed.decisions.ring_reader import GO_WITH_IT, read_recording
from trainshed.decisions.steps import NONE_ABOUT_POD, Step, about_pod, as_json, clock, steps, why_deleted
from trainshed.plan.messages.phrases import plural

from .connection import Cluster, ClusterOptions, cluster_options, run
from .job_names import JOB
from .kept_runs import decision_lines

#: A time of day, and a time as the output and RFC 3339 have it.
TIME_OF_DAY = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?Z?")
#: The exit code if the installed version would decide otherwise.
OTHERWISE = 3


@click.command()
@click.argument("job", type=JOB, default="")
@cluster_options
@click.option("--run", "folder", type=click.Path(path_type=Path), help="A job that trainshed run has run: its folder.")
@click.option(
    "--at", default="", metavar="TIME", help="The decision that held then: RFC 3339, or a time of day in UTC."
)
@click.option("--pod", default="", metavar="NAME", help="Only what is about this pod: why was it deleted?")
@click.option("--with-this-version", is_flag=True, help="Where the installed version would decide otherwise.")
@click.option("-o", "--output", type=click.Choice(("text", "json")), default="text", help="Form.")
def replay(  # noqa: PLR0913 - options of the command
    job: str,
    *,
    options: ClusterOptions,
    folder: Path | None,
    at: str,
    pod: str,
    with_this_version: bool,
    output: str,
) -> None:
    """Show what the operator decided about a job, and why: what it saw, which rule applied, what it did.

    The decisions are those that the operator has recorded, or a run on this machine in its folder. Values of variables,
    commands and arguments are not in them. With --with-this-version the exit code is 3 if a decision would be another
    one.
    """
    if not job and folder is None:
        raise click.UsageError("name the job, or the folder of a run: --run FOLDER")
    if folder and options != ClusterOptions("", "", ""):
        raise click.UsageError("--run is about no cluster: leave out --namespace, --context and --kubeconfig")

    def show(found: Recording) -> int:
        return _show_others(found, output) if with_this_version else _show(found, at, pod, output)

    if folder is None:
        run(options, lambda cluster: _of_cluster(cluster, job, show))
        return
    try:
        found = chosen(recordings(decision_lines(folder)), job)
    except (NoSuchJob, OSError) as error:
        raise click.ClickException(one_line(str(error))) from error
    raise SystemExit(show(found))


async def _of_cluster(cluster: Cluster, name: str, show: Callable[[Recording], int]) -> int:
    """Show the decisions about a job that the operator has recorded."""
    try:
        job, _ = await cluster.reader.find(cluster.namespace, name)
    except NoSuchJob as error:
        raise NoSuchJob(f"{error}; {GO_WITH_IT}") from error
    return show(await read_recording(cluster.reader, job))


def _show(found: Recording, at: str, pod: str, output: str) -> int:
    all_steps = [*steps(found.decisions)]
    selected = about_pod(all_steps, pod) if pod else all_steps
    if at:
        selected = _in_force(selected, _time(at, all_steps[0].time))
    answers = why_deleted(found.decisions, pod) if pod else []
    if output == "json":
        click.echo(json.dumps({"steps": [*map(as_json, selected)], "deleted": answers}, indent=2))
        return 0
    for line in text(found, selected, answers):
        click.echo(line)
    return 0


def _show_others(found: Recording, output: str) -> int:
    others = [*again.differences(found.decisions)]
    for line in _others_as_json(others) if output == "json" else _others(found, others):
        click.echo(line)
    return OTHERWISE if others else 0


def chosen(found: Sequence[Recording], name: str) -> Recording:
    """Return the recording of the job with this name, or the only one; raises `NoSuchJob`."""
    named = [one for one in found if name in ("", one.name, f"{one.kind.lower()}/{one.name}")]
    if len(named) == 1:
        return named[0]
    if not found:
        raise NoSuchJob("there is no decision that can be read: none was recorded, or the file is damaged")
    known = ", ".join(f"{one.kind.lower()}/{one.name}" for one in islice(found, 10))
    raise NoSuchJob(f"name one of the jobs whose decisions are kept: {known}")


def _time(written: str, first: datetime) -> datetime:
    """Return the time that a user means; a time of day is on the day of the first decision, to its last second."""
    if parts := TIME_OF_DAY.fullmatch(written):
        hour, minute, second = (int(part or 59) for part in parts.groups())
        try:
            return first.replace(hour=hour, minute=minute, second=second, microsecond=999_999)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--at") from error
    try:
        time = datetime.fromisoformat(written)
    except ValueError as error:
        message = f"{written!r} is no time: write it like 2026-01-31T10:20:30Z or 10:20:30"
        raise click.BadParameter(message, param_hint="--at") from error
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _in_force(found: Sequence[Step], time: datetime) -> list[Step]:
    """Return the last step that is not later than a time."""
    before = [step for step in found if step.time <= time]
    if not before:
        message = f"the first decision that is kept was made at {clock(found[0].time)}" if found else "there is none"
        raise click.ClickException(message)
    return before[-1:]


def text(recording: Recording, found: Sequence[Step], answers: Sequence[str]) -> Iterator[str]:
    """Yield the lines about steps of a recording, and the answers about a pod."""
    yield _head(recording)
    for step in found:
        yield ""
        yield f"{clock(step.time)}  decision {step.n}"
        for title, sentences in (("note", step.notes), ("fact", step.facts)):
            yield from (f"  {title:<6} {one_line(sentence)}" for sentence in sentences)
        yield f"  rule   {one_line(step.rule)}: {one_line(step.why)}"
        yield from (f"  action {one_line(sentence)}" for sentence in step.actions)
    if answers:
        yield ""
        yield from map(one_line, answers)
    elif not found:
        yield NONE_ABOUT_POD


def _head(recording: Recording) -> str:
    job = f"{recording.kind} {recording.namespace}/{recording.name}"
    return f"{one_line(job)}: {_span(recording.decisions)}"


def _span(decisions: Sequence[Decision]) -> str:
    return f"{plural(len(decisions), 'decision')}, {clock(decisions[0].time)} to {clock(decisions[-1].time)}"


def _others(recording: Recording, others: Sequence[again.Otherwise]) -> Iterator[str]:
    known = sum(one.saw is not None for one in recording.decisions)
    yield _head(recording)
    yield f"planned again by this version: {known}, decided otherwise: {len(others)}"
    for one in others:
        decision = one.decision
        yield ""
        then = f"version {decision.version or '?'} by {decision.rule}"
        yield f"{clock(decision.time)}  decision {decision.n}: {one_line(then)}"
        yield f"  this version: {one_line(one.failure) if one.failure else f'by {one.rule}'}"
        for part in one.parts:
            if part != "rule":
                yield one_line(f"  {part} then: {json.dumps(decision.plan.get(part))}")
                yield one_line(f"  {part} now:  {json.dumps(one.plan.get(part))}")


def _others_as_json(others: Sequence[again.Otherwise]) -> Iterator[str]:
    found = [
        {"n": one.decision.n, "time": one.decision.time.isoformat(), "version": one.decision.version}
        | {"then": {"rule": one.decision.rule, **one.decision.plan}, "now": {"rule": one.rule, **one.plan}}
        | ({"failure": one_line(one.failure)} if one.failure else {})
        for one in others
    ]
    yield json.dumps({"otherwise": found}, indent=2)
