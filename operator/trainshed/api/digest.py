"""Digests that stand for large parts of objects of which only equality matters."""

from __future__ import annotations

import hashlib

import msgspec


class Digest(msgspec.Struct, frozen=True):
    """Stands for a value that is too large to be kept."""

    content: bytes


def digest_of(value: object) -> Digest:
    """Return the digest of a value of JSON: equal values have equal ones, whatever the order of their keys."""
    try:
        text = msgspec.json.encode(value, order="deterministic")
    except (TypeError, ValueError, OverflowError, RecursionError):
        text = b""  # no value that the operator writes
    return Digest(hashlib.blake2b(text, digest_size=16).digest())
