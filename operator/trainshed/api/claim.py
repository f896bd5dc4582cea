"""What a job asks for, and a rule it must keep."""

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
    """Where in a job a rule looks: the whole of it, the spec of each role, or each container of its template."""

    JOB = ""
    REPLICAS = "[*]"
    CONTAINER = "[*].template.spec.containers[*]"


@dataclass(frozen=True, slots=True)
class Rule:
    """`cel` must hold on the object at each `place`, `kept` on a claim; `message_cel` words the message with figures.

    A message is v1's: a path, what kind of error it is, and what is wrong.
    """

    cel: str
    message: str
    kept: Callable[[Claim], bool]
    message_cel: str = ""
    place: Place = Place.JOB


def count(group: ReplicaSpec) -> int:
    """How many replicas of a role; one unless the user says otherwise."""
    return 1 if group.replicas is None else group.replicas


def containers(group: ReplicaSpec) -> list[dict[str, object]]:
    """The containers of a role's template, as far as they look like containers."""
    spec = (group.template or {}).get("spec")
    found = spec.get("containers") if isinstance(spec, dict) else None
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
