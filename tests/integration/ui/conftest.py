"""A browser, a user who may read jobs, and the page of that user."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from support import UserClient
from support.browsing import Ui, Visitor, chromium
from support.page_process import PageProcess
from support.people import READS, Person, person
from testbed.control_plane import ControlPlane


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One browser for all tests; each has a context of its own."""
    with chromium() as found:
        yield found


@pytest.fixture
def visitor(browser: Browser) -> Iterator[Visitor]:
    """A user with a browser that complains about nothing."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    found = Visitor(context)
    yield found
    context.close()
    assert found.complaints == []


@pytest.fixture
def reader(server: ControlPlane, user: UserClient, tmp_path: Path) -> Person:
    """A person who may read jobs, pods and Events in one namespace."""
    return person(server, user, tmp_path, READS)


@pytest.fixture
def ui(reader: Person) -> Iterator[Ui]:
    """The page with the rights of the reader."""
    found = Ui.start(reader)
    yield found
    assert found.process.poll() is None, "it has ended by itself"
    found.stop()


@pytest.fixture
def served() -> Iterator[PageProcess]:
    """The page over a cluster in memory, whose jobs and logs a test changes."""
    with PageProcess(24) as found:
        yield found
