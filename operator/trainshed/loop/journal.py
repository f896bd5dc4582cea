"""Logging: text or JSON lines; a line about a job has the job's kind, namespace and name as fields."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import orjson

from .view import Key

#: The attribute of a log record that holds the key of its job.
JOB = "job"


class Json(logging.Formatter):
    """Formats a record as one JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
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
    """Return the `extra` argument of a log call about this job."""
    return {JOB: key}


def begin(level: str, form: str) -> None:
    """Configure logging to standard error with this level and format."""
    text = logging.Formatter("%(asctime)s %(levelname)-7s %(message)s")
    handler = logging.StreamHandler()
    handler.setFormatter(Json() if form == "json" else text)
    logging.basicConfig(level=getattr(logging, level.upper()), handlers=[handler], force=True)
