"""A real API server with our CRDs, a namespace for each test, and the operator."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from bed.binaries import binary
from bed.control_plane import ControlPlane
from rig import Hand, Operator, Refused, Stage
from rig.hand import eventually

ROOT = Path(__file__).parents[2]


def served(hand: Hand, kind: str) -> bool:
    """Whether the API server knows a kind by now."""
    try:
        return hand.jobs(kind) == []
    except Refused:
        return False


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server with its controllers (garbage collection, quota, namespaces) and our CRDs."""
    with ControlPlane(tmp_path_factory.mktemp("control-plane"), controllers=True) as plane:
        kubectl = [str(binary("kube", "kubectl")), "--kubeconfig", str(plane.kubeconfig)]
        subprocess.run([*kubectl, "apply", "-f", str(ROOT / "crds")], check=True, capture_output=True)
        hand = Hand(plane.kubeconfig, "default")
        eventually(lambda: served(hand, "TFJob") and served(hand, "PyTorchJob"))
        yield plane


@pytest.fixture(scope="session")
def shared_operator(server: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """One operator for all tests that do no harm to it; at the end its log holds no traceback."""
    operator = Operator(server.kubeconfig, tmp_path_factory.mktemp("operator"), "--no-leader-elect").start()
    yield operator
    assert operator.alive, operator.log.read_text()[-3000:]
    assert operator.stop() == 0
    assert operator.complaints() == []


@pytest.fixture
def hand(server: ControlPlane) -> Hand:
    """A user's hand in a namespace of its own."""
    hand = Hand(server.kubeconfig, f"t-{uuid.uuid4().hex[:8]}")
    hand.make_namespace()
    return hand


@pytest.fixture
def stage(hand: Hand) -> Iterator[Stage]:
    """The namespace's pods run as soon as they are made."""
    with Stage(hand) as stage:
        yield stage


@pytest.fixture
def operator(server: ControlPlane, hand: Hand, tmp_path: Path) -> Iterator[Operator]:
    """An operator for the test's namespace alone, to be killed and started again."""
    operator = Operator(server.kubeconfig, tmp_path, f"--namespace={hand.namespace}", "--no-leader-elect").start()
    yield operator
    if operator.alive:
        operator.stop()
    assert operator.complaints() == []
