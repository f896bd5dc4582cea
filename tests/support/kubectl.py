"""kubectl against the cluster of the test bed or a control plane."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import IO

import yaml

from testbed.binaries import binary
from testbed.control_plane import ControlPlane

from .user_client import UserClient

#: A limit in seconds for steps that take a few seconds on an idle machine.
PATIENCE = 300


class Kubectl:
    """The command that users type, on the test bed's cluster and in one namespace, or in that of each object."""

    def __init__(self, kubeconfig: str, namespace: str = "") -> None:
        self.command = [str(binary("kube", "kubectl")), "--kubeconfig", kubeconfig]
        self.command += ["--namespace", namespace] if namespace else []

    def __call__(self, *words: str, timeout: float = 60, text: str = "") -> str:
        """Return its output; raise an error if it fails. `text` is its standard input."""
        command = [*self.command, *words]
        result = subprocess.run(command, check=False, input=text, capture_output=True, text=True, timeout=timeout)
        assert result.returncode == 0, f"kubectl {' '.join(words)}: {result.stderr}"
        return result.stdout

    def follow(self, *words: str, to: IO[str] | int = subprocess.PIPE) -> subprocess.Popen[str]:
        """The command, left running; its output can be read as it comes, or goes to a file."""
        return subprocess.Popen([*self.command, *words], stdout=to, stderr=subprocess.STDOUT, text=True)


def kubectl(server: ControlPlane, user: UserClient, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run kubectl in the user's namespace; `text` is its standard input."""
    command = [str(binary("kube", "kubectl")), "--kubeconfig", str(server.kubeconfig), "-n", user.namespace, *words]
    return subprocess.run(command, input=text, check=False, capture_output=True, text=True)


def kubectl_file(server: ControlPlane, verb: str, file: Path) -> None:
    """Apply, replace or delete what is in a file or folder; raises an error if that fails."""
    command = [binary("kube", "kubectl"), "--kubeconfig", server.kubeconfig, verb, "-f", file]
    subprocess.run([str(word) for word in command], check=True, capture_output=True, timeout=300)


def kustomized(folder: Path) -> list[dict]:
    """The objects that `kubectl kustomize` makes of a folder."""
    command = [str(binary("kube", "kubectl")), "kustomize", str(folder)]
    rendered = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
    return [item for item in yaml.load_all(rendered, yaml.CSafeLoader) if item]
