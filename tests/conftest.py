"""Puts every test on its ring: the folder it stands in says what it needs."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent

#: Folders whose tests need more than Python. All others are fast: pure, or on world.py.
RINGS = {"apiserver": "apiserver", "cluster": "apiserver", "e2e": "e2e", "bench": "bench"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with the ring of its folder; a test may be marked by hand as well."""
    for item in items:
        if HERE in item.path.parents and (ring := RINGS.get(item.path.relative_to(HERE).parts[0])):
            item.add_marker(ring)
