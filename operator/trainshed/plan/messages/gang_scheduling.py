"""The sentences about PodGroups: why the pods of a job that are scheduled together are not created."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def not_served(versions: Iterable[str]) -> str:
    """Return that the API server has PodGroups in none of these versions of their API."""
    return (
        f"the API server serves PodGroup neither in {' nor in '.join(versions)}: enable the API and the"
        " feature gate GenericWorkload; no pod is created until then"
    )


def being_deleted(name: str) -> str:
    """Return that the PodGroup has to be created again."""
    return f"the previous PodGroup {name} is being deleted"


def different(field: str, values: Mapping[str, str]) -> str:
    """Return that the pods differ in a field of which a PodGroup accepts one value; the values by role."""
    listed = ", ".join(f"{name} has {value or 'none'}" for name, value in values.items())
    return f"all pods of a PodGroup need the same {field}: {listed}; no pod is created until they agree"


def not_admitted(name: str, phase: str, why: str) -> str:
    """Return that the scheduler has not admitted the PodGroup, and why, if it says so."""
    state = f"its phase is {phase}" if phase else "it has no phase yet"
    return f"PodGroup {name} has not been admitted: {state}{f' ({why})' if why else ''}"
