"""How a job has ended, in the words of `kubectl describe`, and as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from trainshed.api import status_codec
from trainshed.api.foreign_text import harmless, one_line
from trainshed.api.job import Document, ProgressSource
from trainshed.api.job_annotations import PROGRESS
from trainshed.views import lost_time
from trainshed.views.durations import human

from .cluster import LocalCluster
from .stored_objects import EVENT

if TYPE_CHECKING:  # the first output of a job imports it
    from trainshed.progress.tracker import Progress

INDENT = "  "


class JobEnd(msgspec.Struct, frozen=True):
    """A job that has ended, or was interrupted; its Events, the oldest first; how far its training came, if known."""

    job: Document
    events: Sequence[Document]
    progress: Progress | None


def events_of(cluster: LocalCluster, job: Document) -> list[Document]:
    """Return the Events about a job, the oldest first."""
    uid = job["metadata"]["uid"]
    return [event for event in cluster.of(EVENT) if event["involvedObject"]["uid"] == uid]


def state_of(job: Document) -> str:
    """Return the state of a job: the type of its decisive condition, Pending without one."""
    return status_codec.parse_status(job).current_state


def status_text(jobs: Iterable[tuple[Document, Progress | None]], pods: Iterable[Document], seconds: float) -> str:
    """Return the state of a run in one line; each job has its progress, if that is known."""
    phases = [str(pod.get("status", {}).get("phase")) for pod in pods]
    counts = ", ".join(f"{phases.count(phase)} {phase}" for phase in dict.fromkeys(phases))
    states = ", ".join(
        f"{job['metadata']['name']}: {state_of(job)}, {(job.get('status') or {}).get('restarts', 0)} restarts"
        + "".join(f", {text}" for text in (_progress(job, progress),) if text)
        for job, progress in jobs
    )
    return f" {states} | pods: {counts or 'none'} | {seconds:.0f} s | Ctrl-C ends it "


def _progress(job: Document, read: Progress | None) -> str:
    """Return how far a training has come: the step, how much is done, the loss, the time that is left; or nothing.

    It is what the training itself has reported, of a job that asks for it, or what was read from its output.
    """
    status = status_codec.parse_status(job)
    asks = (job["metadata"].get("annotations") or {}).get(PROGRESS) == ProgressSource.ENDPOINT
    if asks and (reported := status.trainer):
        left = reported.remaining_seconds if status.trains else None
        return _text(reported.step, reported.total_steps, reported.percentage, reported.metrics, left)
    if read is None:
        return ""
    return _text(read.step, read.total, read.percentage, read.metrics, read.remaining if status.may_train else None)


def _text(
    step: int | None,
    total: int | None,
    percentage: int | None,
    metrics: Iterable[tuple[str, str]],
    remaining: float | None,
) -> str:
    parts = [f"step {step}{f' of {total}' if total else ''}" if step is not None else ""]
    parts.append(f"{percentage}%" if percentage is not None else "")
    losses = [(name, value) for name, value in metrics if "loss" in name.lower()]
    parts += [one_line(f"{name} {value}") for name, value in sorted(losses, key=lambda item: len(item[0]))[:1]]
    parts.append(f"{human(remaining)} left" if remaining else "")
    return ", ".join(part for part in parts if part)


def all_described(
    ends: Sequence[JobEnd], run: tuple[datetime, datetime], folder: Path, *, interrupted: bool
) -> Iterator[str]:
    """Yield the lines of the summary of all jobs, where their logs are, and how a report is made.

    `run` is as in `described`, and `folder` is that of the run.
    """
    for end in ends:
        yield ""
        yield from described(end, run, interrupted=interrupted)
    yield f"Logs:      {folder / 'logs'}"
    name = f" {ends[0].job['metadata']['name']}" if len(ends) > 1 else ""
    yield f"Report:    trainshed report --run {shlex.quote(str(folder))}{name} -o report.html"


def described(end: JobEnd, run: tuple[datetime, datetime], *, interrupted: bool) -> Iterator[str]:
    """Yield the lines of the summary of a job; `run` is from when it ran until it ended or was `interrupted`."""
    yield from map(harmless, _described(end, run, interrupted=interrupted))


def _described(end: JobEnd, run: tuple[datetime, datetime], *, interrupted: bool) -> Iterator[str]:
    began, now = run
    job, events = end.job, end.events
    status = job.get("status") or {}
    yield f"Name:      {job['metadata']['namespace']}/{job['metadata']['name']}"
    yield f"Kind:      {job['kind']}"
    ended = "when the run was interrupted " if interrupted else ""
    yield f"State:     {state_of(job)} {ended}after {(now - began).total_seconds():.0f} s"
    yield f"Restarts:  {status.get('restarts', 0)}"
    if text := lost_time.sentence(status_codec.parse_status(job), now):
        yield f"Time:      {text}"
    if text := _progress(job, end.progress):
        yield f"Progress:  {text}"
    yield from _failure(status.get("failure") or {})
    yield "Conditions:"
    rows = [("Type", "Status", "Reason", "Message")]
    rows += [_condition(condition) for condition in status.get("conditions") or ()]
    yield from _table(rows)
    if blocked := status.get("blocked"):
        yield f"Blocked:   {blocked.get('reason', '')}: {blocked.get('message', '')}"
    if not events:
        return
    yield "Events:"
    rows = [("Type", "Reason", "Count", "Message")]
    rows += [(event["type"], event["reason"], str(event.get("count", 1)), event["message"]) for event in events]
    yield from _table(rows)


def _condition(condition: Document) -> tuple[str, str, str, str]:
    return (
        str(condition["type"]),
        str(condition["status"]),
        str(condition.get("reason", "")),
        str(condition.get("message", "")),
    )


def _failure(failure: Document) -> Iterator[str]:
    if not failure:
        return
    yield "Failure:"
    for key, value in failure.items():
        lines = str(value).splitlines() or [""]
        yield f"{INDENT}{key}: {lines[0]}"
        yield from (f"{INDENT * 2}{line}" for line in lines[1:])


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    for *cells, last in rows:
        padded = (f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True))
        head, *more = last.splitlines() or [""]
        start = f"{INDENT}{INDENT.join(padded)}{INDENT}"
        yield f"{start}{head}".rstrip()
        yield from (f"{' ' * len(start)}{line}" for line in more)


def as_json(end: JobEnd) -> dict[str, Any]:
    """Return the end of a job for programs; the progress has the fields of `progress.tracker.Progress`."""
    job, events = end.job, end.events
    status = job.get("status") or {}
    return {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "namespace": job["metadata"]["namespace"],
        "name": job["metadata"]["name"],
        "state": state_of(job),
        "status": status,
        "progress": msgspec.to_builtins(end.progress),
        "events": [
            {"type": event["type"], "reason": event["reason"], "count": event.get("count", 1)}
            | {"message": event["message"], "lastTimestamp": event.get("lastTimestamp")}
            for event in events
        ],
    }
