"""Control planes that know our kinds."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from bed.binaries import binary
from bed.control_plane import ControlPlane

from .hand import Hand, Refused, eventually

CRDS = Path(__file__).parents[2] / "crds"


@contextmanager
def ready_control_plane(folder: Path) -> Iterator[ControlPlane]:
    """An API server with its controllers (garbage collection, quota, namespaces) and our CRDs."""
    with ControlPlane(folder, controllers=True) as plane:
        command = [binary("kube", "kubectl"), "--kubeconfig", plane.kubeconfig, "apply", "-f", CRDS]
        subprocess.run([str(word) for word in command], check=True, capture_output=True)
        hand = Hand(plane.kubeconfig, "default")
        kinds = [yaml.safe_load(path.read_text())["spec"]["names"]["kind"] for path in sorted(CRDS.glob("*.yaml"))]
        eventually(lambda: all(served(hand, kind) for kind in kinds))
        yield plane


def served(hand: Hand, kind: str) -> bool:
    """Whether the server knows this kind of job."""
    try:
        return hand.jobs(kind) == []
    except Refused:
        return False
