"""The programs to compare: Trainshed, and training-operator as it is shipped and without its limits."""

from __future__ import annotations

import base64
import os
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from support.jobs import KINDS
from support.kubectl import kubectl_file
from support.measured import USER
from support.planes import CRDS
from support.user_client import UserClient, eventually
from testbed.binaries import binary, module_folder
from testbed.control_plane import ControlPlane
from testbed.ports import free_port

from .operator_program import PROGRAM

PEER = "training-operator"
PEER_NAMESPACE, PEER_SECRET = "kubeflow", "training-operator-webhook-cert"
PEER_WEBHOOK = "validator.training-operator.kubeflow.org"
#: The directory in which training-operator expects its certificate; in a cluster the kubelet mounts the Secret there.
PEER_CERTIFICATES = Path("/tmp/k8s-webhook-server/serving-certs")
#: The flags of training-operator that lift its limits.
UNCAPPED = ("--kube-api-qps=5000", "--kube-api-burst=10000", "--controller-threads=10")
#: Seconds to wait after new CRDs: kube-apiserver holds requests to create their objects during the first two seconds
#: (customresource_handler.go of apiextensions-apiserver 0.37), which is not a cost of a contestant.
NEW_CRD = 2.5


@dataclass(frozen=True)
class Contestant:
    """A program that runs jobs: its name in the results, its flags and whether it is the peer."""

    name: str
    flags: tuple[str, ...] = ()
    peer: bool = False

    @property
    def crds(self) -> Path:
        """The folder of its CRDs."""
        return module_folder(PEER) / "manifests" / "base" / "crds" if self.peer else CRDS

    def prepare(self, plane: ControlPlane) -> None:
        """Install its requirements besides its CRDs."""
        if not self.peer:
            return
        user = UserClient(plane.kubeconfig, PEER_NAMESPACE)
        user.call("POST", "/api/v1/namespaces", {"metadata": {"name": PEER_NAMESPACE}})
        user.make("secrets", {"metadata": {"name": PEER_SECRET}})
        hook = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
        # Without webhooks: an admission request to the peer would be a cost that only the peer has.
        path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
        user.call("POST", path, hook | {"metadata": {"name": PEER_WEBHOOK}, "webhooks": []})

    def start(self, plane: ControlPlane, folder: Path) -> Running:
        """Start it, without waiting for anything."""
        kubeconfig = plane.kubeconfig_for(USER, ("system:masters",))
        health, metrics = free_port(), free_port()
        served = f"127.0.0.1:{health}", f"127.0.0.1:{metrics}"
        if self.peer:
            command = [str(binary(PEER, PEER)), f"--health-probe-bind-address={served[0]}"]
            command += [f"--metrics-bind-address={served[1]}", f"--webhook-server-port={free_port()}"]
            env = {"KUBECONFIG": str(kubeconfig)}
        else:
            command = [str(PROGRAM), "-m", "trainshed", "operator", f"--kubeconfig={kubeconfig}"]
            command += [f"--health-probe-bind-address={served[0]}", f"--metrics-bind-address={served[1]}"]
            env = {}
        running = Running(self, [*command, *self.flags], env, folder / f"{self.name}.log")
        running.start()
        if self.peer:
            _mount_certificate(plane)
        return running


def _mount_certificate(plane: ControlPlane) -> None:
    """Write the peer's certificate into the folder that it reads, as soon as it has made one."""
    user = UserClient(plane.kubeconfig, PEER_NAMESPACE)
    path = f"/api/v1/namespaces/{PEER_NAMESPACE}/secrets/{PEER_SECRET}"
    data: Mapping[str, str] = eventually(lambda: user.call("GET", path).get("data"), 60)
    PEER_CERTIFICATES.mkdir(parents=True, exist_ok=True)
    for name, content in data.items():
        (PEER_CERTIFICATES / name).write_bytes(base64.b64decode(content))


class Running:
    """A contestant's process; `began` is the monotonic time of its start."""

    def __init__(self, contestant: Contestant, command: list[str], env: Mapping[str, str], log: Path) -> None:
        self.contestant = contestant
        self.began = 0.0
        self._command = command
        self._env = os.environ | {"PYTHONUNBUFFERED": "1"} | env
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def metrics(self) -> str:
        """The address of its metrics."""
        flag = "--metrics-bind-address="
        return next(word.removeprefix(flag) for word in self._command if word.startswith(flag))

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start the process."""
        self.began = time.monotonic()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, env=self._env)

    def stop(self) -> None:
        """Terminate the process, and kill it if it does not end within 20 s."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


TRAINSHED = Contestant("trainshed")
CONTESTANTS = {
    contestant.name: contestant
    for contestant in (
        TRAINSHED,
        Contestant("training-operator-uncapped", UNCAPPED, peer=True),
        Contestant("training-operator", peer=True),
    )
}


def install(contestant: Contestant, plane: ControlPlane) -> None:
    """Install the CRDs of a contestant and its other requirements."""
    for file in sorted(contestant.crds.glob("kubeflow.org_*.yaml")):
        kubectl_file(plane, "create", file)
    user = UserClient(plane.kubeconfig, "default")
    eventually(lambda: all(user.serves(user.path(kind, "")) for kind in KINDS))
    contestant.prepare(plane)
    time.sleep(NEW_CRD)
