"""A state in words that do not depend on how it came about, so that two that are alike are seen to be."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

import orjson

from simulation.feed import Feed
from simulation.moments import Handle
from simulation.transport import Flight
from support.audit.change import CREATED, Change
from trainshed.controller.cache import REFUSAL_UPDATE_INTERVAL
from trainshed.frameworks.tensorflow import TENSORFLOW
from trainshed.plan.restarts import SETTLE_DELAY

UID = re.compile(r"[0-9a-f]{8}-5eed-4000-8000-[0-9a-f]{12}")
WHEN = re.compile(
    r"\"(\w+)\":\"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)\""
    r"|(\w+)=datetime\.datetime\(([\d, ]+), tzinfo=datetime\.timezone\.utc\)"
)
VERSION = re.compile(r"\"resourceVersion\":\"\d+\"|version='\d+'|\"generation\":\d+")
#: How long something took, for people.
TOOK = re.compile(
    r"(?<=recoverySeconds\":)\d+|(?<=runDurationSeconds\":)\d+|(?<=recovery_seconds=)\d+|(?<=ran=)\d+"
    r"|\d+(?= s after start)"
)
#: The times by which something is decided in a world without deadlines; all others are for people.
TELLING = frozenset(
    (
        "finishedAt",
        "finished",
        "nextRetryTime",
        "next_retry_time",
        "time",
        "deletionTimestamp",
        "deletion_timestamp",
        "first_reported",
    )
)
#: Seconds by which one decides: within which a failure has yet to settle, after which another is no consequence of it,
#: after which its cause is looked for no more, and after which a reason may be told in other words.
AGES = (
    SETTLE_DELAY.total_seconds(),
    TENSORFLOW.defaults.cascade_window,
    2 * TENSORFLOW.defaults.cascade_window,
    REFUSAL_UPDATE_INTERVAL,
)


class Names:
    """Uids by the order in which namesakes were born, and times by how long ago they were.

    As long as they are `timeless` they say nothing of what changes with every moment that passes.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self.timeless = False
        self._now = now
        self._names: dict[str, str] = {}
        self._born: dict[str, int] = {}
        self._pieces: dict[str, list[str | tuple[str, float]]] = {}

    def hear(self, change: Change) -> None:
        """Remember whoever is born."""
        if change.verb == CREATED:
            meta = change.object["metadata"]
            name = f"{change.plural}/{meta['name']}"
            self._born[name] = self._born.get(name, 0) + 1
            self._names[meta["uid"]] = f"{name}#{self._born[name]}"

    def plain(self, text: str) -> str:
        """The text without versions, with names for uids and ages for times."""
        pieces = self._pieces.get(text)
        if pieces is None:
            pieces = self._pieces[text] = self._taken_apart(text)
        return "".join(piece if isinstance(piece, str) else self._age(*piece) for piece in pieces)

    def document(self, document: dict[str, Any]) -> str:
        """An object of the API."""
        return self.plain(orjson.dumps(document, option=orjson.OPT_SORT_KEYS).decode())

    def item(self, item: Any, current: str) -> str:
        """Something that the operator knows; `current` is the version that the server has of it."""
        fresh = item.version == current
        told = repr(item.status) if hasattr(item, "status") else repr(replace(item, version=""))
        return f"{fresh} {self.plain(told)}"

    def message(self, message: Handle) -> str:
        """Something on its way."""
        words = [title(message)]
        if isinstance(flight := sender(message), Flight):
            words.append(self.plain((flight.request.body or b"").decode()))
        for word in message.args:
            content = getattr(word, "content", word)
            words.append(self.plain(content.decode()) if isinstance(content, bytes) else type(word).__name__)
        return " ".join(words)

    def age(self, moment: datetime) -> str:
        """By how much a moment is past, or to come."""
        return self.span(moment.timestamp() - self._now())

    def span(self, seconds: float) -> str:
        """A time, to a tenth of a second."""
        return "some time" if self.timeless else f"{round(seconds, 1) + 0.0}"

    def _taken_apart(self, text: str) -> list[str | tuple[str, float]]:
        """What stays as it is, and between it the times that tell something: what of, and when."""
        text = UID.sub(lambda found: self._names.get(found[0], found[0]), TOOK.sub("", VERSION.sub("", text)))
        pieces: list[str | tuple[str, float]] = []
        end = 0
        for found in WHEN.finditer(text):
            pieces.append(text[end : found.start()])
            end = found.end()
            what = found[1] or found[3]
            if what in TELLING:
                at = datetime.fromisoformat(found[2]).timestamp() if found[2] else _moment(found[4])
                pieces.append((what, at))
        return [*pieces, text[end:]]

    def _age(self, what: str, at: float) -> str:
        left = at - self._now()
        if left > 0:
            return f"{what} in {self.span(left)}"
        return f"{what} more than {max((age for age in AGES if left <= -age), default=0)} ago"


def sender(message: Handle) -> Any:
    """Who has put a message on its way: a `Flight`, or a `Feed`."""
    return getattr(message.callback, "__self__", None)


def title(message: Handle) -> str:
    """What a message is, for people."""
    by = sender(message)
    if isinstance(by, Flight):
        way = "server hears" if message.callback.__name__ == "arrive" else "answer to"
        return f"{way} {by.request.verb} {tail(by.request.path)}"
    if isinstance(by, Feed):
        return f"watch tells of {tail(by.path)}"
    return str(message.callback.__name__).strip("_")


def digest(words: list[str]) -> int:
    """All of it in 64 bits, never 0."""
    found = int.from_bytes(blake2b("\n".join(words).encode(), digest_size=8).digest(), "big")
    return found or 1


def tail(path: str) -> str:
    """Where something is within its namespace."""
    return path.partition("/namespaces/")[2].partition("/")[2] or path.rpartition("/")[2]


def _moment(parts: str) -> float:
    return datetime(*(int(part) for part in parts.split(", ")), tzinfo=UTC).timestamp()  # type: ignore[misc]
