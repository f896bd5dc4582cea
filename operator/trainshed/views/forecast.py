"""What `trainshed plan` says about a job: what would be made for it, whether it fits, and what is not known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from trainshed.api.foreign_text import one_line
from trainshed.fit.amounts import Amounts, listed, quantity, total
from trainshed.fit.assessment import BAD, Assessment, Fit
from trainshed.fit.demands import RoleDemand

from .chapter import Chapter, Story

#: The parts in the order of the chapters, after what would be made.
PARTS = ("Admission", "Objects", "Limits", "Quota", "Priority", "Queue", "Nodes")
MADE, UNKNOWN = "Would make", "Not known"
#: The names that a line lists, and the characters of a line.
NAMES, MOST = 3, 600


class Forecast(msgspec.Struct, frozen=True):
    """The plan of a job: where it stands, its pods by role, the other objects by kind and name, and the assessments.

    `note` is what else is to be known of what would be made.
    """

    place: str
    kind: str
    namespace: str
    name: str
    demands: tuple[RoleDemand, ...]
    objects: tuple[tuple[str, str], ...]
    assessments: tuple[Assessment, ...]
    note: str = ""

    @property
    def verdict(self) -> Fit:
        """REFUSED or LACKING if one part is; else OK."""
        found = {item.fit for item in self.assessments}
        return next((fit for fit in BAD if fit in found), Fit.OK)

    @property
    def is_complete(self) -> bool:
        """Whether everything was looked at."""
        return all(item.fit is not Fit.UNKNOWN for item in self.assessments)


def tell(forecast: Forecast) -> Story:
    """Return the plan in sentences."""
    known = [item for item in forecast.assessments if item.fit is not Fit.UNKNOWN]
    chapters = [
        (MADE, list(_made(forecast))),
        *((part, [_said(item) for item in known if item.part == part]) for part in PARTS),
        (UNKNOWN, [item.message for item in forecast.assessments if item.fit is Fit.UNKNOWN]),
    ]
    return Story(
        one_line(headline(forecast), MOST),
        tuple(Chapter(title, tuple(one_line(line, MOST) for line in lines)) for title, lines in chapters if lines),
    )


def _said(item: Assessment) -> str:
    return item.message if item.fit is Fit.OK else f"{item.fit}: {item.message}"


def headline(forecast: Forecast) -> str:
    """Return the verdict in one sentence, with the first reason."""
    job = f"{forecast.kind} {forecast.namespace}/{forecast.name}"
    reason = next((item.message for item in forecast.assessments if item.fit is forecast.verdict), "").rstrip(".")
    if forecast.verdict is Fit.REFUSED:
        return f"{job} would be refused: {reason}."
    if forecast.verdict is Fit.LACKING:
        return f"{job} does not fit: {reason}."
    return f"{job} fits." if forecast.is_complete else f"{job} fits, as far as is known."


def _made(forecast: Forecast) -> Iterator[str]:
    for demand in forecast.demands:
        asked = listed(demand.requests)
        each = "each " if demand.count > 1 else ""
        yield f"{names(f'{demand.role} pod', demand.names)}, {each}requesting {asked or 'nothing'}"
    size = sum(demand.count for demand in forecast.demands)
    if size > 1:
        yield f"in total {size} pods, requesting {listed(_total(forecast.demands)) or 'nothing'}"
    by_kind: dict[str, list[str]] = {}
    for kind, name in forecast.objects:
        by_kind.setdefault(kind, []).append(name)
    yield from (names(kind, found) for kind, found in by_kind.items())
    if forecast.note:
        yield forecast.note


def names(kind: str, found: Sequence[str]) -> str:
    """Return a kind with the names of its objects, of many only the first ones and the last one."""
    if len(found) == 1:
        return f"{kind} {found[0]}"
    few = found if len(found) <= NAMES + 1 else (*found[: NAMES - 1], "…", found[-1])
    return f"{len(found)} {kind}s {', '.join(few)}"


def _total(demands: Sequence[RoleDemand]) -> dict[str, int]:
    return total(demand.total for demand in demands)


def as_document(forecast: Forecast) -> Mapping[str, Any]:
    """Return the plan for machines."""
    return {
        "place": forecast.place,
        "kind": forecast.kind,
        "namespace": forecast.namespace,
        "name": forecast.name,
        "verdict": str("fits" if forecast.verdict is Fit.OK else forecast.verdict),
        "complete": forecast.is_complete,
        "roles": [
            {
                "role": demand.role,
                "replicas": demand.count,
                "pods": list(demand.names),
                "requests": _quantities(demand.requests),
                "limits": _quantities(demand.limits),
            }
            for demand in forecast.demands
        ],
        "requests": _quantities(_total(forecast.demands)),
        "objects": [{"kind": kind, "name": name} for kind, name in forecast.objects],
        "assessments": [
            {"part": item.part, "verdict": str(item.fit), "message": item.message} for item in forecast.assessments
        ],
    }


def _quantities(amounts: Amounts) -> dict[str, str]:
    return {name: quantity(name, amount) for name, amount in amounts.items()}
