"""Plans recorded decisions again, by the planner of the installed version, and says where it would decide otherwise."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from trainshed import plan as planner
from trainshed.api.actions import Plan, Snapshot

from .documents import plan_document
from .recording import Decision


class Otherwise(msgspec.Struct, frozen=True):
    """A decision that the installed version makes otherwise, by its `rule`, with its `plan`; `parts` differ."""

    decision: Decision
    rule: str
    plan: dict[str, Any]
    parts: tuple[str, ...]


def decide_again(snapshot: Snapshot) -> Plan:
    """Return what the installed planner decides about a snapshot."""
    return planner.plan(snapshot)


def differences(decisions: Iterable[Decision]) -> Iterator[Otherwise]:
    """Yield the decisions whose snapshots are known and that the installed planner would make otherwise."""
    for decision in decisions:
        if decision.saw is None:
            continue
        plan = decide_again(decision.saw)
        found = json.loads(json.dumps(plan_document(decision.saw.status, plan)))
        parts = tuple(name for name in sorted({*found, *decision.plan}) if found.get(name) != decision.plan.get(name))
        if plan.rule != decision.rule or parts:
            yield Otherwise(decision, plan.rule, found, ("rule", *parts) if plan.rule != decision.rule else parts)
