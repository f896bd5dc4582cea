"""The log: a line for a person, or a line of JSON for a machine; a line about a job names it in fields of its own."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import orjson

from .view import Key

#: The attribute of a record that says which job it is about.
JOB = "job"


class Json(logging.Formatter):
    """One object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        found: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        key = getattr(record, JOB, None)
        if isinstance(key, Key):
            found["job"] = {"kind": key.kind, "namespace": key.namespace, "name": key.name}
        if record.exc_info and record.exc_info[0]:
            found["error"] = self.formatException(record.exc_info)
        return orjson.dumps(found).decode()


def about(key: Key) -> dict[str, Key]:
    """What to give to a line of the log as its `extra`, so that it names this job."""
    return {JOB: key}


def begin(level: str, form: str) -> None:
    """Write the log to the standard error, from this level on."""
    text = logging.Formatter("%(asctime)s %(levelname)-7s %(message)s")
    handler = logging.StreamHandler()
    handler.setFormatter(Json() if form == "json" else text)
    logging.basicConfig(level=getattr(logging, level.upper()), handlers=[handler], force=True)
