"""Snapshots: the rendered chart for each values file in snapshots/, so that a change shows up in the diff.

manifests/ holds the renderings for the most common values.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from generate_manifests import text

from .rendering import Release

FOLDER = Path(__file__).parent / "snapshots"


def files() -> Iterator[tuple[Path, str]]:
    """Yield each snapshot and its content, without the CRDs, which other tests cover."""
    for values in sorted(FOLDER.glob("*.values.yaml")):
        documents = Release().documents(values, "crds.install=false")
        yield values.with_name(values.name.replace(".values", "")), text(*documents)
