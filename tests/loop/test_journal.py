"""The log is a line for a person, or a line of JSON for a machine."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from trainshed.loop import journal


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers.clear()
    yield
    root.handlers[:], root.level = handlers, level


def test_a_line_for_people_begins_with_time_and_level(capsys):
    journal.begin("info", "text")
    logging.getLogger("any").info("%d jobs", 3)
    logging.getLogger("any").debug("not this")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("20")
    assert line.endswith("INFO    3 jobs")


def test_a_line_for_machines_is_json_with_its_traceback_inside(capsys):
    journal.begin("warning", "json")
    logging.getLogger("any").error('a "quoted"\nerror', exc_info=ZeroDivisionError())
    (line,) = capsys.readouterr().err.splitlines()
    found = json.loads(line)
    assert (found["level"], found["logger"], found["message"]) == ("error", "any", 'a "quoted"\nerror')
    assert "ZeroDivisionError" in found["error"]
    assert found["time"].startswith("20")
