"""What the chart becomes: its objects for a set of values, as `helm template` has them."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bed.binaries import binary

from .values import CHART

Document = dict[str, Any]
#: What says who installed an object, and nothing of it: neither kustomize nor a reader of a rendering wants to see it.
HELMS_OWN = frozenset(("app.kubernetes.io/managed-by", "helm.sh/chart"))
#: What `helm template` writes above each object.
SOURCE = re.compile(r"^---\n# Source: \S+/templates/(\S+)\n", re.MULTILINE)


class Refused(Exception):
    """Helm does not render it: the text is Helm's."""


@dataclass(frozen=True)
class Release:
    """Which release is rendered, where, and by which Helm: 3 or 4."""

    name: str = "trainshed"
    namespace: str = "trainshed-system"
    helm: int = 4

    def sources(self, values: Path | None = None, *sets: str) -> dict[str, list[Document]]:
        """The objects with these values by their template, without what is Helm's own; raises `Refused`."""
        words = [word for assignment in sets for word in ("--set", assignment)]
        words += ["--values", str(values)] if values else []
        where = ("--namespace", self.namespace, "--kube-version", "1.37.1")
        _, *pieces = SOURCE.split(run(self.helm, "template", self.name, str(CHART), *where, *words))
        found: dict[str, list[Document]] = {}
        for source, piece in zip(pieces[::2], pieces[1::2], strict=True):
            documents = yaml.load_all(piece, Loader=yaml.CSafeLoader)
            found.setdefault(source, []).extend(_bare(document) for document in documents if document)
        return {source: documents for source, documents in sorted(found.items()) if documents}

    def documents(self, values: Path | None = None, *sets: str) -> list[Document]:
        """The same objects, in one list."""
        return [document for documents in self.sources(values, *sets).values() for document in documents]


def run(helm: int, *words: str) -> str:
    """What a `helm` command prints; raises `Refused`."""
    done = subprocess.run([binary(f"helm{helm}", "helm"), *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Refused(done.stderr)
    return done.stdout


def key(document: Document) -> tuple[str, str, str]:
    """By what an object is told from all others: kind, namespace, name."""
    metadata = document["metadata"]
    return document["kind"], metadata.get("namespace", ""), metadata["name"]


def _bare(document: Document) -> Document:
    inner = document.get("spec", {}).get("template", {}) if document["kind"] == "Deployment" else {}
    for metadata in (document["metadata"], inner.get("metadata", {})):
        for label in HELMS_OWN & metadata.get("labels", {}).keys():
            del metadata["labels"][label]
    return document
