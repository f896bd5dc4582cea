"""Renderings that are kept to be looked at: for each file of values in snapshots/ what the chart becomes with them.

manifests/ are more of them, for the values that most will have.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from trainshed.manifests import text

from .rendering import Release

FOLDER = Path(__file__).parent / "snapshots"


def files() -> Iterator[tuple[Path, str]]:
    """Each snapshot and what is to be in it; the definitions of the kinds are looked at elsewhere."""
    for values in sorted(FOLDER.glob("*.values.yaml")):
        documents = Release().documents(values, "crds.install=false")
        yield values.with_name(values.name.replace(".values", "")), text(*documents)
