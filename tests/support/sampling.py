"""Some values of a parametrized test are tested by `make test`, and the others by `make test-long`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def sampled(values: Iterable[Any], *usual: Any) -> list[Any]:
    """Return values as parameters of a test, marked `long` but for the usual ones, each of which is one of them."""
    found = [value if value in usual else pytest.param(value, marks=pytest.mark.long) for value in values]
    assert len(usual) < len(found)
    assert all(value in found for value in usual)
    return found
