"""kubectl against a control plane, as a user types it."""

from __future__ import annotations

import subprocess

from testbed.binaries import binary
from testbed.control_plane import ControlPlane

from .user_client import Hand


def kubectl(server: ControlPlane, hand: Hand, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """kubectl in the hand's namespace; `text` is what it reads."""
    command = [str(binary("kube", "kubectl")), "--kubeconfig", str(server.kubeconfig), "-n", hand.namespace, *words]
    return subprocess.run(command, input=text, check=False, capture_output=True, text=True)
