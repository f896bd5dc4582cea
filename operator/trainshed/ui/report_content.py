"""What a report of a job has, in which order, and the report as Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import msgspec

from trainshed.api.coerce import as_mapping, parse_text
from trainshed.api.foreign_text import inert, lines, one_line
from trainshed.api.job import Document
from trainshed.api.job_record import Versions, parse_curve
from trainshed.manifests import writer
from trainshed.views import markdown, post_mortem, rows
from trainshed.views.chapter import Chapter
from trainshed.views.post_mortem import Table

from .model import JobFile, Sample

#: What stands for values that a report does not show, and the characters of the spec and of a message that it shows.
HIDDEN, MOST_SPEC, MOST_MESSAGE = "(hidden)", 200_000, 4_096
#: The most points of a training in a table, and levels of a spec.
MOST_POINTS, MOST_LEVELS = 20, 64
#: Fields of containers with what users may have to keep to themselves.
CONFIDENTIAL = ("command", "args")


class JobReport(msgspec.Struct, frozen=True):
    """What is known of a job: the file of its page, what ran, and whether all of it is from the record, or of a run.

    `command` is the version of the program that makes the report.
    """

    file: JobFile
    versions: Versions
    now: datetime
    command: str = ""
    from_record: bool = False
    of_run: bool = False

    @property
    def title(self) -> str:
        """The name of the job."""
        document = self.file.document
        name = f"{rows.namespace_of(document)}/{rows.name_of(document)}"
        return one_line(f"{parse_text(document.get('kind'))} {name}", 400)

    @property
    def headline(self) -> str:
        """What has become of it, in a sentence."""
        story = self.file.story
        return story.headline if story else rows.in_one_sentence(self.file.document)

    @property
    def chapters(self) -> tuple[Chapter, ...]:
        """The story."""
        return post_mortem.chapters(self.file.story) if self.file.story else ()

    @property
    def message(self) -> str:
        """The last lines of the container that failed."""
        failure = self.file.status.failure
        return lines(failure.termination_message[-MOST_MESSAGE:]) if failure else ""

    @property
    def remarks(self) -> Iterator[str]:
        """What the report does not have, and why."""
        if self.from_record:
            yield f"This report is made from the record of a job. {post_mortem.NOT_IN_RECORDS}"
            yield "How long ago something was is said as of the end of the job."
        elif self.of_run and not self.file.status.over:
            yield "The run was ended before the job: this report is of the time at which that was."
        elif not self.file.status.over:
            yield "The job has not ended: this report is of the time at which it was made."
        if self.of_run:
            yield "The job ran on one machine, by trainshed run; the logs of all replicas are in the folder of the run."
        if not self.file.samples and self.file.status.trainer:
            yield "There are no curves: only the last report of the training is known."


def made(report: JobReport) -> str:
    """Return when and by what the report was made."""
    if report.of_run:
        return f"Times are in UTC. The run ended {report.now:%Y-%m-%d %H:%M:%S}. Made by trainshed {report.command}."
    return f"Times are in UTC. Made {report.now:%Y-%m-%d %H:%M:%S} by trainshed {report.command}."


def first_tables(report: JobReport) -> tuple[Table, ...]:
    """Return who and what; the story follows."""
    return (post_mortem.summary(report.file.document, report.versions, report.now),)


def cause_tables(report: JobReport) -> tuple[Table, ...]:
    """Return what failed and was restarted."""
    return post_mortem.failure(report.file.status), post_mortem.restarts(report.file.status)


def last_tables(report: JobReport) -> tuple[Table, ...]:
    """Return what was asked for, and what the API server has said."""
    document, file = report.file.document, report.file
    return (
        post_mortem.replicas(document),
        post_mortem.limits(document),
        post_mortem.variables(document),
        post_mortem.conditions(file.status),
        post_mortem.events(file.events),
    )


def spec_text(report: JobReport) -> str:
    """Return the spec as YAML, without values of variables, commands and arguments; empty for a record."""
    if report.from_record:
        return ""
    document = report.file.document
    metadata = {key: rows.metadata(document).get(key) for key in ("name", "namespace", "labels")}
    shown = {
        "apiVersion": document.get("apiVersion"),
        "kind": document.get("kind"),
        "metadata": {key: value for key, value in metadata.items() if value},
        "spec": without_values(document.get("spec")),
    }
    text = writer.write([shown])
    return lines(text if len(text) <= MOST_SPEC else f"{text[:MOST_SPEC]}\n# and more")


def without_values(found: object, level: int = 0) -> object:
    """Return a part of a spec without values of variables, commands, arguments and annotations."""
    if level > MOST_LEVELS:
        return HIDDEN
    if isinstance(found, list):
        return [without_values(item, level + 1) for item in found]
    if not isinstance(found, dict):
        return found
    return {str(key): _shown(str(key), value, level) for key, value in found.items()}


def _shown(key: str, value: object, level: int) -> object:
    if key in CONFIDENTIAL and isinstance(value, (list, str)):
        return HIDDEN
    if key == "env" and isinstance(value, list):
        return [{"name": parse_text(as_mapping(item).get("name")), "value": HIDDEN} for item in value]
    if key == "annotations":
        return dict.fromkeys(map(str, as_mapping(value)), HIDDEN)
    return without_values(value, level + 1)


def samples_of(document: Document) -> tuple[Sample, ...]:
    """Return the points of the curve of a record."""
    created, curve = rows.created(document), parse_curve(as_mapping(document.get("record")).get("curve"))
    if created is None:
        return ()
    return tuple(
        Sample(
            created + timedelta(seconds=min(point.seconds, 10**9)),
            point.step,
            None,
            ((curve.metric, point.value),) if point.value is not None and curve.metric else (),
        )
        for point in curve.points
    )


def training(report: JobReport) -> Table:
    """Return how the training advanced, in few rows."""
    samples = report.file.samples
    names = list(dict.fromkeys(name for one in samples for name, _ in one.metrics))[:8]
    every = -(-len(samples) // MOST_POINTS) or 1
    chosen = [*samples[:-1:every], *samples[-1:]]
    cells = tuple(
        (
            f"{one.time:%Y-%m-%dT%H:%M:%SZ}",
            "" if one.step is None else str(one.step),
            *(f"{dict(one.metrics)[name]:.6g}" if name in dict(one.metrics) else "" for name in names),
        )
        for one in chosen
    )
    return Table("Progress over time", ("Time", "Step", *(one_line(name, 64) for name in names)), cells)


def as_markdown(report: JobReport) -> str:
    """Return the report as Markdown."""

    def blocks() -> Iterator[str]:
        yield f"# {markdown.text(report.title)}"
        yield f"**{markdown.text(report.headline)}**"
        yield from (f"> {markdown.text(remark)}" for remark in report.remarks)
        for one in first_tables(report):
            yield from markdown.table(one)
        yield from markdown.chapters(report.chapters)
        for one in cause_tables(report):
            yield from markdown.table(one)
        if report.message:
            yield "## Last lines of the container"
            yield markdown.block(report.message)
        yield from markdown.table(post_mortem.time_spent(report.file.status, report.now))
        yield from markdown.table(training(report))
        for one in last_tables(report):
            yield from markdown.table(one)
        if spec := spec_text(report):
            yield "## Spec"
            yield markdown.block(spec)
        yield markdown.text(made(report))

    return inert(markdown.document(blocks()))
