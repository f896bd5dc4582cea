"""Redacts values of jobs in error messages: the API server may quote a request, and errors go to logs and Events.

Readers of a log may not be allowed to read the jobs, and environments and command lines often contain passwords. So
every value that the user has set there is replaced in the server's message; the name of the field and the description
of the error are kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from trainshed.api.foreign_text import one_line
from trainshed.client import ApiError

E = TypeVar("E", bound=ApiError)
#: Replaces a redacted value.
REDACTED = "(hidden)"
#: Lengths in characters: shorter values are not redacted; values shorter than WORD are redacted as whole words only;
#: lines of a script of at least LINE are redacted by themselves.
SHORTEST, WORD, LINE = 4, 8, 8
#: Characters of a message that are kept: more is of no use, and redaction takes time.
MOST = 65_536


def redact(message: str, body: object) -> str:
    """Return the message without the values of environments, command lines, annotations and data of the body."""
    public = _identity(body)
    hidden = {form for value in _private(body) for form in _forms(value) if form not in public}
    message = message[:MOST]
    for value in sorted((value for value in hidden if value in message), key=len, reverse=True):
        message = _without(message, value)
    return message


def redact_error(error: E, body: object) -> E:
    """Return the same error, with values of the body redacted in its message."""
    error.args = (redact(str(error), body),)
    return error


def _without(message: str, value: str) -> str:
    if len(value) >= WORD:
        return message.replace(value, REDACTED)
    return re.sub(rf"(?<![\w-]){re.escape(value)}(?![\w-])", REDACTED, message)


def _identity(body: object) -> frozenset[str]:
    """Return names and labels, which are not secret; many messages are useless without them."""
    metadata = body.get("metadata") if isinstance(body, Mapping) else None
    if not isinstance(metadata, Mapping):
        return frozenset()
    names = (metadata.get("name"), metadata.get("namespace"), *(metadata.get("labels") or {}).values())
    return frozenset(name for name in names if isinstance(name, str))


def _private(found: object) -> Iterator[str]:
    """Yield the values to redact, at any depth."""
    if isinstance(found, Mapping):
        for key, value in found.items():
            if key in ("command", "args", "annotations", "data", "stringData"):
                yield from _texts(value)
            elif key == "env" and isinstance(value, (list, tuple)):
                yield from _texts(item.get("value") for item in value if isinstance(item, Mapping))
            else:
                yield from _private(value)
    elif isinstance(found, (list, tuple)):
        for item in found:
            yield from _private(item)


def _texts(found: object) -> Iterator[str]:
    values = found.values() if isinstance(found, Mapping) else found if isinstance(found, Iterable) else ()
    yield from (value for value in values if isinstance(value, str))


def _forms(value: str) -> Iterator[str]:
    """Yield the forms in which a value may be quoted: literal, as one line, JSON-escaped, single lines, a flag's value.

    The message of an error is one line (`ApiError`).
    """
    given = value.partition("=")[2]
    lines = value.splitlines() if "\n" in value else ()
    joined = () if value.isprintable() else (one_line(value), one_line(given))
    for form in (value, given, *joined, *(line.strip() for line in lines if len(line.strip()) >= LINE)):
        if len(form) >= SHORTEST:
            yield form
            yield json.dumps(form)[1:-1]
            yield json.dumps(form, ensure_ascii=False)[1:-1]
