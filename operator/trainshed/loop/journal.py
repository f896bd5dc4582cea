"""The log: a line for a person, or a line of JSON for a machine."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import orjson


class Json(logging.Formatter):
    """One object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        found = {
            "time": datetime.fromtimestamp(record.created, UTC),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info and record.exc_info[0]:
            found["error"] = self.formatException(record.exc_info)
        return orjson.dumps(found).decode()


def begin(level: str, form: str) -> None:
    """Write the log to the standard error, from this level on."""
    text = logging.Formatter("%(asctime)s %(levelname)-7s %(message)s")
    handler = logging.StreamHandler()
    handler.setFormatter(Json() if form == "json" else text)
    logging.basicConfig(level=getattr(logging, level.upper()), handlers=[handler], force=True)
