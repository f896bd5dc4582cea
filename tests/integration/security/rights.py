"""Rights as a set that can be compared: the grants of roles, and the content of rights.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WRITTEN = Path(__file__).with_name("rights.toml")
JOBS = "kubeflow.org"
Document = dict[str, Any]


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """One verb on one resource of an API group; in one namespace, or everywhere if it has no name.

    A right that is `named` is one to objects with certain names only.
    """

    group: str
    resource: str
    verb: str
    namespace: str = ""
    named: bool = False

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        which = " of a certain name" if self.named else ""
        return f"{self.verb} {self.resource}{which}{f'.{self.group}' if self.group else ''}{where}"


@dataclass(frozen=True, slots=True)
class Line:
    """An entry of rights.toml: rights, the parts that need them (or all), why, and why no request shows them."""

    rights: frozenset[Right]
    why: str
    parts: frozenset[str] = frozenset()
    held: str = ""


def lines() -> tuple[Line, ...]:
    """The entries of rights.toml."""
    return tuple(_line(entry) for entry in tomllib.loads(WRITTEN.read_text())["right"])


def _line(entry: Document) -> Line:
    named = bool(entry.get("named"))
    rights = {
        Right(entry["group"], plural, verb, named=named) for plural in entry["resources"] for verb in entry["verbs"]
    }
    return Line(frozenset(rights), entry["why"], frozenset(entry.get("parts", ())), entry.get("held", ""))


def written(parts: Iterable[str], kinds: Iterable[str]) -> frozenset[Right]:
    """Return the rights in rights.toml for these parts and kinds of jobs, unless they are restricted to others."""
    needed, plurals = frozenset(parts), {f"{kind.lower()}s" for kind in kinds}
    found = (line.rights for line in lines() if not line.parts or line.parts & needed)
    rights = frozenset().union(*found)
    return frozenset(right for right in rights if right.group != JOBS or right.resource.partition("/")[0] in plurals)


def granted(documents: Iterable[Document], account: str) -> frozenset[Right]:
    """Return the rights that roles among the objects grant a service account, by the bindings among them."""
    listed = tuple(documents)
    found: set[Right] = set()
    for binding in listed:
        if binding["kind"] in ("RoleBinding", "ClusterRoleBinding") and _names(binding, account):
            namespace = binding["metadata"].get("namespace", "")
            found.update(_of(role_of(listed, binding), namespace))
    return frozenset(found)


def role_of(documents: Iterable[Document], binding: Document) -> Document:
    """The role that a binding refers to, which has to be there once, and in the binding's namespace."""
    reference, namespace = binding["roleRef"], binding["metadata"].get("namespace")
    (role,) = (
        document
        for document in documents
        if (document["kind"], document["metadata"]["name"]) == (reference["kind"], reference["name"])
        and document["metadata"].get("namespace") in (None, namespace)
    )
    return role


def _names(binding: Document, account: str) -> bool:
    return any((subject["kind"], subject["name"]) == ("ServiceAccount", account) for subject in binding["subjects"])


def _of(role: Document, namespace: str) -> Iterator[Right]:
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                named = bool(rule.get("resourceNames"))
                yield from (Right(group, resource, verb, namespace, named) for verb in rule["verbs"])
