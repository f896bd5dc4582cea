"""Which nodes a pod may run on: taints and tolerations, the node selector, and the required node affinity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from trainshed.api.coerce import as_mapping, as_sequence, parse_text
from trainshed.api.job import Document

#: The effects of taints that keep pods away.
KEEPING = ("NoSchedule", "NoExecute")
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
NAME = "metadata.name"


class Taint(msgspec.Struct, frozen=True):
    """A taint of a node."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        return f"{self.key}{f'={self.value}' if self.value else ''}:{self.effect}"


def excluded(spec: Document, name: str, labels: Mapping[str, str], taints: Sequence[Taint]) -> str:
    """Return why a pod may not run on a node, in words that are the same for nodes of a kind; empty if it may."""
    wanted = parse_text(spec.get("nodeName"))
    if wanted:
        return "" if wanted == name else f"other than {wanted}"
    tolerations = [as_mapping(item) for item in as_sequence(spec.get("tolerations"))]
    if found := next((taint for taint in taints if not _is_tolerated(taint, tolerations)), None):
        return "cordoned" if found.key == UNSCHEDULABLE else f"with the taint {found}, which is not tolerated"
    for key, value in as_mapping(spec.get("nodeSelector")).items():
        if labels.get(key) != value:
            return f"without the label {key}={value} of the nodeSelector"
    affinity = as_mapping(as_mapping(spec.get("affinity")).get("nodeAffinity"))
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is not None and not _is_wanted(as_mapping(required), name, labels):
        return "outside of the required node affinity"
    return ""


def _is_tolerated(taint: Taint, tolerations: Iterable[Document]) -> bool:
    return taint.effect not in KEEPING or any(_tolerates(item, taint) for item in tolerations)


def _tolerates(toleration: Document, taint: Taint) -> bool:
    key, effect = parse_text(toleration.get("key")), parse_text(toleration.get("effect"))
    if (effect and effect != taint.effect) or (key and key != taint.key):
        return False
    operator = parse_text(toleration.get("operator")) or "Equal"
    if operator == "Exists":
        return True
    return operator == "Equal" and bool(key) and parse_text(toleration.get("value")) == taint.value


def _is_wanted(required: Document, name: str, labels: Mapping[str, str]) -> bool:
    return any(_matches(as_mapping(term), name, labels) for term in as_sequence(required.get("nodeSelectorTerms")))


def _matches(term: Document, name: str, labels: Mapping[str, str]) -> bool:
    """Return whether a node matches a term; an empty one matches none."""
    expressions = [as_mapping(item) for item in as_sequence(term.get("matchExpressions"))]
    fields = [as_mapping(item) for item in as_sequence(term.get("matchFields"))]
    if not (expressions or fields):
        return False
    of_node = {NAME: name}
    return all(expression_matches(item, labels) for item in expressions) and all(
        expression_matches(item, of_node) for item in fields
    )


def expression_matches(expression: Document, labels: Mapping[str, str]) -> bool:
    """Return whether labels match an expression of a selector."""
    key = parse_text(expression.get("key"))
    found, values = labels.get(key), [parse_text(item) for item in as_sequence(expression.get("values"))]
    match expression.get("operator"):
        case "In":
            return found in values
        case "NotIn":
            return found not in values
        case "Exists":
            return found is not None
        case "DoesNotExist":
            return found is None
        case "Gt" | "Lt" as operator if found and values and _is_integer(found) and _is_integer(values[0]):
            more, less = (int(found), int(values[0])) if operator == "Gt" else (int(values[0]), int(found))
            return more > less
    return False


#: The digits of the largest number that labels are compared with: those of an int64, and a sign.
DIGITS = 20


def _is_integer(text: str) -> bool:
    return len(text) <= DIGITS and text.removeprefix("-").isdecimal()
