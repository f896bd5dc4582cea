"""Decodes the sections of dependents that are compared with what a job needs; of large parts only digests are kept.

Who may create ConfigMaps can make the operator read large ones: a part with many values is not decoded at all.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Raw

from trainshed.api.digest import digest_of, text_digest
from trainshed.api.job import Document

from .nesting import cut_nesting, decode_bounded

T = TypeVar("T")
#: Bytes of an object, of a section and of an entry of a section that are kept as they are, and entries of a section.
#: Of more there is a digest: anyone who can create ConfigMaps can fill the memory with them otherwise.
WHOLE_OBJECT, WHOLE_SECTION, WHOLE_ENTRY, MOST_ENTRIES = 16 * 1024, 8 * 1024, 1024, 256
#: Values of a section that are decoded (commas, or brackets of one kind), and keys (colons). Of one that has more there
#: is the digest of its text: what the operator writes with more are names and texts, which servers write in one way.
MOST_VALUES, MOST_KEYS = 8192, 4096
#: Bytes in which marks are counted at a time.
PIECE = 16 * 1024
ABSENT, EMPTY = Raw(b""), Raw(b"{}")


class _Texts(msgspec.Struct):
    labels: Raw = EMPTY
    annotations: Raw = EMPTY


class _Sections(msgspec.Struct, rename="camel"):
    metadata: Raw = EMPTY
    data: Raw = ABSENT
    immutable: Raw = ABSENT
    spec: Raw = ABSENT
    status: Raw = ABSENT
    rules: Raw = ABSENT
    subjects: Raw = ABSENT
    role_ref: Raw = ABSENT


#: The sections by their names in JSON.
NAMES = {field.encode_name: field.name for field in msgspec.structs.fields(_Sections) if field.name != "metadata"}
OBJECTS, TEXTS = msgspec.json.Decoder(_Sections), msgspec.json.Decoder(_Texts)
VALUES, ENTRIES = msgspec.json.Decoder(), msgspec.json.Decoder(dict[str, Raw])
LISTS = msgspec.json.Decoder(list[dict[str, Raw]])


def sections(content: Raw | bytes) -> Document:
    """Return the sections of an object, and its labels and annotations; digests are in place of large parts."""
    keep = value_of if len(content) <= WHOLE_OBJECT else _part
    found = _undecoded(OBJECTS, content)
    texts = _undecoded(TEXTS, found.metadata)
    metadata = {"labels": keep(texts.labels), "annotations": keep(texts.annotations)}
    parts = ((name, getattr(found, field)) for name, field in NAMES.items())
    return {"metadata": metadata} | {name: keep(part) for name, part in parts if part is not ABSENT}


def entries_of(content: Raw | bytes) -> dict[str, Raw]:
    """Return the fields of an object, undecoded."""
    return _undecoded(ENTRIES, content)


def _undecoded(decoder: msgspec.json.Decoder[T], content: Raw | bytes) -> T:
    try:
        return decoder.decode(content)
    except RecursionError:
        return decoder.decode(cut_nesting(bytes(content)))


def value_of(content: Raw) -> object:
    """Return a value, without the parts that are nested too deeply."""
    return decode_bounded(VALUES, content)


def _part(content: Raw) -> object:
    """Return a section of a large object."""
    text = bytes(content)
    if len(text) <= WHOLE_SECTION:
        return value_of(content)
    has_few_keys = _has_at_most(MOST_KEYS, text, b":")
    if text.startswith(b"{") and has_few_keys and len(entries := entries_of(content)) <= MOST_ENTRIES:
        return {key: _entry(value) for key, value in entries.items()}
    if text.startswith(b"[{") and _has_at_most(MOST_ENTRIES, text, b":") and not _has_few_values(text):
        return [{key: _entry(value) for key, value in one.items()} for one in _undecoded(LISTS, content)]
    return _digest(content, text)


def _entry(content: Raw) -> object:
    return value_of(content) if len(content) <= WHOLE_ENTRY else _digest(content, bytes(content))


def _digest(content: Raw, text: bytes) -> object:
    """Return the digest of the value, of one with many values that of the text."""
    return digest_of(value_of(content)) if text.startswith(b'"') or _has_few_values(text) else text_digest(text)


def _has_few_values(text: bytes) -> bool:
    """Return whether a text has few values: each follows a comma or a bracket."""
    return all(_has_at_most(MOST_VALUES, text, mark) for mark in (b",", b"[", b"{"))


def _has_at_most(most: int, text: bytes, mark: bytes) -> bool:
    """Return whether a text has few of these marks; it is read to the end only if it has."""
    found = 0
    return all(
        (found := found + text.count(mark, start, start + PIECE)) <= most for start in range(0, len(text), PIECE)
    )
