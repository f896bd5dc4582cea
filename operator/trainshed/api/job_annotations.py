"""The annotations of a job: their names, their values, and what is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from . import log_patterns
from .coerce import as_mapping
from .job import KueueForm, ProgressSource, RestartScope, ServiceForm
from .status import STARTUP_DEADLINE

PREFIX = "trainshed.dev/"
RESTART_SCOPE = f"{PREFIX}restart-scope"
ON_DISRUPTION = f"{PREFIX}on-disruption"
FORCE_DELETE_AFTER = f"{PREFIX}force-delete-after"
POD_END_GRACE = f"{PREFIX}pod-end-grace"
CHECKPOINT_ON_SIGTERM = f"{PREFIX}checkpoint-on-sigterm"
AVOID_FAILED_NODES = f"{PREFIX}avoid-failed-nodes"
TRACK_RESULTS = f"{PREFIX}track-results"
SERVICES = f"{PREFIX}services"
PROGRESS = f"{PREFIX}progress"
PROGRESS_PATTERNS = f"{PREFIX}progress-patterns"
HANG_DEADLINE = f"{PREFIX}hang-deadline"
HANG_ACTION = f"{PREFIX}hang-action"
DEBUG_SERVER_PORT = f"{PREFIX}debug-server-port"
RECORD = f"{PREFIX}record"
NOTIFY = f"{PREFIX}notify"
KUEUE = f"{PREFIX}kueue"
#: The value of RECORD that asks for the decisions as well.
DECISIONS = "Decisions"
#: All annotations of a job, with their values, the default first (those of SERVICES and KUEUE are settings of the
#: operator); the value of those without is a duration, but for TEXTS. The admission policy of the chart and `trainshed
#: render` refuse others.
ANNOTATIONS: dict[str, tuple[str, ...]] = {
    RESTART_SCOPE: ("Auto", *RestartScope),
    ON_DISRUPTION: ("Replace", "Fail"),
    STARTUP_DEADLINE: (),
    FORCE_DELETE_AFTER: (),
    POD_END_GRACE: (),
    CHECKPOINT_ON_SIGTERM: (),
    AVOID_FAILED_NODES: ("false", "true"),
    TRACK_RESULTS: ("false", "true"),
    SERVICES: (*ServiceForm,),
    PROGRESS: (*ProgressSource,),
    PROGRESS_PATTERNS: (),
    HANG_DEADLINE: (),
    HANG_ACTION: ("Notify", "Restart"),
    DEBUG_SERVER_PORT: (),
    RECORD: ("false", "true", DECISIONS),
    NOTIFY: (),
    KUEUE: (*KueueForm,),
}
TEXTS = (PROGRESS_PATTERNS, DEBUG_SERVER_PORT, NOTIFY)
#: The name of a webhook: a DNS label (RFC 1123), which is a key of a Secret and the name of a file.
NOTIFY_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
#: Seconds in which a pod may end by itself, once its job is over. A kubelet needs about two to report the end of a pod
#: after that of its containers; a sidecar that reports results, such as Katib's metrics collector, polls each second.
END_GRACE = 30
#: A duration in Go's format, in whole seconds, and the longest that is accepted: a year.
DURATION = re.compile(r"(?=\d)(?:(\d{1,6})h)?(?:(\d{1,8})m)?(?:(\d{1,8})s)?", re.ASCII)
DURATION_FORM = "must be a length of time from 1s to 8760h, such as 90s, 10m or 1h30m"
MAX_DURATION = 365 * 24 * 3600
PORT = re.compile(r"[1-9]\d{0,4}", re.ASCII)
MAX_PORT = 65535


class JobAnnotations(msgspec.Struct, frozen=True):
    """The parsed annotations; durations are in seconds, None means that the annotation is not set."""

    scope: RestartScope | None = None
    fail_on_disruption: bool = False
    force_delete_after: int | None = None
    startup_deadline: int | None = None
    pod_end_grace: int = END_GRACE
    checkpoint_grace: int | None = None
    avoid_failed_nodes: bool = False
    track_results: bool = False
    services: ServiceForm | None = None
    progress: ProgressSource = ProgressSource.NONE
    log_expression: str = ""
    hang_deadline: int | None = None
    restarts_when_hung: bool = False
    debug_port: int | None = None
    record: bool = False
    decisions: bool = False
    notify: str = ""
    kueue: KueueForm | None = None


def asks_for_decisions(metadata: Mapping[str, Any]) -> bool:
    """Return whether the annotations of a job ask for a record of the decisions about it."""
    return as_mapping(metadata.get("annotations")).get(RECORD) == DECISIONS


def job_annotations(annotations: Mapping[str, Any]) -> tuple[JobAnnotations, tuple[str, ...]]:
    """Parse the annotations; return their values and their problems. An invalid one has its default value."""
    if ANNOTATIONS.keys().isdisjoint(annotations):
        return JobAnnotations(), ()
    problems: list[str] = []
    scope = _choice(annotations, RESTART_SCOPE, problems)
    disruption = _choice(annotations, ON_DISRUPTION, problems)
    found = JobAnnotations(
        scope=RestartScope(scope) if scope in tuple(RestartScope) else None,
        fail_on_disruption=disruption == "Fail",
        force_delete_after=_duration(annotations, FORCE_DELETE_AFTER, problems),
        startup_deadline=_duration(annotations, STARTUP_DEADLINE, problems),
        pod_end_grace=_duration(annotations, POD_END_GRACE, problems) or END_GRACE,
        checkpoint_grace=_duration(annotations, CHECKPOINT_ON_SIGTERM, problems),
        avoid_failed_nodes=_choice(annotations, AVOID_FAILED_NODES, problems) == "true",
        track_results=_choice(annotations, TRACK_RESULTS, problems) == "true",
        services=ServiceForm(_choice(annotations, SERVICES, problems)) if SERVICES in annotations else None,
        progress=ProgressSource(_choice(annotations, PROGRESS, problems)),
        log_expression=_expression(annotations, problems),
        hang_deadline=_duration(annotations, HANG_DEADLINE, problems),
        restarts_when_hung=_choice(annotations, HANG_ACTION, problems) == "Restart",
        debug_port=_port(annotations, DEBUG_SERVER_PORT, problems),
        record=(record := _choice(annotations, RECORD, problems)) != "false",
        decisions=record == DECISIONS,
        notify=_name(annotations, problems),
        kueue=KueueForm(_choice(annotations, KUEUE, problems)) if KUEUE in annotations else None,
    )
    return found, tuple(problems)


def _choice(annotations: Mapping[str, Any], key: str, problems: list[str]) -> str:
    choices = ANNOTATIONS[key]
    value = annotations.get(key, choices[0])
    if value in choices:
        return str(value)
    listed = ", ".join(f'"{choice}"' for choice in choices)
    problems.append(f'metadata.annotations[{key}]: Unsupported value: "{value}": supported values: {listed}')
    return choices[0]


def _expression(annotations: Mapping[str, Any], problems: list[str]) -> str:
    if PROGRESS_PATTERNS not in annotations:
        return ""
    found, problem = log_patterns.expression(str(annotations[PROGRESS_PATTERNS]))
    if problem:
        problems.append(f"metadata.annotations[{PROGRESS_PATTERNS}]: {problem}")
    return found


def _port(annotations: Mapping[str, Any], key: str, problems: list[str]) -> int | None:
    if key not in annotations:
        return None
    value = str(annotations[key])
    if PORT.fullmatch(value) and int(value) <= MAX_PORT:
        return int(value)
    problems.append(f'metadata.annotations[{key}]: Invalid value: "{value}": must be a port from 1 to {MAX_PORT}')
    return None


def _name(annotations: Mapping[str, Any], problems: list[str]) -> str:
    value = annotations.get(NOTIFY, "")
    if not value or (isinstance(value, str) and NOTIFY_NAME.fullmatch(value)):
        return str(value)
    problems.append(f'metadata.annotations[{NOTIFY}]: Invalid value: "{value}": must be the name of a webhook')
    return ""


def _duration(annotations: Mapping[str, Any], key: str, problems: list[str]) -> int | None:
    if key not in annotations:
        return None
    value = annotations[key]
    parts = DURATION.fullmatch(value) if isinstance(value, str) else None
    hours, minutes, seconds = (int(part or 0) for part in parts.groups()) if parts else (0, 0, 0)
    whole = hours * 3600 + minutes * 60 + seconds
    if 0 < whole <= MAX_DURATION:
        return whole
    problems.append(f'metadata.annotations[{key}]: Invalid value: "{value}": {DURATION_FORM}')
    return None
