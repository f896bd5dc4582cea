"""What `trainshed whatif --like` reads: a job of a cluster, or of a run on this machine, and what it has shown."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from trainshed.api import run_history, status_codec
from trainshed.api.coerce import parse_text
from trainshed.api.foreign_text import one_line
from trainshed.api.framework import JobDefaults
from trainshed.api.job import Document, Job
from trainshed.client.job_reader import NoSuchJob
from trainshed.frameworks import ALL_VERSIONS
from trainshed.process import Clock
from trainshed.views import rows
from trainshed.views.durations import rounded

from .connection import Cluster, ClusterOptions, run
from .kept_runs import history_of

if TYPE_CHECKING:  # it takes long to import
    from trainshed.whatif.measured import JobMeasures

#: The options that are no times.
SHARE, CODE = "program-failures", "exit-code"


@dataclass(frozen=True, slots=True)
class MeasuredJob:
    """A job as it is now, or was at the end of its run, and on how many nodes its pods are."""

    document: Document
    now: datetime
    nodes: int

    @property
    def name(self) -> str:
        """What the user calls it."""
        return one_line(rows.full_name(self.document))

    @property
    def job(self) -> Job:
        """The job by its spec: any version may have written its status; raises `ClickException`."""
        from trainshed.rendering import rendered  # noqa: PLC0415 - it takes long to import

        wanted = {key: value for key, value in self.document.items() if key != "status"}
        if (wanted.get("apiVersion"), wanted.get("kind")) not in ALL_VERSIONS:
            raise click.ClickException(f"{self.name} is no job of a kind that is known")
        return rendered(wanted, rows.namespace_of(self.document), JobDefaults()).job


def read(like: str, options: ClusterOptions) -> MeasuredJob:
    """Return the job that a user names, in a cluster or by the folder of its run; raises `ClickException`."""
    if Path(like).is_dir():
        try:
            history = run_history.decode(history_of(Path(like)))
        except (NoSuchJob, OSError, msgspec.DecodeError) as error:
            raise click.ClickException(one_line(str(error))) from error
        if len(history.jobs) != 1:
            known = ", ".join(map(rows.full_name, history.jobs)) or "none"
            raise click.ClickException(one_line(f"--like needs the run of one job, and {like} has {known}"))
        return MeasuredJob(history.jobs[0], history.ended, 0)
    found: list[MeasuredJob] = []

    async def find(cluster: Cluster) -> int:
        document, _kind = await cluster.reader.find(cluster.namespace, like)
        nodes = {pod.node for pod in await cluster.reader.pods(document) if pod.node}
        found.append(MeasuredJob(document, Clock().now(), len(nodes)))
        return 0

    try:
        run(options, find)
    except SystemExit:
        if not found:
            raise
    return found[0]


def measured(job: MeasuredJob) -> JobMeasures:
    """Return what a job has shown; the time between failures is that of a node."""
    from trainshed.whatif.measured import measures  # noqa: PLC0415 - it takes long to import
    from trainshed.whatif.subject import Unpredictable, prepared  # noqa: PLC0415

    found, document = job.job, job.document
    try:
        together = prepared(found).together
    except Unpredictable:
        together = True
    size = max(1, found.size)
    uid = parse_text(rows.metadata(document).get("uid"))
    known = measures(uid, status_codec.parse_status(document), job.now, size=size, together=together)
    nodes = job.nodes or size
    return msgspec.structs.replace(
        known,
        known=tuple(
            msgspec.structs.replace(one, value=one.value * nodes) if one.option == "mtbf" else one
            for one in known.known
        ),
    )


def taken(given: dict[str, Any], known: JobMeasures, is_given: Callable[[str], bool]) -> dict[str, Any]:
    """Return the options with what was measured in place of those that were not given.

    The training that was measured has its checkpoints, which a run time is without.
    """
    found = dict(given)
    for one in known.known:
        name = one.option.replace("-", "_")
        if not is_given(name):
            found[name] = round(one.value) if one.option == CODE else one.value
    every, cost = found["checkpoint_every"] or math.inf, found["checkpoint_cost"]
    if known.value("run-time") is not None and not is_given("run_time") and math.isfinite(every):
        found["run_time"] = max(1.0, found["run_time"] * every / (every + cost))
    return found


def lines(name: str, known: JobMeasures, is_given: Callable[[str], bool]) -> Iterator[str]:
    """Yield what was taken from a job, and what was not, each with its reason."""
    yield f"From {name}, unless an option says something else:"
    for one in known.known:
        given = " (not used: the option is given)" if is_given(one.option.replace("-", "_")) else ""
        yield f"--{one.option} {_shown(one.option, one.value)}: {one.why}{given}."
    for option, why in known.unknown:
        if not is_given(option.replace("-", "_")):
            yield f"--{option} is as without --like: {why}."
    yield from known.doubts


def _shown(option: str, value: float) -> str:
    if option == SHARE:
        return f"{value:.2g}"
    return f"{value:.0f}" if option == CODE else rounded(value)
