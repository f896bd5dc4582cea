"""Marks every test with its tier, by the folder of its file."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

HERE = Path(__file__).parent

#: Beginnings of paths of tests that need more than Python, or minutes, longest first. All other tests are fast.
MARKERS = {
    "hack/testbed/test_fresh": "slow",
    "tests/simulation/test_malformed_values": "slow",
    "tests/simulation/test_services": "slow",
    "tests/unit/cli/test_drill": "slow",
    "tests/unit/cli/test_run": "slow",
    "tests/unit/local/launcher/test_launcher": "slow",
    "tests/unit/local/test_slow_readers": "slow",
    "tests/integration/": "apiserver",
    "tests/conformance/": "apiserver",
    "tests/chaos/": "apiserver",
    "tests/unit/client/": "apiserver",
    "tests/e2e/": "e2e",
    "tests/neighbours/": "neighbours",
    "tests/bench/": "bench",
}
#: Folders of which only those tests need it that ask for the fixture `server`, or are marked by hand.
NEEDED_BY_SOME = ("tests/unit/client/",)
#: Files that need something else than their folder.
EXCEPTIONS = {
    "tests/conformance/test_complete.py": "",
    "tests/conformance/test_end_to_end.py": "e2e",
    "tests/integration/security/test_rights.py": "",
    "tests/integration/security/test_linters.py": "",
}

# The duration of an example depends on the machine.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with the ring of its folder; a test may be marked by hand as well."""
    for item in items:
        if HERE in item.path.parents and (marker := _marker(item)):
            item.add_marker(marker)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """Run no finalizer while a failure is formatted.

    Python 3.11 parses source to format a failure, and again to format an error of a finalizer. If the garbage collector
    runs the finalizer in between, `ast.parse` fails with "recursion depth mismatch", and the whole run ends without a
    report of the test.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_runtest_setup() -> None:
    """Let a test log, whatever the one before it has silenced."""
    logging.disable(logging.NOTSET)


def _marker(item: pytest.Item) -> str:
    path = item.path.relative_to(HERE).as_posix()
    if path in EXCEPTIONS:
        return EXCEPTIONS[path]
    folder = next((beginning for beginning in MARKERS if path.startswith(beginning)), "")
    if folder in NEEDED_BY_SOME and "server" not in item.fixturenames:
        return ""
    return MARKERS.get(folder, "")
