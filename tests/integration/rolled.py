"""The operator's Deployment, whose pods no kubelet runs, as processes with its arguments and its service account."""

from __future__ import annotations

import json
from pathlib import Path

from support.operator import Operator, Operators
from support.release import HOME, NAME
from support.user_client import UserClient, eventually
from testbed.control_plane import ControlPlane
from testbed.kubeconfig import kubeconfig

#: How long replicas may take on a slow machine, in seconds.
PATIENCE = 300


class RolledReplicas:
    """The replicas that run; `roll` replaces them by those of the Deployment as it is then."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self._plane, self._folder = plane, folder
        self._home = UserClient(plane.kubeconfig, HOME)
        self._running: list[Operator] = []
        self._operators = Operators(folder)

    def roll(self, source: Path) -> None:
        """Replace them one by one, as `maxSurge: 1` does, by the program in `source`, and wait for a leader."""
        path = f"/apis/apps/v1/namespaces/{HOME}/deployments/{NAME}"
        spec = self._home.call("GET", path)["spec"]
        (container,) = spec["template"]["spec"]["containers"]
        config = self._account(spec["template"]["spec"]["serviceAccountName"])
        old, self._running = self._running, []
        for _ in range(spec["replicas"]):
            self._running.append(self._begin(config, source, container["args"]))
            if old:
                end(old.pop(0))
        assert not old
        eventually(self._lead, PATIENCE, every=0.5)

    def end(self) -> None:
        """Stop all, whose logs must have no error."""
        while self._running:
            end(self._running.pop())

    def kill(self) -> None:
        self._operators.end()

    def _begin(self, config: Path, source: Path, words: list[str]) -> Operator:
        program, *flags = words
        assert program == "operator"
        flags.append(f"--lease-namespace={HOME}")
        operator = self._operators.begin(config, *flags, wait=False, PYTHONPATH=str(source))
        operator.wait_until_ready(PATIENCE)
        return operator

    def _lead(self) -> bool:
        return self._home.holder().rpartition("_")[2] in {str(operator.pid) for operator in self._running}

    def _account(self, name: str) -> Path:
        path = f"/api/v1/namespaces/{HOME}/serviceaccounts/{name}/token"
        token = self._home.call("POST", path, {"spec": {}})["status"]["token"]
        known, authority = {"token": token}, self._plane.authority.certificate
        return kubeconfig(self._folder / "account.kubeconfig", name, self._plane.url, known, authority=authority)


def end(operator: Operator) -> None:
    """Stop a replica, whose log has no error."""
    assert operator.stop() == 0
    assert operator.complaints() == [], json.dumps(operator.complaints())
