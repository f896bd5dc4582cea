"""manifests/ for `kubectl apply -k`: the chart with its default values as the base, and overlays for other values.

The folder of an overlay holds its values.yaml. The files generated from it are the objects that the overlay adds, and
patches for the objects that it changes or deletes. An overlay that shares no object with the base does not include it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from generate_manifests import text
from testbed.places import ROOT

from .rendering import Document, Release, key

MANIFESTS = ROOT / "manifests"
#: The CRDs are applied separately and first: kubectl apply -f crds/
WITHOUT_CRDS = "crds.install=false"
#: The releases of overlays that do not use the default release.
RELEASES = dict.fromkeys(("v1", "kubeflow"), Release(namespace="kubeflow"))
KUSTOMIZATION = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
BASE_COMMENT = "The operator for all namespaces: kubectl apply -f crds/ and then kubectl apply -k manifests/\n"


def files() -> Iterator[tuple[Path, str]]:
    """Yield each generated file of manifests/ and its content."""
    base = Release().sources(None, WITHOUT_CRDS)
    folder = MANIFESTS / "base"
    for name, documents in base.items():
        yield folder / name, text(*documents)
    yield folder / "kustomization.yaml", _kustomization(BASE_COMMENT, {"resources": ["namespace.yaml", *base]})
    objects = [document for documents in base.values() for document in documents]
    for values in sorted((MANIFESTS / "overlays").glob("*/values.yaml")):
        yield from _overlay(values, objects)


def _overlay(values: Path, base: Sequence[Document]) -> Iterator[tuple[Path, str]]:
    folder = values.parent
    release = RELEASES.get(folder.name, Release())
    wanted = {key(document): document for document in release.documents(values, WITHOUT_CRDS)}
    present = {key(document): document for document in base}
    standalone = not wanted.keys() & present.keys()
    parts: dict[str, Any] = {"resources": [] if standalone else ["../../base"]}
    if added := [document for name, document in wanted.items() if name not in present]:
        parts["resources"].append("resources.yaml")
        yield folder / "resources.yaml", text(*added)
    patches = []
    for document in [] if standalone else base:
        kind, _, name = key(document)
        if changes := list(_changes(document, wanted.get(key(document), document))):
            file = folder / f"{kind.lower()}-{name}.yaml"
            patches.append({"path": file.name, "target": {"kind": kind, "name": name}})
            yield file, text(changes)
    absent = [document for name, document in present.items() if name not in wanted and not standalone]
    if absent:
        patches.append({"path": "deleted.yaml"})
        yield folder / "deleted.yaml", text(*map(_deleted, absent))
    if patches:
        parts["patches"] = patches
    comment = [line.removeprefix("# ") for line in values.read_text().splitlines() if line.startswith("#")]
    yield folder / "kustomization.yaml", _kustomization("\n".join([*comment, ""]), parts)


def _changes(old: Any, new: Any, path: str = "") -> Iterator[dict[str, Any]]:
    """Yield the operations of a JSON patch (RFC 6902) that turns `old` into `new`."""
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


def _kustomization(comment: str, parts: dict[str, Any]) -> str:
    note, _, document = text(KUSTOMIZATION | parts).partition("---\n")
    return note + "".join(f"# {line}\n" for line in comment.splitlines()) + document


def load(path: Path) -> list[Document]:
    """Return the objects of a file."""
    return [document for document in yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader) if document]
