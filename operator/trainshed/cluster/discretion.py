"""What users put into their jobs is not repeated: a server's no may quote what was sent, and goes into logs and Events.

Who reads a log need not be who may read the jobs, and environments and command lines hold passwords more often than
they should. So whatever the user has written there is taken out of the server's words, wherever it stands in them; what
the field is called and what is wrong with it is left.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from . import ClusterError

E = TypeVar("E", bound=ClusterError)
#: Stands where something was taken out.
HIDDEN = "(hidden)"
#: A value shorter than this hides nothing, one shorter than that is looked for as a word of its own only; and a line of
#: a script that is at least so long is looked for by itself.
SHORTEST, WORD, LINE = 4, 8, 8
#: So much of an answer is read at the most: nobody needs more, and it takes time.
MOST = 65_536


def discreet(message: str, body: object) -> str:
    """The message without what the body has in environments, command lines, annotations and data."""
    public = _identity(body)
    hidden = {form for value in _private(body) for form in _forms(value) if form not in public}
    message = message[:MOST]
    for value in sorted((value for value in hidden if value in message), key=len, reverse=True):
        message = _without(message, value)
    return message


def softened(error: E, body: object) -> E:
    """The same error, in words that repeat nothing of the body."""
    error.args = (discreet(str(error), body),)
    return error


def _without(message: str, value: str) -> str:
    if len(value) >= WORD:
        return message.replace(value, HIDDEN)
    return re.sub(rf"(?<![\w-]){re.escape(value)}(?![\w-])", HIDDEN, message)


def _identity(body: object) -> frozenset[str]:
    """Names and labels: everybody may read them, and many a message says little without."""
    metadata = body.get("metadata") if isinstance(body, Mapping) else None
    if not isinstance(metadata, Mapping):
        return frozenset()
    names = (metadata.get("name"), metadata.get("namespace"), *(metadata.get("labels") or {}).values())
    return frozenset(name for name in names if isinstance(name, str))


def _private(found: object) -> Iterator[str]:
    """What nobody should repeat, at any depth."""
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
    """How a value may be quoted: as it is, escaped, by its lines, and what is given to a flag by itself."""
    given = value.partition("=")[2]
    lines = value.splitlines() if "\n" in value else ()
    for form in (value, given, *(line.strip() for line in lines if len(line.strip()) >= LINE)):
        if len(form) >= SHORTEST:
            yield form
            yield json.dumps(form)[1:-1]
            yield json.dumps(form, ensure_ascii=False)[1:-1]
