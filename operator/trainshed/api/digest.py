"""Digests that stand for large parts of objects of which only equality matters."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec
import orjson

from .coerce import ESCAPED
from .objects import LAST_APPLIED_HASH
from .quantities import MAX_LENGTH, parse_quantity


class Digest(msgspec.Struct, frozen=True):
    """Stands for a value that is too large to be kept; `of_text` if it is that of the JSON of an API server.

    It is `as_is` if the value has too many parts to be rewritten. `names` are the keys of a mapping that has few.
    """

    content: bytes
    of_text: bool = False
    as_is: bool = False
    names: tuple[str, ...] = ()

    def stands_for(self, value: object) -> bool:
        """Return whether it is the digest of this value."""
        if self.of_text:
            return self.content == text_digest(_written(value)).content
        return self.content == (_as_is(value) if self.as_is else digest_of(value)).content


#: Bytes of the digest of an entry.
ENTRY_SIZE = 8


class ManyTexts(msgspec.Struct, frozen=True):
    """Stands for labels or annotations that are too large to be kept, in which others write entries of their own.

    `applied` is the operator's `LAST_APPLIED_HASH`. `entries` are the digests of the entries, one after the other; of
    very many there is the digest of all, `whole`.
    """

    applied: str | None = None
    entries: bytes = b""
    whole: Digest | None = None

    def stands_for(self, wanted: Mapping[str, str]) -> bool:
        """Return whether it has these entries; of very many, whether the operator has written them."""
        if self.whole is None:
            there = {self.entries[at : at + ENTRY_SIZE] for at in range(0, len(self.entries), ENTRY_SIZE)}
            return all(_entry_digest(*entry) in there for entry in wanted.items())
        if LAST_APPLIED_HASH in wanted:
            return self.applied == wanted[LAST_APPLIED_HASH]
        return self.whole.stands_for(wanted)


def many_texts(applied: str | None, texts: Mapping[str, str]) -> ManyTexts:
    """Return what stands for these labels or annotations."""
    return ManyTexts(applied, b"".join(_entry_digest(*entry) for entry in texts.items()))


def _entry_digest(key: str, value: str) -> bytes:
    return hashlib.blake2b(f"{key}\0{value}".encode(errors="replace"), digest_size=ENTRY_SIZE).digest()


def has_digest(value: object) -> bool:
    """Return whether a part of the value is known only as a digest."""
    if isinstance(value, Mapping):
        return any(map(has_digest, value.values()))
    if isinstance(value, list):
        return any(map(has_digest, value))
    return isinstance(value, (Digest, ManyTexts))


#: The most parts of an object of which the notation does not matter, and the most quantities among them: a thousand
#: take up to 6 ms, and who may create ConfigMaps can make the operator read them. What the operator writes with more
#: parts has no quantities.
MOST_PARTS, MOST_AMOUNTS = 4096, 1024


class _TooManyParts(Exception):
    pass


def digest_of(value: object, notation: Notation | None = None) -> Digest:
    """Return the digest of a value of JSON; values have the same one if API servers take one for the other.

    These write quantities in another notation, leave out fields that are empty, zero or false, and do not keep the
    order of keys. Fields that a server adds make another value. Digests of parts of one object share its `notation`.
    """
    if isinstance(value, str) and len(value) > MAX_LENGTH:
        return Digest(_content(value))
    try:
        return Digest(_content((notation or Notation()).plain(value)))
    except (_TooManyParts, ValueError, RecursionError):
        return _as_is(value)


def _as_is(value: object) -> Digest:
    return Digest(_content(value), as_is=True)


def _content(value: object) -> bytes:
    return _hash(b'"', value.encode(errors="replace")) if isinstance(value, str) else _hash(_json(value))


def text_digest(text: bytes) -> Digest:
    """Return the digest of the JSON of an API server, which has neither quantities nor fields that servers add."""
    return Digest(_hash(text), of_text=True)


def _hash(*texts: bytes) -> bytes:
    found = hashlib.blake2b(digest_size=16)
    for text in texts:
        found.update(text)
    return found.digest()


def _json(value: object) -> bytes:
    """Return the value as JSON with sorted keys; empty for a value that the operator does not write.

    msgspec sorts with a recursion that ends the process for some orders of a hundred thousand keys.
    """
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except (TypeError, RecursionError):
        return b""


def _written(value: object) -> bytes:
    """Return the value as an API server writes it: Go escapes some characters."""
    text = _json(value)
    for mark in ESCAPED:
        text = text.replace(mark.encode(), b"\\u%04x" % ord(mark))
    return text


class Notation:
    """Makes values with each quantity in one notation, and without the fields that a server may leave out.

    All values of an object together have few parts: who may create a Role can give it many lists.
    """

    def __init__(self) -> None:
        self._parts = self._amounts = 0

    def plain(self, value: object) -> object:
        """Return the value in this notation; raises an exception for too many parts."""
        self._parts += 1
        if self._parts > MOST_PARTS:
            raise _TooManyParts
        if isinstance(value, str):
            is_number = value and len(value) <= MAX_LENGTH and value[0] in "+-.0123456789"
            return self._amount(value) if is_number else value
        if isinstance(value, Mapping):
            parts = ((key, self.plain(part)) for key, part in value.items())
            return {key: part for key, part in parts if part and part != "0"}
        if isinstance(value, (list, tuple)):
            return [self.plain(part) for part in value]
        return value if value is None or isinstance(value, bool) else self._amount(value)

    def _amount(self, value: object) -> object:
        self._amounts += 1
        if self._amounts > MOST_AMOUNTS:
            raise _TooManyParts
        amount = parse_quantity(value)
        return value if amount is None else f"{amount.normalize():f}"
