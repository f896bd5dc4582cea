"""Decodes the sections of dependents that are compared with what a job needs; of large parts only digests are kept.

Who may create ConfigMaps can make the operator read large ones: a part with many values is not decoded at all.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TypeVar

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from trainshed.api.digest import Digest, ManyTexts, Notation, digest_of, many_texts, text_digest
from trainshed.api.job import Document
from trainshed.api.objects import LAST_APPLIED_HASH

from .nesting import cut_nesting, decode_bounded

T = TypeVar("T")
#: Bytes of an object, of a section and of an entry of a section that are kept as they are, and entries of a section.
#: Of more there is a digest: anyone who can create ConfigMaps can fill the memory with them otherwise.
WHOLE_OBJECT, WHOLE_SECTION, WHOLE_ENTRY, MOST_ENTRIES = 16 * 1024, 8 * 1024, 1024, 256
#: Values of a section that are decoded (commas, or brackets of one kind), and keys (colons). Of one that has more there
#: is the digest of its text: what the operator writes with more are names and texts, which servers write in one way.
MOST_VALUES, MOST_KEYS = 8192, 4096
#: Labels or annotations of a large object of each of which there is a digest; of more there is one of all.
MOST_TEXTS = 2048
#: Bytes of the names of fields that are kept of a part of which there is a digest, with those of each name besides.
MOST_NAMES, NAME = 1024 * 32, 64
#: Bytes in which marks are counted at a time.
PIECE = 16 * 1024
ABSENT, EMPTY = Raw(b""), Raw(b"{}")


class _Texts(msgspec.Struct):
    labels: Raw = EMPTY
    annotations: Raw = EMPTY


class _Applied(msgspec.Struct):
    value: str | None = msgspec.field(name=LAST_APPLIED_HASH, default=None)


class _FewTexts(msgspec.Struct):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Sections(msgspec.Struct, rename="camel"):
    metadata: Raw = EMPTY
    data: Raw = ABSENT
    immutable: Raw = ABSENT
    spec: Raw = ABSENT
    status: Raw = ABSENT
    rules: Raw = ABSENT
    subjects: Raw = ABSENT
    role_ref: Raw = ABSENT


#: The names of the sections in JSON and here, without the metadata.
NAMES = tuple((field.encode_name, field.name) for field in msgspec.structs.fields(_Sections)[1:])
OBJECTS, TEXTS, FEW_TEXTS = map(msgspec.json.Decoder, (_Sections, _Texts, _FewTexts))
APPLIED, STRINGS = msgspec.json.Decoder(_Applied), msgspec.json.Decoder(dict[str, str])
VALUES, ENTRIES = msgspec.json.Decoder(), msgspec.json.Decoder(dict[str, Raw])
LISTS = msgspec.json.Decoder(list[dict[str, Raw]])


def sections(content: Raw | bytes) -> Document:
    """Return the sections of an object, and its labels and annotations; digests are in place of large parts."""
    small = len(content) <= WHOLE_OBJECT
    keep = value_of if small else _Parts().part
    parts = _undecoded(OBJECTS, content)
    found: dict[str, object] = {"metadata": _texts(parts.metadata, small=small)}
    for name, field in NAMES:
        if (part := getattr(parts, field)) is not ABSENT:
            found[name] = keep(part)
    return found


def _texts(metadata: Raw, *, small: bool) -> Document:
    if small:
        with suppress(msgspec.ValidationError, RecursionError):
            few = FEW_TEXTS.decode(metadata)
            return {"labels": few.labels or {}, "annotations": few.annotations or {}}
    texts = _undecoded(TEXTS, metadata)
    return {"labels": _many(texts.labels), "annotations": _many(texts.annotations)}


def _many(content: Raw) -> object:
    """Return labels or annotations of a large object."""
    text = bytes(content)
    if len(text) <= WHOLE_SECTION:
        return value_of(content)
    applied = APPLIED.decode(content).value
    if all(_has_at_most(MOST_TEXTS, text, mark) for mark in (b'":"', b'": "')):  # a value has no quote unescaped
        return many_texts(applied, STRINGS.decode(content))
    return ManyTexts(applied, whole=text_digest(text))


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


class _Parts:
    """Reads the sections of a large object."""

    def __init__(self) -> None:
        self._names, self._notation = MOST_NAMES, Notation()

    def part(self, content: Raw) -> object:
        """Return a section."""
        text = bytes(content)
        if len(text) <= WHOLE_SECTION:
            return value_of(content)
        has_few_keys = _has_at_most(MOST_KEYS, text, b":")
        if text.startswith(b"{") and has_few_keys and len(entries := entries_of(content)) <= MOST_ENTRIES:
            return {key: self._entry(value) for key, value in entries.items()}
        if text.startswith(b"[{") and _has_at_most(MOST_ENTRIES, text, b":") and not _has_few_values(text):
            return [{key: self._entry(value) for key, value in one.items()} for one in _undecoded(LISTS, content)]
        return self._digest(content, text)

    def _entry(self, content: Raw) -> object:
        return value_of(content) if len(content) <= WHOLE_ENTRY else self._digest(content, bytes(content))

    def _digest(self, content: Raw, text: bytes) -> Digest:
        """Return the digest of the value, of one with many values that of the text."""
        if not (text.startswith(b'"') or _has_few_values(text)):
            return text_digest(text)
        value = value_of(content)
        return replace(digest_of(value, self._notation), names=self._names_of(value))

    def _names_of(self, value: object) -> tuple[str, ...]:
        """Return the keys of a mapping, without which none can be removed; none of one with too many."""
        if not isinstance(value, dict):
            return ()
        size = sum(len(name) + NAME for name in value)
        if size > self._names:
            return ()
        self._names -= size
        return tuple(value)


def _has_few_values(text: bytes) -> bool:
    """Return whether a text has few values: each follows a comma or a bracket."""
    return all(_has_at_most(MOST_VALUES, text, mark) for mark in (b",", b"[", b"{"))


def _has_at_most(most: int, text: bytes, mark: bytes) -> bool:
    """Return whether a text has few of these marks; it is read to the end only if it has."""
    found = 0
    return all(
        (found := found + text.count(mark, start, start + PIECE)) <= most for start in range(0, len(text), PIECE)
    )
