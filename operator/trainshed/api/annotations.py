"""Settings of a job for which `kubeflow.org/v1` has no field: annotations that the user sets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .job import Scope

PREFIX = "trainshed.dev/"
RESTART_SCOPE = f"{PREFIX}restart-scope"
ON_DISRUPTION = f"{PREFIX}on-disruption"
FORCE_DELETE_AFTER = f"{PREFIX}force-delete-after"
STARTUP_DEADLINE = f"{PREFIX}startup-deadline"
KEEP_RESULTS = f"{PREFIX}keep-results"
#: A duration in Go's format, in whole seconds, and the longest that is accepted: a year.
DURATION = re.compile(r"(?=\d)(?:(\d{1,8})h)?(?:(\d{1,8})m)?(?:(\d{1,8})s)?", re.ASCII)
LONGEST = 365 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Knobs:
    """The parsed annotations; durations are in seconds, None means that the annotation is not set."""

    scope: Scope | None = None
    fail_on_disruption: bool = False
    force_delete_after: int | None = None
    startup_deadline: int | None = None
    keep_results: bool = False


def knobs(annotations: Mapping[str, Any]) -> tuple[Knobs, tuple[str, ...]]:
    """Parse the annotations; return their values and their problems. An invalid one has its default value."""
    problems: list[str] = []
    scope = _choice(annotations, RESTART_SCOPE, ("Auto", *Scope), problems)
    disruption = _choice(annotations, ON_DISRUPTION, ("Replace", "Fail"), problems)
    found = Knobs(
        scope=Scope(scope) if scope in tuple(Scope) else None,
        fail_on_disruption=disruption == "Fail",
        force_delete_after=_duration(annotations, FORCE_DELETE_AFTER, problems),
        startup_deadline=_duration(annotations, STARTUP_DEADLINE, problems),
        keep_results=_choice(annotations, KEEP_RESULTS, ("false", "true"), problems) == "true",
    )
    return found, tuple(problems)


def _choice(annotations: Mapping[str, Any], key: str, choices: tuple[str, ...], problems: list[str]) -> str:
    value = annotations.get(key, choices[0])
    if value in choices:
        return str(value)
    listed = ", ".join(f'"{choice}"' for choice in choices)
    problems.append(f'metadata.annotations[{key}]: Unsupported value: "{value}": supported values: {listed}')
    return choices[0]


def _duration(annotations: Mapping[str, Any], key: str, problems: list[str]) -> int | None:
    if key not in annotations:
        return None
    value = annotations[key]
    parts = DURATION.fullmatch(value) if isinstance(value, str) else None
    hours, minutes, seconds = (int(part or 0) for part in parts.groups()) if parts else (0, 0, 0)
    whole = hours * 3600 + minutes * 60 + seconds
    if 0 < whole <= LONGEST:
        return whole
    told = "must be a length of time from 1s to 8760h, such as 90s, 10m or 1h30m"
    problems.append(f'metadata.annotations[{key}]: Invalid value: "{value}": {told}')
    return None
