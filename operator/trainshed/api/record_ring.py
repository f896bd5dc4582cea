"""The records of a namespace: a ConfigMap with one entry for each finished job, of which the oldest ones go first.

The key of an entry is the uid of its job, so that whatever is written twice is there once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from .coerce import as_mapping, parse_text
from .job import Document
from .job_record import MAX_RECORD_BYTES, decode, ended_at

#: The name of the ConfigMap, and the label by which the operator knows that it is its own.
NAME, LABEL = "trainshed-finished-jobs", "trainshed.dev/record"
LABELS = {LABEL: "true", "app.kubernetes.io/managed-by": "trainshed"}
#: The most records, and the most bytes of all of them: less than 512 KiB.
MOST_RECORDS, MOST_BYTES = 60, 60 * MAX_RECORD_BYTES
#: How far a time may be ahead: clocks differ.
AHEAD = timedelta(minutes=5)
#: What a key of a ConfigMap may be.
KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")


class Candidate(msgspec.Struct, frozen=True):
    """A record that is to be written: the uid and the end of its job, and what makes the text.

    `make` gets the text that is there, empty if there is none.
    """

    uid: str
    ended: datetime
    settled: bool
    make: Callable[[str], str]


class _Entry(msgspec.Struct, frozen=True):
    key: str
    ended: datetime | None
    size: int
    candidate: Candidate | None = None

    @property
    def age(self) -> tuple[bool, float, str]:
        """Sort key: the newest first; those that are no records, or pretend to be of the future, last."""
        return self.ended is None, -self.ended.timestamp() if self.ended else 0.0, self.key


def is_ours(config_map: Document) -> bool:
    """Return whether the operator may change this ConfigMap: it has its label."""
    return LABEL in as_mapping(as_mapping(config_map.get("metadata")).get("labels"))


def changes(config_map: Document, candidates: Iterable[Candidate], now: datetime) -> dict[str, str | None]:
    """Return the changes of the entries of the ConfigMap, None for one that goes; nothing if all is there.

    A record is written again only if it was not settled and is now. One that is older than all of a full ring is not
    written: it would take the place of a newer one.
    """
    data = {str(key): parse_text(value) for key, value in as_mapping(config_map.get("data")).items()}
    there = {key: _entry(key, text, now) for key, text in data.items()}
    wanted = [one for one in candidates if KEY.fullmatch(one.uid) and not _is_there(data.get(one.uid, ""), one)]
    entries = there | {one.uid: _Entry(one.uid, one.ended, MAX_RECORD_BYTES, one) for one in wanted}
    kept, room = {}, MOST_BYTES
    for entry in sorted(entries.values(), key=lambda entry: entry.age)[:MOST_RECORDS]:
        if entry.size <= room:
            kept[entry.key] = entry
            room -= entry.size
    added = {key: one.candidate.make(data.get(key, "")) for key, one in kept.items() if one.candidate}
    if not added:
        return {}
    return added | dict.fromkeys(there.keys() - kept.keys(), None)


def _entry(key: str, text: str, now: datetime) -> _Entry:
    found = decode(text, "")
    ended = ended_at(found) if found else None
    return _Entry(key, ended if ended and ended <= now + AHEAD else None, len(key) + len(text.encode(errors="replace")))


def _is_there(text: str, wanted: Candidate) -> bool:
    found = decode(text, "")
    return found is not None and (not wanted.settled or as_mapping(found["record"]).get("settled") is True)


def new_config_map(entries: Mapping[str, str | None]) -> dict[str, Any]:
    """Return the ConfigMap with these entries, which is to be created."""
    data = {key: text for key, text in entries.items() if text is not None}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME, "labels": LABELS}, "data": data}


def patch(config_map: Document, entries: Mapping[str, str | None]) -> dict[str, Any]:
    """Return the merge patch for the ConfigMap as it was read: it fails if that has changed."""
    metadata = as_mapping(config_map.get("metadata"))
    known = {"uid": metadata.get("uid"), "resourceVersion": metadata.get("resourceVersion")}
    return {"metadata": known, "data": dict(entries)}


def records(config_map: Document, namespace: str) -> list[dict[str, Any]]:
    """Return the records of a ConfigMap, as jobs, in any order; what is none is left out."""
    data = as_mapping(config_map.get("data"))
    found = (decode(parse_text(text), namespace) for text in list(data.values())[: 4 * MOST_RECORDS])
    return [record for record in found if record is not None]
