"""What a report says of a job in tables, the same as HTML and as Markdown: pure functions from documents to text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice

import msgspec

from trainshed.api import status_codec
from trainshed.api.coerce import as_mapping, as_sequence, format_time, parse_text, replica_specs
from trainshed.api.foreign_text import one_line
from trainshed.api.job import Document
from trainshed.api.job_record import Versions, ended_at, was_deleted
from trainshed.api.status import Status
from trainshed.api.time_codec import FIELDS

from . import lost_time, rows
from .chapter import Chapter, Story
from .durations import exact, human

#: The most rows of a table, and characters of a cell.
MOST_ROWS, MOST_CELL = 200, 1024
#: The chapters of a story that say what will be, or what to do now: not of a job that is gone.
OF_THE_PRESENT = frozenset(("Next", "Queue", "Replicas", "Blocked", "Stalled", "Deadline", "What to do"))
#: What a record has not.
NOT_IN_RECORDS = "The record of a job has neither its pods and their timeline, nor its Events, nor its logs."


class Table(msgspec.Struct, frozen=True):
    """A table: a title, the names of the columns, and rows of printable cells, each in one line."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def state(document: Document, status: Status) -> str:
    """Return the state of a job, or of a record."""
    return "Deleted" if was_deleted(document) else status.current_state


def summary(document: Document, versions: Versions, now: datetime) -> Table:
    """Return who the job is, how it went, and what ran."""
    status, record = status_codec.parse_status(document), as_mapping(document.get("record"))
    metadata, created = rows.metadata(document), rows.created(document)
    ended = status.completion or ended_at(document)
    availability, goodput = lost_time.shares(status, ended or now)
    pairs = (
        ("Job", f"{parse_text(document.get('kind'))} {rows.name_of(document)}"),
        ("Namespace", rows.namespace_of(document)),
        ("UID", parse_text(metadata.get("uid"))),
        ("State", state(document, status)),
        ("Created", _time(created)),
        ("Started", _time(status.start)),
        ("Deleted" if was_deleted(document) else "Ended", _time(ended)),
        ("Ran", human(((ended or now) - status.start).total_seconds()) if status.start else ""),
        ("Restarts", str(status.restarts)),
        ("Availability", availability),
        ("Goodput", goodput),
        ("Training", status.progress),
        ("Trainshed", versions.operator or parse_text(record.get("operator"))),
        ("Kubernetes", versions.kubernetes or parse_text(record.get("kubernetes"))),
        ("Spec", parse_text(record.get("specDigest"))),
    )
    return _table("Summary", ("", ""), [pair for pair in pairs if pair[1]])


def replicas(document: Document) -> Table:
    """Return what was asked for, by type of replica: images and resources of the containers, and restart policies."""
    header = ("Replicas", "Count", "Restart policy", "Container", "Image", "Requests", "Limits")
    return _table("Asked for", header, _containers(document))


def _containers(document: Document) -> Iterator[tuple[str, ...]]:
    for _, role, group in replica_specs(document):
        first = (role, str(group.get("replicas", 1)), parse_text(group.get("restartPolicy")))
        for number, item in enumerate(map(as_mapping, as_sequence(_pod_spec(group).get("containers")))):
            resources = as_mapping(item.get("resources"))
            amounts = (_amounts(resources.get("requests")), _amounts(resources.get("limits")))
            yield (
                *(first if number == 0 else ("", "", "")),
                parse_text(item.get("name")),
                parse_text(item.get("image")),
                *amounts,
            )


def _amounts(found: object) -> str:
    return ", ".join(f"{amount} {name}" for name, amount in sorted(as_mapping(found).items()))


def variables(document: Document) -> Table:
    """Return the names of environment variables; their values are nobody's business in a document that is shared."""
    found = [
        (role, parse_text(item.get("name")), ", ".join(names))
        for _, role, group in replica_specs(document)
        for item in map(as_mapping, as_sequence(_pod_spec(group).get("containers")))
        if (names := [parse_text(as_mapping(one).get("name")) for one in as_sequence(item.get("env"))])
    ]
    return _table("Environment (names only)", ("Replicas", "Container", "Variables of the user"), found)


