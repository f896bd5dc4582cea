"""manifests/ for `kubectl apply -k`: the chart as it is, and what an overlay's values change of that.

The folder of an overlay holds its values. What is made from them is beside them: the objects that it adds, and patches
for those that it changes or leaves out. Where nothing is left of the base, the overlay stands alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from bed.places import ROOT
from trainshed.manifests import text

from .rendering import Document, Release, key

MANIFESTS = ROOT / "manifests"
#: The definitions of the kinds come first, and by themselves: kubectl apply -f crds/
WITHOUT_CRDS = "crds.install=false"
#: Where else than usual an overlay's objects are.
RELEASES = {"v1": Release(namespace="kubeflow")}
KUSTOMIZATION = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
BASE_SAYS = "The operator for the whole cluster: kubectl apply -f crds/ and then kubectl apply -k manifests/\n"


def files() -> Iterator[tuple[Path, str]]:
    """Every file of manifests/ that is made, and what is to be in it."""
    base = Release().sources(None, WITHOUT_CRDS)
    folder = MANIFESTS / "base"
    for name, documents in base.items():
        yield folder / name, text(*documents)
    yield folder / "kustomization.yaml", _kustomization(BASE_SAYS, {"resources": ["namespace.yaml", *base]})
    objects = [document for documents in base.values() for document in documents]
    for values in sorted((MANIFESTS / "overlays").glob("*/values.yaml")):
        yield from _overlay(values, objects)


def _overlay(values: Path, base: Sequence[Document]) -> Iterator[tuple[Path, str]]:
    folder = values.parent
    release = RELEASES.get(folder.name, Release())
    wanted = {key(document): document for document in release.documents(values, WITHOUT_CRDS)}
    there = {key(document): document for document in base}
    alone = not wanted.keys() & there.keys()
    parts: dict[str, Any] = {"resources": [] if alone else ["../../base"]}
    if added := [document for name, document in wanted.items() if name not in there]:
        parts["resources"].append("resources.yaml")
        yield folder / "resources.yaml", text(*added)
    patches = []
    for document in [] if alone else base:
        kind, _, name = key(document)
        if changes := list(_changes(document, wanted.get(key(document), document))):
            file = folder / f"{kind.lower()}-{name}.yaml"
            patches.append({"path": file.name, "target": {"kind": kind, "name": name}})
            yield file, text(changes)
    if gone := [] if alone else [_deleted(document) for name, document in there.items() if name not in wanted]:
        patches.append({"path": "deleted.yaml"})
        yield folder / "deleted.yaml", text(*gone)
    if patches:
        parts["patches"] = patches
    said = [line.removeprefix("# ") for line in values.read_text().splitlines() if line.startswith("#")]
    yield folder / "kustomization.yaml", _kustomization("\n".join([*said, ""]), parts)


def _changes(old: Any, new: Any, path: str = "") -> Iterator[dict[str, Any]]:
    """What makes the one of the other, as a JSON patch (RFC 6902)."""
    if old == new:
        return
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        old, new = dict(enumerate(old)), dict(enumerate(new))
    if not (isinstance(old, dict) and isinstance(new, dict)):
        yield {"op": "replace", "path": path, "value": new}
        return
    for name in {**old, **new}:
        inner = f"{path}/{str(name).replace('~', '~0').replace('/', '~1')}"
        if name not in new:
            yield {"op": "remove", "path": inner}
        elif name not in old:
            yield {"op": "add", "path": inner, "value": new[name]}
        else:
            yield from _changes(old[name], new[name], inner)


def _deleted(document: Document) -> Document:
    metadata = {name: value for name, value in document["metadata"].items() if name in ("name", "namespace")}
    return {"$patch": "delete", "apiVersion": document["apiVersion"], "kind": document["kind"], "metadata": metadata}


def _kustomization(says: str, parts: dict[str, Any]) -> str:
    note, _, document = text(KUSTOMIZATION | parts).partition("---\n")
    return note + "".join(f"# {line}\n" for line in says.splitlines()) + document


def load(path: Path) -> list[Document]:
    """The objects of a file."""
    return [document for document in yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader) if document]
