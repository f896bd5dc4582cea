"""How clients of v1 take the state of a job from its conditions, as rules on the list of conditions.

Each rule returns the type that the client acts on, None if it finds none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Conditions = Sequence[Mapping[str, Any]]

#: v1's types by precedence: the first that is true is the state that each client is to find.
PRECEDENCE = ("Failed", "Succeeded", "Suspended", "Restarting", "Running", "Created")


def newest(conditions: Conditions) -> str | None:
    """The newest true one by its transition time, of equal ones the first.

    Flyte's plug-ins for TFJob, PyTorchJob and MPIJob (kfoperators/common, `ExtractCurrentCondition`) do this, and the
    model training pages of OpenShift AI's dashboard (`getBasicJobStatus`).
    """
    ordered = sorted(conditions, key=lambda one: str(one.get("lastTransitionTime") or ""), reverse=True)
    return next((str(one["type"]) for one in ordered if one.get("status") == "True"), None)


def last(conditions: Conditions) -> str | None:
    """The last true one of the list, as scripts on the output of kubectl do."""
    return next((str(one["type"]) for one in reversed(conditions) if one.get("status") == "True"), None)


def last_known(conditions: Conditions) -> str | None:
    """The last true one of the three that matter to NeMo-Run (its PyTorchJob executor)."""
    known = [one for one in conditions if one.get("type") in ("Running", "Succeeded", "Failed")]
    return last(known)


def by_type(conditions: Conditions) -> str | None:
    """The first type that is true, by precedence: the SDK, Katib, Argo Workflows and Kueue ask for a type."""
    true = {one.get("type") for one in conditions if one.get("status") == "True"}
    return next((kind for kind in PRECEDENCE if kind in true), None)


RULES: Mapping[str, Callable[[Conditions], str | None]] = {
    "newest by transition time": newest,
    "last of the list": last,
    "by type": by_type,
}


def misreadings(conditions: Conditions) -> list[str]:
    """Return what clients of v1 take for the state of a job where it is something else, or not one of v1's types."""
    if not conditions:
        return []
    state = by_type(conditions)
    found = {name: rule(conditions) for name, rule in RULES.items()}
    wrong = [f"{name}: {kind} instead of {state}" for name, kind in found.items() if kind != state]
    known = last_known(conditions)
    if known != (state if state in ("Running", "Succeeded", "Failed") else None):
        wrong.append(f"last known: {known} instead of {state}")
    strange = [str(one.get("type")) for one in conditions if one.get("type") not in PRECEDENCE]
    return [*wrong, *(f"{kind} is not a type of v1" for kind in strange)]
