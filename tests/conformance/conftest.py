"""One API server and one operator for the whole list; a namespace for each test, and a stage for its pods."""

from __future__ import annotations

import pytest

from support import Operator
from support.fixtures import elsewhere, hand, operators, server, shared_operator, stage

from .gangs import gangs, plugins, schedulers, volcano

__all__ = [
    "elsewhere",
    "gangs",
    "hand",
    "operator",
    "operators",
    "plugins",
    "schedulers",
    "server",
    "shared_operator",
    "stage",
    "volcano",
]


@pytest.fixture(scope="package")
def operator(shared_operator: Operator) -> Operator:
    """The operator that all tests share; its log can be read."""
    return shared_operator
