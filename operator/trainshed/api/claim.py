"""A validation rule, and its input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from .spec import ReplicaSpec


@dataclass(frozen=True, slots=True)
class Claim:
    """The input of a rule: `roles` as written, `name` from the metadata, `spec` an instance of the kind's model."""

    name: str
    roles: dict[str, ReplicaSpec]
    spec: Any


class Place(StrEnum):
    """The level of a rule: the job, each ReplicaSpec, or each container of a pod template."""

    JOB = ""
    REPLICAS = "[*]"
    CONTAINER = "[*].template.spec.containers[*]"


@dataclass(frozen=True, slots=True)
class Rule:
    """A validation rule, in CEL for the CRD and in Python for the operator.

    `cel` must be true for the object at each `place`, and `kept` for the claim. `message_cel` is a CEL expression for a
    message that contains numbers. A message has v1's form: path, type of error, detail.
    """

    cel: str
    message: str
    kept: Callable[[Claim], bool]
    message_cel: str = ""
    place: Place = Place.JOB


def count(group: ReplicaSpec) -> int:
    """Return the number of replicas of a role; the default is 1."""
    return 1 if group.replicas is None else group.replicas


def containers(group: ReplicaSpec) -> list[dict[str, object]]:
    """Return the containers of a role's template; list items that are not objects are skipped."""
    spec = (group.template or {}).get("spec")
    found = spec.get("containers") if isinstance(spec, dict) else None
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
