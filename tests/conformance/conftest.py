"""One API server and one operator for the whole list; a namespace for each test, and a stage for its pods."""

from __future__ import annotations

import pytest

from rig import Operator
from rig.fixtures import hand, server, shared_operator, stage

__all__ = ["hand", "operator", "server", "shared_operator", "stage"]


@pytest.fixture(scope="session")
def operator(shared_operator: Operator) -> Operator:
    """The operator that all tests share; its log can be read."""
    return shared_operator
