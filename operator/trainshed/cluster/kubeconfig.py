"""Reads a kubeconfig; whatever is wrong with it is an error that names the file and the field, and no secret of it."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml


class BadKubeconfig(Exception):
    """A kubeconfig, or a field of it, cannot be used."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the kubeconfig at `path`: the whole file, a context, a cluster or a user."""

    path: Path
    name: str
    fields: Mapping[str, Any]

    def problem(self, field: str, what: str) -> BadKubeconfig:
        """The error that says what is wrong with a field."""
        return BadKubeconfig(f"{self.path}: {self.name}{field} {what}")

    def named(self, field: str, name: str) -> Section:
        """The content of the item with this name in a list such as `users`."""
        items = self.fields.get(field) or ()
        if not isinstance(items, (list, tuple)):
            raise self.problem(field, "is not a list")
        found = next((item for item in items if isinstance(item, Mapping) and item.get("name") == name), None)
        if found is None:
            raise self.problem(field, f"has no item named {name!r}")
        kind = field.removesuffix("s")
        content = found.get(kind) or {}
        if not isinstance(content, Mapping):
            raise self.problem(f"{field}[{name}].{kind}", "has no fields")
        return Section(self.path, f"{field}[{name}].{kind}.", content)

    def text(self, field: str) -> str:
        """The text of a field; empty if the field is not there."""
        value = self.fields.get(field)
        if isinstance(value, (Mapping, list)):
            raise self.problem(field, "is not text")
        return "" if value is None else str(value)

    def flag(self, field: str) -> bool:
        """Whether a field is true; a text such as "false" is neither true nor false."""
        value = self.fields.get(field)
        if value is not None and not isinstance(value, bool):
            raise self.problem(field, "is neither true nor false")
        return bool(value)

    def file(self, field: str) -> tuple[str, bytes]:
        """The path of the file that a field names, relative to the kubeconfig, or the data that stands in its place."""
        data = self.text(f"{field}-data")
        if data:
            try:
                return "", base64.b64decode("".join(data.split()), validate=True)
            except ValueError:
                raise self.problem(f"{field}-data", "is not base64") from None
        if not self.text(field):
            return "", b""
        path = self.path.parent / self.text(field)
        try:
            path.open("rb").close()
        except OSError as error:
            raise self.problem(field, f"names {path}, which cannot be read: {error.strerror}") from None
        return str(path), b""


def read(path: Path) -> Section:
    """The whole file. Of a YAML error only the number of the line is named, because the text may hold a token."""
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise BadKubeconfig(f"{path} is not YAML: line {line} cannot be read") from None
    except OSError as error:
        raise BadKubeconfig(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, yaml.YAMLError):
        raise BadKubeconfig(f"{path} is not text in UTF-8") from None
    if not isinstance(config, Mapping):
        raise BadKubeconfig(f"{path} is not a kubeconfig: it has no fields")
    return Section(path, "", config)
