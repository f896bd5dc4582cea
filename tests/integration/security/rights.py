"""Rights as a set that can be compared: the grants of roles, and the content of rights.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WRITTEN = Path(__file__).with_name("rights.toml")
JOBS = "kubeflow.org"
#: The service accounts of the operator, and of the page for a team.
OPERATOR, PAGE = "trainshed", "trainshed-ui"
Document = dict[str, Any]


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """One verb on one resource of an API group; in one namespace, or everywhere if it has no name.

    A right that is `named` is one to objects with certain names only. `resource` is a path, if it begins with a slash.
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
    """An entry of rights.toml: whose rights, the parts that need them (or all), why, and why no request shows them."""

    rights: frozenset[Right]
    why: str
    parts: frozenset[str] = frozenset()
    held: str = ""
    account: str = OPERATOR


def lines() -> tuple[Line, ...]:
    """The entries of rights.toml."""
    return tuple(_line(entry) for entry in tomllib.loads(WRITTEN.read_text())["right"])


def _line(entry: Document) -> Line:
    named = bool(entry.get("named"))
    what = (*entry.get("resources", ()), *entry.get("urls", ()))
    rights = frozenset(Right(entry["group"], one, verb, named=named) for one in what for verb in entry["verbs"])
    parts, account = frozenset(entry.get("parts", ())), entry.get("account", OPERATOR)
    return Line(rights, entry["why"], parts, entry.get("held", ""), account)


def written(parts: Iterable[str], kinds: Iterable[str], account: str = OPERATOR) -> frozenset[Right]:
    """Return the rights of an account in rights.toml for these parts and kinds of jobs."""
    needed, plurals = frozenset(parts), {f"{kind.lower()}s" for kind in kinds}
    mine = (line for line in lines() if line.account == account)
    found = (line.rights for line in mine if not line.parts or line.parts & needed)
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
        named = bool(rule.get("resourceNames"))
        for group in rule.get("apiGroups", ("",)):
            for resource in (*rule.get("resources", ()), *rule.get("nonResourceURLs", ())):
                yield from (Right(group, resource, verb, namespace, named) for verb in rule["verbs"])
