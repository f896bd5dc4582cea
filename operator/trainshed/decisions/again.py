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

#: What the planner raises about a snapshot that no planner has seen: who may write the record may change it.
FAILURES = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class Otherwise(msgspec.Struct, frozen=True):
    """A decision that the installed version makes otherwise, by its `rule`, with its `plan`; `parts` differ.

    `failure` is why it makes none at all.
    """

    decision: Decision
    rule: str
    plan: dict[str, Any]
    parts: tuple[str, ...]
    failure: str = ""


def decide_again(snapshot: Snapshot) -> Plan:
    """Return what the installed planner decides about a snapshot."""
    return planner.plan(snapshot)


def differences(decisions: Iterable[Decision]) -> Iterator[Otherwise]:
    """Yield the decisions whose snapshots are known and that the installed planner would make otherwise."""
    for decision in decisions:
        if decision.saw is None:
            continue
        try:
            plan = decide_again(decision.saw)
        except FAILURES as error:
            why = f"it cannot plan what is recorded: {type(error).__name__}: {error}"
            yield Otherwise(decision, "", {}, ("rule",), why)
            continue
        found = json.loads(json.dumps(plan_document(decision.saw.status, plan)))
        parts = tuple(name for name in sorted({*found, *decision.plan}) if found.get(name) != decision.plan.get(name))
        if plan.rule != decision.rule or parts:
            yield Otherwise(decision, plan.rule, found, ("rule", *parts) if plan.rule != decision.rule else parts)
