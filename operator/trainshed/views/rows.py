"""The rows of tables: the jobs of `trainshed get`, and the Events of `trainshed events`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from trainshed.api import status_codec
from trainshed.api.coerce import as_mapping, parse_count, parse_text, parse_time
from trainshed.api.foreign_text import one_line
from trainshed.api.job import QUEUE_LABEL, Document
from trainshed.api.job_record import ended_at, was_deleted
from trainshed.api.status import ConditionType, Status

from . import held, lost_time, training_story
from .durations import age, human

#: The columns of Events.
EVENTS = ("LAST SEEN", "COUNT", "TYPE", "REASON", "OBJECT", "MESSAGE")
#: The columns of jobs, those with the namespace first, and those of `-o wide` last.
NAMESPACE, COLUMNS, WIDE = (
    "NAMESPACE",
    ("NAME", "STATE", "READY", "RESTARTS", "AGE", "WHY"),
    ("QUEUE", "DURATION", "AVAILABILITY", "GOODPUT", "PROGRESS"),
)
#: The column of finished jobs besides: how long ago they ended.
ENDED = "ENDED"
#: The states in which a job is as its user wants it: what is said about them explains nothing.
SETTLED = ("Running", "Succeeded", "Created", "Pending")
NONE = "<none>"
#: The most characters of a cell, which has a kind and a name, and of a message.
MOST_TEXT, MOST_MESSAGE = 320, 1024
#: The most names in one line.
NAMED = 8
#: Before all jobs: their ages are 0 then.
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


def header(*, namespaces: bool, wide: bool, finished: bool = False) -> tuple[str, ...]:
    """Return the names of the columns; WHY is the last one, as it may be long. `finished` jobs have one more."""
    *columns, why = COLUMNS
    more = (*(WIDE if wide else ()), *((ENDED,) if finished else ()))
    return (*((NAMESPACE,) if namespaces else ()), *columns, *more, why)


def identity(job: Document) -> tuple[str, str, str]:
    """Return namespace, kind and name, by which jobs are sorted."""
    return namespace_of(job), parse_text(job.get("kind")), name_of(job)


def row(job: Document, now: datetime, *, namespaces: bool, wide: bool) -> tuple[str, ...]:
    """Return the cells of a job, printable and in one line each."""
    status = status_codec.parse_status(job)
    raw = as_mapping(job.get("status"))
    cells: Sequence[str] = (
        *((namespace_of(job),) if namespaces else ()),
        full_name(job),
        status.current_state,
        parse_text(raw.get("ready")) or NONE,
        str(status.restarts),
        age(created(job), now),
        *(_wide(job, status, now) if wide else ()),
        why(status, job),
    )
    *firsts, last = cells
    return (*(one_line(cell, MOST_TEXT) for cell in firsts), one_line(last, MOST_MESSAGE))


def finished_row(record: Document, now: datetime, *, namespaces: bool, wide: bool) -> tuple[str, ...]:
    """Return the cells of the record of a job, printable and in one line each."""
    ended = ended_at(record)
    *cells, why = row(record, ended or now, namespaces=namespaces, wide=wide)
    place = 1 + namespaces
    if was_deleted(record):
        cells[place], why = "Deleted", one_line(f"deleted while it was {cells[place]}", MOST_MESSAGE)
    cells[place + 3] = age(created(record), now)
    return (*cells, age(ended, now), why)


def content(job: Document) -> tuple[str, ...]:
    """Return what a row says besides times, by which rows of one job differ."""
    return row(job, LONG_AGO, namespaces=False, wide=True)


def as_deleted(cells: tuple[str, ...], names: Sequence[str]) -> tuple[str, ...]:
    """Return the last row of a job that was deleted; `names` are those of the columns."""
    return tuple(
        "Deleted" if name == "STATE" else "" if name == "WHY" else cell for name, cell in zip(names, cells, strict=True)
    )


def full_name(job: Document) -> str:
    """Return kind and name as commands take them: `pytorchjob/mnist`."""
    return f"{parse_text(job.get('kind')).lower()}/{parse_text(metadata(job).get('name'))}"


def with_namespace(job: Document) -> str:
    """Return a job as a command of any namespace takes it: `pytorchjob/mnist -n ml`."""
    return f"{full_name(job)} -n {namespace_of(job)}"


def metadata(item: Document) -> dict[str, Any]:
    """Return the metadata of an object."""
    return dict(as_mapping(item.get("metadata")))


def namespace_of(item: Document) -> str:
    """Return the namespace of an object."""
    return parse_text(metadata(item).get("namespace"))


def name_of(item: Document) -> str:
    """Return the name of an object."""
    return parse_text(metadata(item).get("name"))


def listed(names: Sequence[str]) -> str:
    """Return names in one line, not all if there are many."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def created(job: Document) -> datetime | None:
    """Return when a job was created."""
    return parse_time(metadata(job).get("creationTimestamp"))


