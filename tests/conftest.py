"""Puts every test on its ring: the folder it stands in says what it needs."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

HERE = Path(__file__).parent

#: Folders whose tests need more than Python. All others are fast: pure, or on sim/.
ON_A_SERVER = ("apiserver", "cluster", "conformance", "faults", "security")
RINGS = dict.fromkeys(ON_A_SERVER, "apiserver") | {"e2e": "e2e", "bench": "bench"}
#: Folders of which only those tests need it that ask for the fixture `server`, or are marked by hand.
NEEDED_BY_SOME = ("cluster",)
#: And files that need something else than their folder.
EXCEPTIONS = {"conformance/test_complete.py": "", "conformance/test_end_to_end.py": "e2e"}
EXCEPTIONS |= dict.fromkeys(("security/test_rights.py", "security/test_linters.py"), "")

# How long an example takes says something about the machine that day, and nothing about us.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with the ring of its folder; a test may be marked by hand as well."""
    for item in items:
        if HERE in item.path.parents and (ring := _ring(item)):
            item.add_marker(ring)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """Let no finalizer run while a failure is put into words.

    Python 3.11 parses source to tell of a failure, and again to tell of what a finalizer raised. When the collector
    runs the one within the other, `ast.parse` falls with "recursion depth mismatch", and the whole run ends without a
    word about the test.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_runtest_setup() -> None:
    """Let a test log, whatever the one before it has silenced."""
    logging.disable(logging.NOTSET)


def _ring(item: pytest.Item) -> str:
    path = item.path.relative_to(HERE)
    if path.parts[0] in NEEDED_BY_SOME and "server" not in item.fixturenames:
        return ""
    return EXCEPTIONS.get(path.as_posix(), RINGS.get(path.parts[0], ""))
