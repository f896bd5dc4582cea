"""The decisions about a job as a ConfigMap: parts of some lines, compressed, of which the oldest go first."""

from __future__ import annotations

import base64
import gzip
import re
import zlib
from collections import deque
from hashlib import blake2b
from typing import Any

from trainshed.api.coerce import as_mapping, as_sequence, parse_integer, parse_text
from trainshed.api.job import Document, Job

from .recording import Decision, LineReader, as_line, parsed

#: The label by which the operator knows that a ConfigMap is its own.
LABEL = "trainshed.dev/decisions"
LABELS = {LABEL: "true", "app.kubernetes.io/managed-by": "trainshed"}
#: The most bytes of all parts as they are stored, with their keys.
MOST_BYTES = 64 << 10
#: A part with as many bytes, or with as many bytes of lines, gets no more lines. Each part begins with a whole
#: snapshot: when the oldest part goes, the others can be read without it.
PART_BYTES, PART_LINES = MOST_BYTES // 4, 256 << 10
#: The most bytes of a line, and of a line as it is stored: of a job that has more only digests are kept.
LINE, PACKED_LINE = 512 << 10, MOST_BYTES // 3
#: What is read of what others may have written: the last parts, bytes of the lines of one, bytes of all snapshots
#: together, and lines, of which the first ones of the last parts count.
MOST_PARTS, MOST_LINES, MOST_READ, MOST_COUNT = 64, 1 << 20, 128 << 20, 20_000
#: The most decisions that are shown, the last ones.
MOST_DECISIONS = 10_000
#: The key of a part: its number.
KEY = re.compile(r"part-(\d{8})", re.ASCII)
#: The largest number of a part, or of a decision, that is gone on from; a job has no hundredth of it.
LAST = 50_000_000
#: The value of `wbits` by which zlib reads gzip.
GZIP = 31


def name_of(uid: str) -> str:
    """Return the name of the ConfigMap of a job: no other job has ever had it."""
    return f"trainshed-decisions-{uid}"


def is_of(config_map: Document, uid: str) -> bool:
    """Return whether the operator may change this ConfigMap: it has its label, and belongs to the job."""
    metadata = as_mapping(config_map.get("metadata"))
    owners = (as_mapping(one).get("uid") for one in as_sequence(metadata.get("ownerReferences")))
    return LABEL in as_mapping(metadata.get("labels")) and uid in owners


class Ring:
    """The parts that the ConfigMap of a job is to have; `n` is the number of the last decision in them."""

    def __init__(self, config_map: Document | None = None) -> None:
        known = _last_parts(config_map or {})
        last = max(known, default="")
        lines = _unpacked(known[last]).splitlines() if known else []
        n = parse_integer(parsed(lines[-1]).get("n")) if lines else 0
        is_gone_on_from = last < _key(LAST) and n < LAST
        self._parts = known if is_gone_on_from else {}
        self._number = int(last.rpartition("-")[2]) if self._parts else 0
        self.n = n if is_gone_on_from else 0
        #: The lines of the last part, and the most bytes that those can take which are not in `_parts` yet.
        self._lines, self._more = b"", 0
        self._changes: dict[str, str | None] = {}
        #: How the last parts began that had to go: a ConfigMap may begin with one of them.
        self._gone = deque[bytes](maxlen=MOST_PARTS)
        self.compare(config_map or {})
        self._drop()

    @property
    def begins(self) -> bool:
        """Whether the next line begins a part, so that it must be whole; the first one of a process does."""
        return not self._lines or len(self._lines) >= PART_LINES or len(self._parts[_key(self._number)]) >= PART_BYTES

    def add(self, line: bytes) -> None:
        """Add the line of the next decision; what is too much then goes."""
        if is_first := self.begins:
            self._pack()
            self._number += 1
            self._lines = b""
        self._lines += line
        self._more += 4 * len(line) // 3
        self.n += 1
        if is_first or self._more >= PART_BYTES:
            self._pack()

    def _pack(self) -> None:
        if not self._more:
            return
        key = _key(self._number)
        self._parts[key] = self._changes[key] = _packed(self._lines)
        self._more = 0
        self._drop()

    def _drop(self) -> None:
        size = _size(self._parts)
        for oldest in sorted(self._parts):
            if size <= MOST_BYTES:
                return
            size -= len(oldest) + len(self._parts[oldest])
            self._gone.append(self._beginning())
            del self._parts[oldest]
            self._changes[oldest] = None

    def changes(self) -> dict[str, str | None]:
        """Return the parts that the ConfigMap lacks, or has otherwise, by their keys; None for those that go."""
        self._pack()
        return dict(self._changes)

    def follow(self, config_map: Document) -> None:
        """Go on from a ConfigMap that another process has written and this one took for missing.

        If it begins as the parts that are here, or those that went, this process has written it, and heard nothing of
        that.
        """
        self._pack()
        known = Ring(config_map)
        if not known._parts or known._beginning() in (self._beginning(), *self._gone):
            return
        parts, begins = dict(known._parts), True
        for number, (_, text) in enumerate(sorted(self._parts.items()), known._number + 1):
            self._lines = b"".join(
                _moved(line, known.n, after_restart=begins and not at)
                for at, line in enumerate(_unpacked(text).splitlines())
            )
            parts[_key(number)] = _packed(self._lines)
            self._number, begins = number, False
        self._parts, self.n = parts, self.n + known.n
        self.compare(config_map)
        self._drop()

    def _beginning(self) -> bytes:
        """Return a digest of the first line."""
        return blake2b(_unpacked(self._parts[min(self._parts)]).partition(b"\n")[0], digest_size=16).digest()

    def compare(self, config_map: Document) -> None:
        """Take this as what is stored."""
        data = {str(key): text for key, text in as_mapping(config_map.get("binaryData")).items()}
        self._changes = {key: text for key, text in self._parts.items() if data.get(key) != text}
        self._changes |= dict.fromkeys(data.keys() - self._parts.keys(), None)

    def stored(self) -> None:
        """Take note that the changes are stored."""
        self._changes = {}


