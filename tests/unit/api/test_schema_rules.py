"""All validation rules are in the CRDs, so the API server enforces them without the operator."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from trainshed import crd
from trainshed.api.validation import rules
from trainshed.frameworks import FRAMEWORKS


def promised(node: object) -> Iterator[str]:
    """Yield every CEL rule in a schema, at any depth."""
    if isinstance(node, dict):
        yield from (rule["rule"] for rule in node.get("x-kubernetes-validations", ()))
        for part in node.values():
            yield from promised(part)
    elif isinstance(node, list):
        for part in node:
            yield from promised(part)


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.kind)
def test_every_rule_of_a_kind_stands_in_its_definition(framework):
    found = set(promised(crd.definition(framework)))
    assert {rule.cel for rule in rules(framework)} <= found
