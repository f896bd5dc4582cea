"""The log is text or JSON lines."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from trainshed import process
from trainshed.api.job import JobKey


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers.clear()
    yield
    root.handlers[:], root.level = handlers, level


def test_a_text_line_starts_with_time_and_level(capsys):
    process.configure_logging("info", "text")
    logging.getLogger("any").info("%d jobs", 3)
    logging.getLogger("any").debug("not this")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("20")
    assert line.endswith("INFO    3 jobs")


def test_a_json_line_contains_its_traceback(capsys):
    process.configure_logging("warning", "json")
    logging.getLogger("any").error('a "quoted"\nerror', exc_info=ZeroDivisionError())
    (line,) = capsys.readouterr().err.splitlines()
    found = json.loads(line)
    assert (found["level"], found["logger"], found["message"]) == ("error", "any", 'a "quoted"\nerror')
    assert "ZeroDivisionError" in found["error"]
    assert found["time"].startswith("20")


def test_a_line_about_a_job_has_the_job_as_fields_in_json(capsys):
    key = JobKey("ml", "TFJob", "mnist")
    process.configure_logging("info", "json")
    logging.getLogger("any").info("%s: created 2 pods", key, extra=process.job_fields(key))
    logging.getLogger("any").info("ready")
    about, other = map(json.loads, capsys.readouterr().err.splitlines())
    assert about["job"] == {"kind": "TFJob", "namespace": "ml", "name": "mnist"}
    assert about["message"] == "TFJob ml/mnist: created 2 pods"
    assert "job" not in other
    process.configure_logging("info", "text")
    logging.getLogger("any").info("%s: created 2 pods", key, extra=process.job_fields(key))
    assert capsys.readouterr().err.endswith("INFO    TFJob ml/mnist: created 2 pods\n")


FORGED = "A\n2026-01-01 00:00:00,000 ERROR   FORGED\x1b[2J\x9b2J\u202e\ud800"


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_message_cannot_forge_a_line_or_act_on_a_terminal(capsys, form):
    process.configure_logging("info", form)
    logging.getLogger("any").error("%s", FORGED, exc_info=ValueError(FORGED))
    first, *others = capsys.readouterr().err.splitlines()
    assert "A\\n2026-01-01" in first
    assert all(line.isprintable() for line in (first, *others))
    assert all(line.startswith("  ") for line in others), "no line of a traceback looks like a record"
    if form == "json":
        assert json.loads(first)["message"] == FORGED.replace("\ud800", "?")
