"""Reads a kubeconfig. Errors name the file and the field, and never quote a secret."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml


class BadKubeconfig(Exception):
    """A kubeconfig, or one of its fields, is invalid."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the kubeconfig at `path`: the whole file, a context, a cluster or a user; `name` is for errors."""

    path: Path
    name: str
    fields: Mapping[str, Any]

    def problem(self, field: str, what: str) -> BadKubeconfig:
        """Return the error about a field."""
        return BadKubeconfig(f"{self.path}: {self.name}{field} {what}")

    def named(self, field: str, name: str) -> Section:
        """Return the content of the entry with this name in a list such as `users`; raises `BadKubeconfig`."""
        items = self.fields.get(field) or ()
        if not isinstance(items, (list, tuple)):
            raise self.problem(field, "must be a list")
        found = next((item for item in items if isinstance(item, Mapping) and item.get("name") == name), None)
        if found is None:
            raise self.problem(field, f"has no entry named {name!r}")
        kind = field.removesuffix("s")
        content = found.get(kind) or {}
        if not isinstance(content, Mapping):
            raise self.problem(f"{field}[{name}].{kind}", "must be a mapping")
        return Section(self.path, f"{field}[{name}].{kind}.", content)

    def text(self, field: str) -> str:
        """Return the value of a field as text, empty if the field is absent; raises `BadKubeconfig`."""
        value = self.fields.get(field)
        if isinstance(value, (Mapping, list)):
            raise self.problem(field, "must be a string")
        return "" if value is None else str(value)

    def flag(self, field: str) -> bool:
        """Return the value of a boolean field; raises `BadKubeconfig` for a string such as "false"."""
        value = self.fields.get(field)
        if value is not None and not isinstance(value, bool):
            raise self.problem(field, "must be true or false")
        return bool(value)

    def file(self, field: str) -> tuple[str, bytes]:
        """Return the path of the file that a field names, relative to the kubeconfig, and the data of `<field>-data`.

        Data take precedence, as in client-go, and the path is empty then. Raises `BadKubeconfig`.
        """
        data = self.text(f"{field}-data")
        if data:
            try:
                return "", base64.b64decode("".join(data.split()), validate=True)
            except ValueError:
                raise self.problem(f"{field}-data", "is not valid base64") from None
        if not self.text(field):
            return "", b""
        path = self.path.parent / self.text(field)
        try:
            path.open("rb").close()
        except OSError as error:
            raise self.problem(field, f"refers to {path}, which cannot be read: {error.strerror}") from None
        return str(path), b""


def read(path: Path) -> Section:
    """Read the whole file. A YAML error gives only the number of the line, because the text may contain a token.

    Raises:
        BadKubeconfig: The file cannot be read, or is not a kubeconfig.
    """
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise BadKubeconfig(f"{path} is not valid YAML: syntax error in line {line}") from None
    except OSError as error:
        raise BadKubeconfig(f"cannot read kubeconfig {path}: {error.strerror}") from None
    except (ValueError, yaml.YAMLError):
        raise BadKubeconfig(f"{path} is not UTF-8 text") from None
    if not isinstance(config, Mapping):
        raise BadKubeconfig(f"{path} is not a kubeconfig: its top level is not a mapping")
    return Section(path, "", config)
