"""Digests that stand for large parts of objects of which only equality matters."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec

from .quantities import MAX_LENGTH, parse_quantity


class Digest(msgspec.Struct, frozen=True):
    """Stands for a value that is too large to be kept."""

    content: bytes


#: The most parts of a value of which the notation does not matter: a thousand take up to 6 ms, and who may create
#: ConfigMaps can make the operator read them. What the operator writes with more of them has no quantities.
MOST_PARTS = 4096


class _TooManyParts(Exception):
    pass


def digest_of(value: object) -> Digest:
    """Return the digest of a value of JSON; values have the same one if API servers take one for the other.

    These write quantities in another notation, leave out fields that are empty, zero or false, and do not keep the
    order of keys. Fields that a server adds make another value.
    """
    try:
        plain = _Plain().part(value)
    except (_TooManyParts, ValueError, RecursionError):
        plain = value
    try:
        text = msgspec.json.encode(plain, order="deterministic")
    except (TypeError, ValueError, OverflowError, RecursionError):
        text = b""  # no value that the operator writes
    return Digest(hashlib.blake2b(text, digest_size=16).digest())


class _Plain:
    """Makes a value with each quantity in one notation, and without the fields that a server may leave out."""

    def __init__(self) -> None:
        self._parts = 0

    def part(self, value: object) -> object:
        self._parts += 1
        if self._parts > MOST_PARTS:
            raise _TooManyParts
        if isinstance(value, str):
            is_number = value and len(value) <= MAX_LENGTH and value[0] in "+-.0123456789"
            return _amount(value) if is_number else value
        if isinstance(value, Mapping):
            parts = ((key, self.part(part)) for key, part in value.items())
            return {key: part for key, part in parts if part and part != "0"}
        if isinstance(value, (list, tuple)):
            return [self.part(part) for part in value]
        return value if value is None or isinstance(value, bool) else _amount(value)


def _amount(value: object) -> object:
    amount = parse_quantity(value)
    return value if amount is None else f"{amount.normalize():f}"
