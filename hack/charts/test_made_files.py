"""manifests/ and the snapshots are up to date with the chart."""

from __future__ import annotations

import pytest

from . import overlays, snapshots
from .overlays import MANIFESTS

pytestmark = pytest.mark.usefixtures("helm")


def test_they_are_up_to_date():
    wanted = dict([*overlays.files(), *snapshots.files()])
    stale = [str(path) for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    assert stale == [], "make manifests"
    written = {path for path in MANIFESTS.rglob("*.yaml") if path.name not in ("values.yaml", "namespace.yaml")}
    assert written - wanted.keys() == {MANIFESTS / "kustomization.yaml"}
