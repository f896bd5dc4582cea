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

    def run(self, *words: str, timeout: float = 60, text: str = "") -> subprocess.CompletedProcess[str]:
        """Run it; `text` is its standard input."""
        command = [*self.command, *words]
        return subprocess.run(command, check=False, input=text, capture_output=True, text=True, timeout=timeout)

    def __call__(self, *words: str, timeout: float = 60, text: str = "") -> str:
        """Return its output; raise an error if it fails."""
        result = self.run(*words, timeout=timeout, text=text)
        assert result.returncode == 0, f"kubectl {' '.join(words)}: {result.stderr}"
        return result.stdout

    def follow(self, *words: str, to: IO[str] | int = subprocess.PIPE) -> subprocess.Popen[str]:
        """The command, left running; its output can be read as it comes, or goes to a file."""
        return subprocess.Popen([*self.command, *words], stdout=to, stderr=subprocess.STDOUT, text=True)


def kubectl(server: ControlPlane, user: UserClient, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run kubectl in the user's namespace; `text` is its standard input."""
    return Kubectl(str(server.kubeconfig), user.namespace).run(*words, timeout=PATIENCE, text=text)


def kubectl_file(server: ControlPlane, verb: str, file: Path) -> None:
    """Apply, replace or delete what is in a file or folder."""
    Kubectl(str(server.kubeconfig))(verb, "-f", str(file), timeout=PATIENCE)


def kustomized(folder: Path) -> list[dict]:
    """The objects that `kubectl kustomize` makes of a folder."""
    rendered = Kubectl("")("kustomize", str(folder), timeout=PATIENCE)
    return [item for item in yaml.load_all(rendered, yaml.CSafeLoader) if item]