def why(status: Status, job: Document) -> str:
    """Return why a job does not run or has ended as it has, and what it still holds then; empty if all is well."""
    return "; ".join(filter(None, (cause(status, job), held.by_status(status, job))))


def cause(status: Status, job: Document) -> str:
    """Return in one sentence why a job does not run or has ended as it has; empty if all is well.

    One that runs may be Stalled, or be stopped before its training ends; one that is not blocked yet may have replicas
    that wait, or containers that the kubelet starts again.
    """
    found = status.decisive
    if found is None:
        return ""
    if found.type in (ConditionType.CREATED, ConditionType.RUNNING):
        stalled = status.condition(ConditionType.STALLED)
        return f"{stalled.type}: {stalled.message}" if stalled else _unready(status, job) or too_late(status, job)
    if found.type is ConditionType.FAILED and status.failure and status.failure.message:
        return status.failure.message
    if found.type is ConditionType.RESTARTING and status.failure:
        return status.failure.message or found.message
    if found.type is ConditionType.SUSPENDED and (queue := _queue(job)):
        return f"waits for Kueue, in queue {queue}"
    return "" if found.type in SETTLED else found.message


def _queue(job: Document) -> str:
    return parse_text(as_mapping(metadata(job).get("labels")).get(QUEUE_LABEL))


def too_late(status: Status, job: Document) -> str:
    """Return that the deadline of a job stops it before its training ends; empty if it does not."""
    policy = as_mapping(as_mapping(job.get("spec")).get("runPolicy"))
    return training_story.miss(status, parse_count(policy.get("activeDeadlineSeconds")))


def _unready(status: Status, job: Document) -> str:
    ready, _, size = parse_text(as_mapping(job.get("status")).get("ready")).partition("/")
    if ready == size:
        return ""
    if first := next(iter(status.waiting), None):
        return f"{first.role.lower()}{'-' if first.count == 1 else ' '}{first.indexes}: {first.message}"
    if status.recovers and status.recent_restarts and status.failure:
        return status.failure.message
    if times := status.retries.total - status.retries.used:
        restarted = "once" if times == 1 else f"{times} times"
        return f"the kubelet has restarted containers {restarted}: trainshed explain {with_namespace(job)} says why"
    return ""


def in_one_sentence(job: Document) -> str:
    """Return the state of a job and why it has it, in one line."""
    status = status_codec.parse_status(job)
    reason = why(status, job)
    return one_line(f"{full_name(job)} is {status.current_state}{f': {reason}' if reason else ''}")


def _wide(job: Document, status: Status, now: datetime) -> tuple[str, ...]:
    duration = human(((status.completion or now) - status.start).total_seconds()) if status.start else NONE
    shares = (share or NONE for share in (*lost_time.shares(status, now), status.progress))
    return _queue(job) or NONE, duration, *shares


def of_events(events: Iterable[Document], now: datetime) -> list[tuple[str, ...]]:
    """Return a row for each Event, printable and in one line each."""
    return [tuple(map(one_line, _event_cells(event, now))) for event in events]


def event_time(event: Document) -> str:
    """Return when an Event was last seen, as RFC 3339 in UTC, which sorts as text."""
    series, metadata = as_mapping(event.get("series")), as_mapping(event.get("metadata"))
    times = (
        *(series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime")),
        metadata.get("creationTimestamp"),
    )
    return next((parse_text(time) for time in times if time), "")


def _event_cells(event: Document, now: datetime) -> tuple[str, ...]:
    about = as_mapping(event.get("involvedObject"))
    count = parse_count(as_mapping(event.get("series")).get("count")) or parse_count(event.get("count")) or 1
    return (
        age(parse_time(event_time(event)), now),
        str(count),
        parse_text(event.get("type")),
        parse_text(event.get("reason")),
        f"{parse_text(about.get('kind')).lower()}/{parse_text(about.get('name'))}",
        parse_text(event.get("message")),
    )
