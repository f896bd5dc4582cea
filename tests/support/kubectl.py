"""kubectl against a control plane."""

from __future__ import annotations

import subprocess
from pathlib import Path

from testbed.binaries import binary
from testbed.control_plane import ControlPlane

from .user_client import UserClient


def kubectl(server: ControlPlane, user: UserClient, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run kubectl in the user's namespace; `text` is its standard input."""
    command = [str(binary("kube", "kubectl")), "--kubeconfig", str(server.kubeconfig), "-n", user.namespace, *words]
    return subprocess.run(command, input=text, check=False, capture_output=True, text=True)


def kubectl_file(server: ControlPlane, verb: str, file: Path) -> None:
    """Apply, replace or delete what is in a file or folder; raises an error if that fails."""
    command = [binary("kube", "kubectl"), "--kubeconfig", server.kubeconfig, verb, "-f", file]
    subprocess.run([str(word) for word in command], check=True, capture_output=True, timeout=60)
