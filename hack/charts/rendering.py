"""Render the chart with `helm template`."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from testbed.binaries import binary

from .values import CHART

Document = dict[str, Any]
#: Labels that name the installer of an object. They are of no use in kustomize's manifests and in snapshots.
HELM_LABELS = frozenset(("app.kubernetes.io/managed-by", "helm.sh/chart"))
#: The separator and comment that `helm template` writes above each object.
SOURCE = re.compile(r"^---\n# Source: \S+/templates/(\S+)\n", re.MULTILINE)


class Refused(Exception):
    """Helm failed to render the chart; the message is Helm's standard error."""


@dataclass(frozen=True)
class Release:
    """A release to render: its name, its namespace and the version of Helm, 3 or 4."""

    name: str = "trainshed"
    namespace: str = "trainshed-system"
    helm: int = 4

    def sources(self, values: Path | None = None, *sets: str) -> dict[str, list[Document]]:
        """Return the objects by the name of their template, without Helm's own labels and without hooks.

        Raises:
            Refused: Helm does not accept the values.
        """
        arguments = [word for assignment in sets for word in ("--set", assignment)]
        arguments += ["--values", str(values)] if values else []
        where = ("--namespace", self.namespace, "--kube-version", "1.37.1")
        _, *pieces = SOURCE.split(run(self.helm, "template", self.name, str(CHART), *where, *arguments))
        found: dict[str, list[Document]] = {}
        for source, piece in zip(pieces[::2], pieces[1::2], strict=True):
            documents = yaml.load_all(piece, Loader=yaml.CSafeLoader)
            found.setdefault(source, []).extend(
                bare(document) for document in documents if document and not is_hook(document)
            )
        return {source: documents for source, documents in sorted(found.items()) if documents}

    def documents(self, values: Path | None = None, *sets: str) -> list[Document]:
        """Return the same objects as `sources`, in one list."""
        return [document for documents in self.sources(values, *sets).values() for document in documents]


def run(helm: int, *arguments: str) -> str:
    """Return the standard output of a `helm` command.

    Raises:
        Refused: the command failed.
    """
    done = subprocess.run([binary(f"helm{helm}", "helm"), *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Refused(done.stderr)
    return done.stdout


def key(document: Document) -> tuple[str, str, str]:
    """Return the key of an object: kind, namespace, name."""
    metadata = document["metadata"]
    return document["kind"], metadata.get("namespace", ""), metadata["name"]


def is_hook(document: Document) -> bool:
    return "helm.sh/hook" in document["metadata"].get("annotations", {})


def bare(document: Document) -> Document:
    inner = document.get("spec", {}).get("template", {}) if document["kind"] == "Deployment" else {}
    for metadata in (document["metadata"], inner.get("metadata", {})):
        for label in HELM_LABELS & metadata.get("labels", {}).keys():
            del metadata["labels"][label]
    return document
