"""`trainshed whatif`: when a job would end if nodes and programs fail, and what to change in it."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource

from trainshed.api.foreign_text import json_escaped, one_line
from trainshed.api.framework import JobDefaults
from trainshed.views.chapter import Chapter, Story
from trainshed.views.durations import rounded

from . import chapters, sources
from .connection import DEFAULT_NAMESPACE, ClusterOptions, warn
from .parameters import Finite, duration
from .whole_files import write

if TYPE_CHECKING:  # it takes long to import
    from trainshed.api.job import Job
    from trainshed.whatif.assumptions import Assumptions
    from trainshed.whatif.prediction import Prediction
    from trainshed.whatif.subject import VirtualJob

    from .measured_jobs import MeasuredJob

#: The longest time of an option, in seconds, and how many failures a run may meet on average.
LONGEST, MOST_FAILURES = 10 * 365 * 86_400, 5_000
#: How many times the time between failures a restart may take: of twenty one in 500 million would end.
MOST_RESTARTS = 20
#: The seconds from which on it is said beforehand that a prediction takes long, and the numbers of runs that are named
#: where fewer are enough.
LONG, FEWER = 120, (500, 200, 100, 50, 20, 10, 1)


def span(text: str) -> float:
    """Return the seconds of an option; raises `click.BadParameter`, also for many years."""
    if (found := duration(text)) > LONGEST:
        raise click.BadParameter(f"{one_line(text, 40)!r} is longer than ten years")
    return found


def lasting(text: str) -> float:
    """Return the same for an option that must be a second at least."""
    if (found := span(text)) < 1:
        raise click.BadParameter(f"{text!r} is too short: it must be at least 1s")
    return found


@click.command()
@sources.filenames(required=False)
@sources.recursive
@click.option("--like", default="", help="Job of the cluster, or folder of a run here, that shows what is not given.")
@click.option("--context", default="", help="Context of the kubeconfig for --like (default: its current context).")
@click.option("--kubeconfig", default="", help="Path of the kubeconfig file for --like.")
@click.option("-n", "--namespace", default="", help="Namespace of jobs that do not set it, and of --like.")
@click.option("--run-time", type=lasting, help="How long the job trains if nothing fails, such as 7d.")
@click.option(
    "--nodes", type=click.IntRange(1, 100_000), help="Nodes (default: one a replica; more of them are spare)."
)
@click.option("--mtbf", type=lasting, default="30d", show_default=True, help="Mean time between failures of one node.")
@click.option("--checkpoint-every", type=lasting, help="Training between two checkpoints (default: none is saved).")
@click.option("--checkpoint-cost", type=span, default="30s", show_default=True, help="How long saving one takes.")
@click.option("--start-up", type=span, default="2m", show_default=True, help="From the first pods to the training.")
@click.option("--restart-cost", type=span, default="4m", show_default=True, help="The same after a failure.")
@click.option("--replace-node", type=span, default="0s", show_default=True, help="Until a lost node has a successor.")
@click.option(
    "--program-failures",
    type=Finite(0, 1),
    default=0.5,
    show_default=True,
    help="Share of the failures in which a program exits and the node stays.",
)
@click.option("--exit-code", type=click.IntRange(1, 255), default=1, show_default=True, help="What it exits with.")
@click.option("--histories", type=click.IntRange(1, 100_000), default=1000, show_default=True, help="Random runs.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Chooses their failures.")
@click.option("--processes", type=click.IntRange(1, 64), default=2, show_default=True, help="Processes to use.")
@click.option(
    "--time-limit", type=span, default="1h", show_default=True, help="Refuse predictions that would take longer."
)
@click.option("--picture", type=click.Path(path_type=Path), help="Draw when the runs end, into an SVG file.")
@click.option("-o", "--output", "form", type=click.Choice(["json"]), help="Print the predictions as JSON.")
def whatif(files: tuple[str, ...], *, recursive: bool, **given: Any) -> None:  # noqa: ANN401 - options
    """Say when jobs would end if nodes and programs fail, what is lost, and what to change.

    The rules of the operator decide what becomes of a job in each of many random runs, in virtual time: nothing is run,
    and a cluster is asked only for the job that --like names, which is the one that is asked about if there are no
    files. docs/check.md says how the numbers come about. The exit code is 1 if a job would be refused.
    """
    like = _like(given)
    jobs = _jobs(files, given["namespace"], like, recursive=recursive)
    if given["picture"] and len(jobs) > 1:
        raise click.UsageError("--picture draws one job, and there are more in these files")
    inputs = _inputs(given, like)
    found = [_predicted(job, inputs) for job in jobs if job]
    if given["form"]:
        click.echo(json_escaped(json.dumps([document for document, _ in found], indent=4, ensure_ascii=False)))
    for number, (_, story) in enumerate(found if not given["form"] else ()):
        click.echo("\n" * bool(number), nl=False)
        chapters.show(story)
    raise SystemExit(0 if all(jobs) else 1)


class Inputs(NamedTuple):
    """The options, what was measured for them, and sentences about that."""

    options: dict[str, Any]
    measured: dict[str, Any]
    sentences: tuple[str, ...]


def _is_given(option: str) -> bool:
    source = click.get_current_context().get_parameter_source(option)
    return source not in (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP, None)


def _like(given: dict[str, Any]) -> MeasuredJob | None:
    """Return the job that --like names."""
    if not given["like"]:
        if given["context"] or given["kubeconfig"]:
            raise click.UsageError("only --like asks a cluster: leave out --context and --kubeconfig")
        return None
    from .measured_jobs import read  # noqa: PLC0415 - only this option needs it

    return read(given["like"], ClusterOptions(given["kubeconfig"], given["context"], given["namespace"]))


def _jobs(files: tuple[str, ...], namespace: str, like: MeasuredJob | None, *, recursive: bool) -> list[Job | None]:
    """Return the jobs that are asked about, None for each that would be refused."""
    if files:
        manifests = sources.selected(files, recursive=recursive).jobs
        created = [
            sources.rendered(one, namespace or DEFAULT_NAMESPACE, JobDefaults(), with_pods=True) for one in manifests
        ]
        return [one.job if one else None for one in created]
    if like is None:
        raise click.UsageError("name the files of jobs with -f, or a job with --like")
    job = like.job
    if job.problems:
        raise click.ClickException(one_line(f"{like.name} cannot be asked about: {job.problems[0]}"))
    return [job]


def _inputs(given: dict[str, Any], like: MeasuredJob | None) -> Inputs:
    """Return the options, with what a job has shown in place of those that are not given."""
    found = Inputs(given, {}, ())
    if like:
        from .measured_jobs import lines, measured, taken  # noqa: PLC0415 - only this option needs it

        known = measured(like)
        about = {
            one.option: {"value": one.value, "isUsed": not _is_given(one.option.replace("-", "_"))}
            for one in known.known
        }
        document = {"job": like.name, "options": about, "unknown": dict(known.unknown), "doubts": known.doubts}
        found = Inputs(
            taken(given, known, _is_given), {"measured": document}, tuple(lines(like.name, known, _is_given))
        )
    if found.options["run_time"] is None:
        why = f"{like.name} does not show it" if like else "it is the training alone, such as 7d"
        raise click.UsageError(f"Missing option '--run-time': {why}.")
    return found


def _predicted(job: Job, inputs: Inputs) -> tuple[dict[str, Any], Story]:
    """Return what there is to say of a job, as JSON and in sentences."""
    from trainshed.whatif import sentences  # noqa: PLC0415 - it takes long, and other errors need none of it
    from trainshed.whatif.prediction import predictor  # noqa: PLC0415
    from trainshed.whatif.recommendations import recommendations  # noqa: PLC0415
    from trainshed.whatif.subject import Unpredictable, prepared  # noqa: PLC0415

    given = inputs.options
    try:
        subject = prepared(job)
    except Unpredictable as error:
        raise click.ClickException(one_line(str(error))) from error
    assumed = _assumptions(subject, given)
    count, seed = given["histories"], given["seed"]
    with predictor(seed, given["processes"] if count > 1 else 1) as source:
        found = source.predict(subject, assumed, count)
        advice = recommendations(found, source)
    if given["picture"]:
        _draw(found, given["picture"])
    story = sentences.as_text(found, advice, seed)
    measured = (Chapter("Measured", inputs.sentences),) if inputs.sentences else ()
    return sentences.as_document(found, advice, seed) | inputs.measured, Story(
        story.headline, (*story.chapters, *measured)
    )


def _assumptions(subject: VirtualJob, given: dict[str, Any]) -> Assumptions:
    """Return what is assumed of a job by the options; raises `UsageError` for what no run would survive."""
    from trainshed.whatif.assumptions import Assumptions  # noqa: PLC0415 - as above

    size = subject.job.size
    nodes = given["nodes"] or size
    assumed = Assumptions(
        run_time=given["run_time"],
        nodes=min(nodes, size),
        mtbf=given["mtbf"],
        checkpoint_every=given["checkpoint_every"] or math.inf,
        checkpoint_cost=given["checkpoint_cost"],
        start_up=given["start_up"],
        restart_cost=given["restart_cost"],
        program_failures=given["program_failures"],
        exit_code=given["exit_code"],
        replace_node=given["replace_node"],
        spare_nodes=max(0, nodes - size),
    )
    if assumed.expected_failures > MOST_FAILURES:
        raise click.UsageError(
            f"a run would meet {assumed.expected_failures:,.0f} failures, and at most {MOST_FAILURES:,} are simulated:"
            " --mtbf is the time between failures of one node"
        )
    if assumed.restart_cost > MOST_RESTARTS * assumed.mean_time_between:
        raise click.UsageError(
            "no run would end: a restart (--restart-cost) takes much longer than the time between two failures of the"
            f" job, {rounded(assumed.mean_time_between)} (--mtbf is that of one node)"
        )
    if assumed.start_up > MOST_RESTARTS * assumed.mean_time_between:
        raise click.UsageError(
            "no run would begin: its start (--start-up) takes much longer than the time between two failures of the"
            f" job, {rounded(assumed.mean_time_between)} (--mtbf is that of one node)"
        )
    _check_duration(subject, assumed, given)
    return assumed


def _check_duration(subject: VirtualJob, assumed: Assumptions, given: dict[str, Any]) -> None:
    """Say that a prediction takes long, before it begins; raises `UsageError` if it would take longer than it may."""
    limit, runs = given["time_limit"], given["histories"]
    seconds = _seconds(subject, assumed, given, runs)
    if seconds > limit:
        met = f"{assumed.likely_failures:,.0f} failure{'s' * (round(assumed.likely_failures) != 1)}"
        fewer = next((n for n in FEWER if n < runs and _seconds(subject, assumed, given, n) <= limit), None)
        wise = f"--histories {fewer}" if fewer else "a shorter --run-time or a longer --mtbf"
        unsaved = " and --checkpoint-every" if assumed.checkpoint_every >= assumed.run_time else ""
        raise click.UsageError(
            f"this would take about {rounded(seconds)}, longer than --time-limit {rounded(limit)}, as a run meets about"
            f" {met}: try {wise}{unsaved}"
        )
    if seconds > LONG:
        fewer = next((n for n in FEWER if n <= runs // 10), 1)
        warn(f"This takes about {rounded(seconds)}; --histories {fewer} is enough for a first estimate.")


def _seconds(subject: VirtualJob, assumed: Assumptions, given: dict[str, Any], runs: int) -> float:
    """Return how long a prediction of this many runs takes, roughly."""
    from trainshed.whatif.prediction import estimated_cost  # noqa: PLC0415 - as above
    from trainshed.whatif.recommendations import compared_runs  # noqa: PLC0415

    processes = min(given["processes"] if runs > 1 else 1, os.cpu_count() or 1)
    return estimated_cost(subject, assumed, runs, compared_runs(runs)) / processes


def _draw(found: Prediction, path: Path) -> None:
    from trainshed.ui.drawings import histogram  # noqa: PLC0415 - only this option needs it
    from trainshed.whatif.sentences import drawn  # noqa: PLC0415

    title, note, times, marks = drawn(found)
    try:
        write(path, histogram.draw(title, note, times, [histogram.TimeMark(*mark) for mark in marks]))
    except OSError as error:
        raise click.ClickException(f"cannot write {one_line(str(path))}: {error.strerror}") from error
