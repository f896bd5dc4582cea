"""Objects in which somebody has written values of other types, or times that are none: these values are left out.

An object that cannot be decoded would be hidden by one wrong value in it: a pod that exists would be missed, and made
once more under a name that is taken.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import TypeVar

import msgspec
from msgspec import UNSET, inspect

from trainshed.api.status_schema import encodable

T = TypeVar("T")
#: What has no parts, by the name that msgspec has for it.
LEAVES: dict[type[inspect.Type], type] = {
    inspect.StrType: str,
    inspect.IntType: int,
    inspect.BoolType: bool,
    inspect.DateTimeType: datetime,
    inspect.NoneType: type(None),
}
#: What makes an object the one that it is.
IDENTITY = ("name", "namespace", "uid", "resourceVersion")
#: A number with more digits is one of no format.
DIGITS = 20


def decode(content: msgspec.Raw | bytes, wanted: type[T]) -> T:
    """The object, without the values that are not as they must be; raises `msgspec.DecodeError` for what is no object.

    This takes many times longer than msgspec's own decoder: it is for what that one refuses.
    """
    try:
        found = json.loads(bytes(content).decode(errors="replace"), parse_int=_whole)
    except (ValueError, RecursionError) as error:
        raise msgspec.DecodeError(str(error)) from error
    metadata = found.get("metadata") if isinstance(found, dict) else None
    if isinstance(metadata, dict) and not all(isinstance(metadata.get(key, ""), str) for key in IDENTITY):
        raise msgspec.DecodeError("metadata that do not say which object it is")
    return msgspec.convert(_fitting(found, inspect.type_info(wanted)), wanted)


def _fitting(found: object, wanted: inspect.Type) -> object:
    """The value without the parts that do not fit, or `UNSET` if it is itself another than it must be."""
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