def _pod_spec(group: Document) -> Document:
    return as_mapping(as_mapping(group.get("template")).get("spec"))


def limits(document: Document) -> Table:
    """Return the run policy."""
    policy = as_mapping(as_mapping(document.get("spec")).get("runPolicy"))
    found = [(str(field), str(value)) for field, value in policy.items() if not isinstance(value, (dict, list))]
    return _table("Run policy", ("Field", "Value"), found)


def restarts(status: Status) -> Table:
    """Return the last restarts with their causes."""
    header = ("Time", "Attempt", "Replica", "Node", "Class", "Reason", "Exit code", "Recovered in", "Lost work")
    found = [
        (
            *(_time(one.time), str(one.attempt), one.replica, one.node, one.kind, one.reason),
            *("" if one.exit_code is None else str(one.exit_code), _exact(one.recovery_seconds)),
            _exact(one.lost_work_seconds),
        )
        for one in status.recent_restarts
    ]
    return _table("Restarts", header, found)


def failure(status: Status) -> Table:
    """Return the root cause of the last failure; without its termination message, which has lines."""
    one = status.failure
    pairs = (
        (
            ("Pod", one.pod),
            ("Node", one.node),
            ("Container", one.container),
            ("Class", one.kind),
            ("Reason", one.reason),
            ("Exit code", "" if one.exit_code is None else str(one.exit_code)),
            ("Time", _time(one.time)),
            ("Ran", _exact(one.ran)),
            ("Cause", one.message),
        )
        if one
        else ()
    )
    return _table("Last failure", ("", ""), [pair for pair in pairs if pair[1]])


def time_spent(status: Status, now: datetime) -> Table:
    """Return where the time of the job has gone, by phases."""
    spent = status.time_spent.until(status.completion or now)
    total = sum(spent.seconds.values())
    found = [
        (str(phase), exact(spent.total(phase)), f"{100 * spent.total(phase) / total:.1f} %")
        for phase in FIELDS
        if spent.total(phase)
    ]
    if spent.lost_work:
        found.append(("of it done again", exact(spent.lost_work), f"{100 * spent.lost_work / total:.1f} %"))
    return _table("Where the time went", ("Phase", "Time", "Share"), found)


def conditions(status: Status) -> Table:
    """Return the conditions."""
    found = [(str(one.type), str(one.true), one.reason, _time(one.changed), one.message) for one in status.conditions]
    return _table("Conditions", ("Type", "Status", "Reason", "Since", "Message"), found)


def events(found: Sequence[Document]) -> Table:
    """Return the Events, the newest last."""
    ordered = sorted(found, key=rows.event_time)[-MOST_ROWS:]
    shown = zip(ordered, rows.of_events(ordered, rows.LONG_AGO), strict=True)
    cells = [(rows.event_time(one), *cells[1:]) for one, cells in shown]
    return _table("Events", ("Last seen", *(name.capitalize() for name in rows.EVENTS[1:])), cells)


def story_of_record(story: Story, document: Document) -> Story:
    """Return what a story says of the past: of a job that is gone, of which there is only the record."""
    chapters = tuple(one for one in story.chapters if one.title not in OF_THE_PRESENT)
    if not was_deleted(document):
        return Story(story.headline, chapters)
    status = status_codec.parse_status(document)
    name = f"{parse_text(document.get('kind'))} {rows.namespace_of(document)}/{rows.name_of(document)}"
    return Story(one_line(f"{name} was deleted while it was {status.current_state}."), chapters)


def chapters(story: Story) -> tuple[Chapter, ...]:
    """Return the chapters of a story but for those that tables tell."""
    return tuple(one for one in story.chapters if one.title != "Asked for")


def _table(title: str, header: tuple[str, ...], found: Sequence[tuple[str, ...]] | Iterator[tuple[str, ...]]) -> Table:
    kept = [tuple(one_line(cell, MOST_CELL) for cell in row) for row in islice(found, MOST_ROWS)]
    return Table(title, header, tuple(kept))


def _time(time: datetime | None) -> str:
    return format_time(time) if time else ""


def _exact(seconds: int | None) -> str:
    return "" if seconds is None else exact(seconds)
