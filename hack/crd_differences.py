"""Compares the CRDs with training-operator's and mpi-operator's, keyword by keyword; a table says what is wanted."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from testbed.binaries import downloaded, module_folder
from trainshed.crd import definition
from trainshed.frameworks import FRAMEWORKS, MPI_VERSIONS

WANTED = Path(__file__).with_suffix(".toml")
#: The module of MPIJobs of v2beta1, in the version that docs/kinds/mpijob.md compares.
MPI_OPERATOR = ("github.com/kubeflow/mpi-operator", "v0.8.0")
#: Parts of a schema that are walked, or that say nothing about which documents are accepted.
WALKED = ("properties", "items", "additionalProperties", "description")
#: What a keyword has where it is not written.
ABSENT: dict[str, Any] = {"required": []}


@dataclass(frozen=True)
class Difference:
    """A keyword that the schemas of a field do not share; a field that one of them lacks has the keyword `field`."""

    kind: str
    path: str
    keyword: str
    theirs: Any
    own: Any

    @property
    def side(self) -> str:
        """Who has the keyword: `own`, `theirs` or `both`."""
        return "own" if self.theirs is None else "theirs" if self.own is None else "both"


@dataclass(frozen=True)
class Group:
    """Differences that are wanted for one reason: paths, where `*` is any text, keywords, and who has them.

    A path may begin with a kind and a colon; without, it is one of all kinds.
    """

    why: str
    paths: tuple[str, ...]
    keywords: tuple[str, ...]
    side: str

    def covers(self, path: str, keyword: str, found: Difference) -> bool:
        """Return whether one pattern and one keyword of the group match a difference."""
        text = f"{found.kind}:{found.path}" if ":" in path else found.path
        pattern = ".*".join(re.escape(part) for part in path.split("*"))
        return keyword == found.keyword and self.side == found.side and re.fullmatch(pattern, text) is not None

    def unused(self, found: list[Difference]) -> Iterator[str]:
        """Yield the patterns and the keywords that match no difference."""
        for path in self.paths:
            if not any(self.covers(path, keyword, one) for keyword in self.keywords for one in found):
                yield f"{path} of “{self.why}”"
        for keyword in self.keywords:
            if not any(self.covers(path, keyword, one) for path in self.paths for one in found):
                yield f"{keyword} of “{self.why}”"


def pairs() -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    """Yield a name, their CRD and the own one for each kind and version."""
    folder = module_folder("training-operator") / "manifests" / "base" / "crds"
    for framework in FRAMEWORKS:
        theirs = folder / f"kubeflow.org_{framework.plural}.yaml"
        yield framework.kind, yaml.load(theirs.read_bytes(), yaml.CSafeLoader), definition(framework)
    newer = MPI_VERSIONS["v2beta1"]
    theirs = downloaded(*MPI_OPERATOR) / "manifests" / "base" / f"kubeflow.org_{newer.plural}.yaml"
    yield f"{newer.kind}/{newer.version}", yaml.load(theirs.read_bytes(), yaml.CSafeLoader), definition(newer)


def differences() -> Iterator[Difference]:
    """Yield what the CRDs do not share: the schemas, and around them names, scope, columns and subresources."""
    for kind, theirs, own in pairs():
        for path, keyword, *values in _around(theirs["spec"], own["spec"]):
            yield Difference(kind, path, keyword, *values)
        schemas = (crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] for crd in (theirs, own))
        for path, keyword, *values in compared(*schemas):
            yield Difference(kind, path, keyword, *values)


def _around(theirs: Mapping[str, Any], own: Mapping[str, Any]) -> Iterator[tuple[str, str, Any, Any]]:
    yield from _keywords("(names)", theirs["names"], own["names"])
    for part in ("group", "scope"):
        yield from _keywords("(crd)", {part: theirs[part]}, {part: own[part]})
    yield from _keywords("(version)", *({**crd["versions"][0], "schema": None} for crd in (theirs, own)))


def compared(theirs: Mapping[str, Any], own: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str, Any, Any]]:
    """Yield path, keyword, their value and the own one; a list's items have the path `x[]`, a map's values `x{}`."""
    yield from _keywords(path, _said(theirs), _said(own))
    their_parts, own_parts = _parts(theirs), _parts(own)
    for name in their_parts | own_parts:
        inner = f"{path}{name}".removeprefix(".")
        if name in their_parts and name in own_parts:
            yield from compared(their_parts[name], own_parts[name], inner)
        else:
            yield inner, "field", *(True if name in parts else None for parts in (their_parts, own_parts))


def _keywords(path: str, theirs: Mapping[str, Any], own: Mapping[str, Any]) -> Iterator[tuple[str, str, Any, Any]]:
    for keyword in theirs | own:
        values = theirs.get(keyword, ABSENT.get(keyword)), own.get(keyword, ABSENT.get(keyword))
        if values[0] != values[1]:
            yield path, keyword, *values


def _said(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords of a node; a list of required fields has no order."""
    found = {key: value for key, value in node.items() if key not in WALKED}
    return found | ({"required": sorted(found["required"])} if "required" in found else {})


def _parts(node: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the schemas inside of a node by what they add to its path."""
    found = {f".{name}": part for name, part in node.get("properties", {}).items()}
    inner = {"[]": node.get("items"), "{}": node.get("additionalProperties")}
    return found | {name: part for name, part in inner.items() if isinstance(part, dict)}


def groups() -> list[Group]:
    """Return the wanted differences."""
    return [
        Group(item["why"], tuple(item["paths"]), tuple(item["keywords"]), item["side"])
        for item in tomllib.loads(WANTED.read_text())["group"]
    ]


def unlisted(found: list[Difference], wanted: list[Group]) -> list[Difference]:
    """Return the differences that are in no group."""
    return [
        one
        for one in found
        if not any(group.covers(path, word, one) for group in wanted for path in group.paths for word in group.keywords)
    ]