def is_too_large(line: bytes) -> bool:
    """Return whether a line takes too much of a ring."""
    return len(line) > LINE or (len(line) > PACKED_LINE // 2 and len(_packed(line)) > PACKED_LINE)


def new_config_map(job: Job, changes: Document) -> dict[str, Any]:
    """Return the ConfigMap of a job with these parts, which is to be created; it goes with the job."""
    owner = {"apiVersion": job.api_version, "kind": job.kind, "name": job.name, "uid": job.uid}
    metadata = {"name": name_of(job.uid), "labels": LABELS, "ownerReferences": [owner]}
    data = {key: text for key, text in changes.items() if text is not None}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "binaryData": data}


def patch(metadata: Document, changes: Document) -> dict[str, Any]:
    """Return the merge patch for the ConfigMap of which this was the metadata: it fails if it has changed."""
    known = {"uid": metadata.get("uid"), "resourceVersion": metadata.get("resourceVersion")}
    return {"metadata": known, "binaryData": dict(changes)}


def decisions(config_map: Document) -> list[Decision]:
    """Return the decisions of a ConfigMap in their order.

    Anyone who may write ConfigMaps in the namespace may have written it: what is read is bounded, and what cannot be
    read is left out, with what needs it.
    """
    found, reader, left = list[Decision](), LineReader(), MOST_READ
    for lines in _last_lines(config_map):
        size = 0
        for line in lines:
            size += len(line)
            left -= size
            if decision := reader.read(line, unread="" if left > 0 else "there is too much to read"):
                found.append(decision)
    return found[-MOST_DECISIONS:]


def _last_lines(config_map: Document) -> list[list[bytes]]:
    """Return the lines of the last parts, as many as are read; an empty one of a part that has none."""
    found, left = deque[list[bytes]](), MOST_COUNT
    for text in reversed(_last_parts(config_map).values()):
        lines = _unpacked(text).splitlines()[:left] or [b""]
        found.appendleft(lines)
        left -= len(lines)
        if left <= 0:
            break
    return [*found]


def _last_parts(config_map: Document) -> dict[str, str]:
    """Return the last parts, as many as a ring has: others may have written very many."""
    return dict(sorted(_parts(config_map).items())[-MOST_PARTS:])


def _size(parts: dict[str, str]) -> int:
    return sum(len(key) + len(text) for key, text in parts.items())


def _moved(line: bytes, by: int, *, after_restart: bool) -> bytes:
    """Return a line with another number, and as one after a restart."""
    found = dict(parsed(line))
    found["n"] = parse_integer(found.get("n")) + by
    if after_restart:
        found["of"] = {**as_mapping(found.get("of")), "after_restart": True}
    return as_line(found)


def _key(number: int) -> str:
    return f"part-{number:08d}"


def _parts(config_map: Document) -> dict[str, str]:
    data = as_mapping(config_map.get("binaryData"))
    return {str(key): parse_text(text) for key, text in data.items() if KEY.fullmatch(str(key))}


def _packed(content: bytes) -> str:
    return base64.b64encode(gzip.compress(content, mtime=0)).decode()


def _unpacked(text: str) -> bytes:
    """Return the lines of a part, empty if it has none, or too many."""
    reader = zlib.decompressobj(GZIP)
    try:
        found = reader.decompress(base64.b64decode(text, validate=True), MOST_LINES)
    except (ValueError, zlib.error):
        return b""
    return found if reader.eof else b""
