"""People who run commands with rights of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import yaml

from testbed.control_plane import ControlPlane

from .user_client import UserClient


class Person:
    """Runs commands with the rights of a user of one namespace; `config` is the kubeconfig."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self.config = kubeconfig
        self.words = ("--kubeconfig", str(kubeconfig), "-n", namespace)

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "trainshed", *words, *self.words]

    def run(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        command = self.command(*words)
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, input=stdin)

    def says(self, *words: str) -> str:
        """What a command prints; it must succeed."""
        done = self.run(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


RBAC = "rbac.authorization.k8s.io"
#: What ClusterRoles `edit` and `view` have: the chart's rights about jobs, and those of Kubernetes about pods.
ROLES = Path(__file__).parents[2] / "manifests" / "base" / "aggregated-roles.yaml"
PODS = {"apiGroups": [""], "resources": ["pods", "pods/log", "events"], "verbs": ["get", "list", "watch"]}
WRITES, READS = ([*role["rules"], PODS] for role in yaml.safe_load_all(ROLES.read_text()))


def person(plane: ControlPlane, user: UserClient, folder: Path, rules: list[dict], called: str = "reader") -> Person:
    """A user with these rights in the namespace, and no others."""
    name, path = f"{called}-of-{user.namespace}", f"/apis/{RBAC}/v1/namespaces/{user.namespace}"
    user.call("POST", f"{path}/roles", {"metadata": {"name": called}, "rules": rules})
    subject = {"kind": "User", "name": name, "apiGroup": RBAC}
    role = {"apiGroup": RBAC, "kind": "Role", "name": called}
    user.call("POST", f"{path}/rolebindings", {"metadata": {"name": called}, "roleRef": role, "subjects": [subject]})
    config = yaml.safe_load(plane.kubeconfig.read_text())
    config["users"][0]["user"] |= {"as": name, "as-groups": ["system:authenticated"]}
    (folder / "kubeconfig").write_text(yaml.safe_dump(config))
    return Person(folder / "kubeconfig", user.namespace)
