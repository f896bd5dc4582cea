"""The objects in a file: each with apiVersion, kind and metadata, those in Lists included."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from . import reader
from .nodes import BadManifest, Node
from .reader import Document, Value

#: The parts of the path of a field: names, and what stands in brackets.
PARTS = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


@dataclass(frozen=True, slots=True)
class ManifestSource:
    """The text of a document, its first line, the file and number, and the path of an object in it, if it is a list."""

    document: Document
    file: str
    path: str

    @property
    def inside(self) -> str:
        """What a place says of an object in a list."""
        return f", {self.path}" if self.path else ""

    def line_of(self, path: str) -> int:
        """Return the line of a field, or of the nearest one around it; 0 if there is none."""
        node, line = reader.root(self.document.source), 0
        for number, part in enumerate(_parts(self.path) + _parts(path)):
            found = _inner(node.target or node, part) if node else None
            if found is None:
                break
            key, node = found
            line = key.line if number >= len(_parts(self.path)) else 0
        return line + self.document.first if node and line else 0


def _parts(path: str) -> list[str]:
    return [inside or name for inside, name in PARTS.findall(path)]


def _inner(node: Node, part: str) -> tuple[Node, Node] | None:
    """Return the key and the value of a field, or an item of a list by its number or its name; None without it."""
    if node.pairs is not None:
        first = part.partition(",")[0]  # of several roles
        return next((pair for pair in node.pairs if pair[0].text in (part, first)), None)
    if part.isdecimal():
        found = node.items[int(part)] if int(part) < len(node.items) else None
    else:
        named = ((item, _inner(item.target or item, "name")) for item in node.items)
        found = next((item for item, name in named if name and name[1].text == part), None)
    return (found, found) if found else None


@dataclass(frozen=True, slots=True)
class Manifest:
    """An object of a file; `place` says where it stands, for errors and notes."""

    document: dict[str, Any]
    place: str
    source: ManifestSource | None = None

    def place_of(self, path: str) -> str:
        """Return where a field stands, or else the nearest one around it; without a line if there is none."""
        if self.source is None:
            return self.place
        line = self.source.line_of(path)
        return f"{self.source.file}{f', line {line}' if line else ''}{self.source.inside}"

    @property
    def head(self) -> tuple[str, str]:
        """The apiVersion and the kind."""
        return self.document["apiVersion"], self.document["kind"]

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata, empty if there are none."""
        return self.document.get("metadata") or {}

    def __str__(self) -> str:
        """Return apiVersion, kind and name, with the name's beginning if it is generated."""
        generated = self.metadata.get("generateName")
        name = self.metadata.get("name") or (f"{generated}…" if generated else "(no name)")
        return f"{' '.join(self.head)} {name}"


def read(content: bytes | str, file: str) -> list[Manifest]:
    """Return the objects of a file of this name; raises `BadManifest` with file, document and line."""
    return [
        found
        for document in _documents(content, file)
        for found in _objects(document.value, ManifestSource(document, f"{file}, document {document.number}", ""))
    ]


def _documents(content: bytes | str, file: str) -> Iterator[Document]:
    number = 0
    try:
        for document in reader.documents(content if isinstance(content, str) else reader.text(content)):
            number = document.number
            yield document
    except BadManifest as error:
        place = f", document {number + 1}, line {error.line}:" if error.line else ""
        raise BadManifest(f"{file}{place} {error.problem}") from None


def _objects(value: Value, source: ManifestSource, parent: tuple[str, str] | None = None) -> Iterator[Manifest]:
    """Yield an object, or the items of a list; raises `BadManifest`.

    As for kubectl, whatever has items is a list, and items without apiVersion and kind have those of the list.
    """
    place, path = f"{source.file}, line {source.document.line}", source.path
    if not isinstance(value, dict):
        raise _problem(place, path, f"must be a mapping with apiVersion, kind and metadata, not {_type(value)}")
    if parent and not value.get("apiVersion") and not value.get("kind"):
        value = {**value, "apiVersion": parent[0], "kind": parent[1]}
    for name in ("apiVersion", "kind"):
        if value.get(name) in (None, ""):
            raise _problem(place, path, f"{name} is missing")
        if not isinstance(value[name], str):
            raise _problem(place, path, f"{name} must be a text, not {_type(value[name])}")
    metadata = value.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise _problem(place, path, f"metadata must be a mapping, not {_type(metadata)}")
    if "items" not in value:
        yield Manifest(value, f"{place}{source.inside}", source)
        return
    items = value["items"] if value["items"] is not None else []
    if not isinstance(items, list):
        raise _problem(place, path, f"items must be a list, not {_type(items)}")
    of = value["apiVersion"], value["kind"].removesuffix("List")
    for index, item in enumerate(items):
        yield from _objects(item, replace(source, path=f"{path}{'.' if path else ''}items[{index}]"), of)


def _problem(place: str, path: str, what: str) -> BadManifest:
    return BadManifest(f"{place}: {f'{path}: ' if path else ''}{what}")


def _type(value: Value) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, (dict, list)):
        return "a mapping" if isinstance(value, dict) else "a list"
    return f"{'the text' if isinstance(value, str) else 'the number'} {value!r:.40}"
