"""Decodes objects that contain values of wrong types or invalid times, without these values.

Otherwise one wrong value would hide the whole object: the operator would miss a pod that exists, and create it again
under the same name.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import TypeVar

import msgspec
from msgspec import UNSET, inspect

from trainshed.api.status_schema import encodable

T = TypeVar("T")
#: Types without parts, by their msgspec type.
LEAVES: dict[type[inspect.Type], type] = {
    inspect.StrType: str,
    inspect.IntType: int,
    inspect.BoolType: bool,
    inspect.DateTimeType: datetime,
    inspect.NoneType: type(None),
}
#: The fields of the metadata that identify an object.
IDENTITY = ("name", "namespace", "uid", "resourceVersion")
#: Digits of an integer; longer ones exceed every format of the API.
DIGITS = 20


def decode(content: msgspec.Raw | bytes, wanted: type[T]) -> T:
    """Decode an object without its invalid values; raises `msgspec.DecodeError` if it is not an object.

    This is many times slower than msgspec's decoder, so it is only for objects that msgspec's decoder rejects.
    """
    try:
        found = json.loads(bytes(content).decode(errors="replace"), parse_int=_whole)
    except (ValueError, RecursionError) as error:
        raise msgspec.DecodeError(str(error)) from error
    metadata = found.get("metadata") if isinstance(found, dict) else None
    if isinstance(metadata, dict) and not all(isinstance(metadata.get(key, ""), str) for key in IDENTITY):
        raise msgspec.DecodeError("the metadata do not identify the object")
    return msgspec.convert(_fitting(found, inspect.type_info(wanted)), wanted)


def _fitting(found: object, wanted: inspect.Type) -> object:
    """Return the value without the parts of a wrong type, `UNSET` if the value itself has a wrong type."""
    match wanted:
        case inspect.UnionType(types=types):
            return next((kept for one in types if (kept := _fitting(found, one)) is not UNSET), UNSET)
        case inspect.StructType(fields=fields):
            known = {field.encode_name: field.type for field in fields}
            return _parts(found, known)
        case inspect.ListType(item_type=kind):
            items = [_fitting(item, kind) for item in found] if isinstance(found, list) else UNSET
            return items if items is UNSET else [item for item in items if item is not UNSET]
        case inspect.DictType(value_type=kind):
            return _parts(found, dict.fromkeys(found, kind)) if isinstance(found, dict) else UNSET
    return _leaf(found, LEAVES[type(wanted)])


def _parts(found: object, known: dict[str, inspect.Type]) -> object:
    if not isinstance(found, dict):
        return UNSET
    parts = {encodable(key): _fitting(found[key], kind) for key, kind in known.items() if key in found}
    return {key: value for key, value in parts.items() if value is not UNSET}


def _leaf(found: object, wanted: type) -> object:
    try:
        return msgspec.convert(encodable(found) if isinstance(found, str) else found, wanted)
    except msgspec.ValidationError:
        return UNSET


def _whole(digits: str) -> int | None:
    return int(digits) if len(digits) <= DIGITS else None
