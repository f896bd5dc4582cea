"""Shortens the lists of large objects before they are decoded: others may give them entries without number."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from itertools import islice

import msgspec
from msgspec.structs import fields

from .decode import MAX_CONTAINERS, MAX_FINALIZERS
from .metadata import ObjectMeta

#: Bytes of an object whose lists are decoded whatever they have, and entries of a list of a larger one. Kubelets write
#: shorter lists; a longer one is left out.
LARGE, MOST_ENTRIES = 256 * 1024, MAX_CONTAINERS
#: Finalizers that are decoded: enough to see that too many are those of others, wherever the operator's own is.
FINALIZERS = MAX_FINALIZERS + 2
STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"')
ABSENT = msgspec.Raw(b"null")


class _Object(msgspec.Struct):
    metadata: msgspec.Raw
    spec: msgspec.Raw = ABSENT
    status: msgspec.Raw = ABSENT


class _Entry(msgspec.Struct, gc=False):
    """An entry that is only counted."""


class _Reference(msgspec.Struct, gc=False):
    controller: bool = False


OBJECTS, COUNTER = msgspec.json.Decoder(_Object), msgspec.json.Decoder(list[_Entry])
FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw] | None)
REFERENCES, RAW_REFERENCES = msgspec.json.Decoder(list[_Reference]), msgspec.json.Decoder(list[msgspec.Raw])


def shortened(content: msgspec.Raw | bytes, sections: Mapping[str, type[msgspec.Struct]]) -> msgspec.Raw | bytes:
    """Return an object with the metadata and these sections that are decoded, without other fields and long lists.

    Of the owner references of a large object only the controller is left, of the finalizers the first ones. Raises
    `msgspec.DecodeError` if it is not an object.
    """
    if len(content) <= LARGE:
        return content
    try:
        found = OBJECTS.decode(content)
        parts = {"metadata": _metadata(_fields(found.metadata, ObjectMeta))}
        for section, kind in sections.items():
            there = _fields(getattr(found, section), kind)
            parts[section] = {name: part for name, part in there.items() if not _is_long(part)}
    except RecursionError:
        return content
    return msgspec.json.encode(parts)


def _fields(content: msgspec.Raw, kind: type[msgspec.Struct]) -> dict[str, msgspec.Raw]:
    found = FIELDS.decode(content) or {}
    return {name: found[name] for name in _names(kind) if name in found}


@cache
def _names(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(field.encode_name for field in fields(kind))


def _metadata(there: dict[str, msgspec.Raw]) -> dict[str, msgspec.Raw]:
    finalizers, owners = there.get("finalizers"), there.get("ownerReferences")
    if finalizers and bytes(finalizers).count(b",") >= FINALIZERS:
        first = (mark[0] for mark in islice(STRING.finditer(bytes(finalizers)), FINALIZERS))
        there["finalizers"] = msgspec.Raw(b"[" + b",".join(first) + b"]")
    if owners and bytes(owners).count(b"{") > MOST_ENTRIES:
        there["ownerReferences"] = _controller(owners)
    return there


def _controller(owners: msgspec.Raw) -> msgspec.Raw:
    found = REFERENCES.decode(owners) if b'"controller"' in bytes(owners) else ()
    place = next((number for number, one in enumerate(found) if one.controller), None)
    return ABSENT if place is None else msgspec.Raw(b"[" + bytes(RAW_REFERENCES.decode(owners)[place]) + b"]")


def _is_long(content: msgspec.Raw) -> bool:
    text = bytes(content)
    return text.startswith(b"[") and text.count(b"{") > MOST_ENTRIES and len(COUNTER.decode(text)) > MOST_ENTRIES
