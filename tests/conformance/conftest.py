"""One API server and one operator for the whole list; a namespace for each test, and a kubelet for its pods."""

from __future__ import annotations

import pytest

from support import Operator
from support.fixtures import kubelet, operators, server, shared_operator, user

from .gangs import gangs, plugins, schedulers, volcano

__all__ = [
    "gangs",
    "kubelet",
    "operator",
    "operators",
    "plugins",
    "schedulers",
    "server",
    "shared_operator",
    "user",
    "volcano",
]


@pytest.fixture(scope="package")
def operator(shared_operator: Operator) -> Operator:
    """The operator that all tests share; its log can be read."""
    return shared_operator
