"""The real training-operator v1, beside a control plane: its own manifests, its webhooks and its own program."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Self

import yaml

from support.jobs import KINDS, smallest
from support.kubectl import Kubectl, kustomized
from support.kueue import UNSHARE, is_ready, mount_later
from support.tcp_proxy import ServiceProxy
from support.user_client import Refused, UserClient
from testbed.binaries import binary, module_folder
from testbed.control_plane import ControlPlane
from testbed.ports import free_port
from testbed.processes import Process

GROUP = "training-operator"
#: Seconds until its webhooks answer, on a machine with much else to do.
PATIENCE = 300
#: Runs a program with a folder of its own where it expects its certificate, which is the same path for all.
WITH_CERTIFICATES = """
mkdir -p /tmp/k8s-webhook-server/serving-certs
mount --bind "$1" /tmp/k8s-webhook-server/serving-certs
shift
exec setpriv --pdeathsig KILL "$@"
"""


class TrainingOperator:
    """training-operator v1 as an overlay of its manifests installs it.

    `named` are the namespace and the name of its Deployment and of what belongs to it, if it has others than there.
    The API server reaches its webhooks through `services`.
    """

    def __init__(self, plane: ControlPlane, services: ServiceProxy, folder: Path) -> None:
        self._plane, self._services, self._folder = plane, services, folder
        self._process = Process(GROUP, folder)
        self._port, self._health = free_port(), free_port()
        self.namespace, self.name = "kubeflow", GROUP

    @classmethod
    @contextmanager
    def installed(
        cls,
        plane: ControlPlane,
        services: ServiceProxy,
        folder: Path,
        overlay: str,
        named: tuple[str, str] | None = None,
    ) -> Iterator[Self]:
        """One that runs, and takes jobs."""
        found = cls(plane, services, folder)
        found._install(overlay, named)
        try:
            found._start()
            yield found
        finally:
            found.stop()

    @property
    def log(self) -> Path:
        return self._process.log

    def stop(self) -> None:
        self._process.stop()

    def _install(self, overlay: str, named: tuple[str, str] | None) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        items = kustomized(module_folder(GROUP) / "manifests" / "overlays" / overlay)
        text = yaml.dump_all(items, Dumper=yaml.CSafeDumper)
        if named:
            self.namespace, self.name = named
            items = [_renamed(item, self.namespace, self.name) for item in items]
            text = yaml.dump_all(items, Dumper=yaml.CSafeDumper)
        admin = UserClient(self._plane.kubeconfig, self.namespace)
        admin.make_namespace()
        Kubectl(str(self._plane.kubeconfig))("apply", "--server-side", "-f", "-", text=text, timeout=PATIENCE)
        service = admin.call("GET", f"/api/v1/namespaces/{self.namespace}/services/{self.name}")
        self._services.backends[f"{service['spec']['clusterIP']}:443"] = self._port

    def _start(self) -> None:
        program, certificates = binary(GROUP, GROUP), self._folder / "certificates"
        certificates.mkdir()
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{self.namespace}")
        account = self._plane.kubeconfig_for(f"system:serviceaccount:{self.namespace}:{self.name}", groups)
        command = [*UNSHARE, "sh", "-ec", WITH_CERTIFICATES, "sh", str(certificates)]
        command += ["env", f"KUBECONFIG={account}", f"MY_POD_NAMESPACE={self.namespace}", str(program)]
        command += ["--metrics-bind-address=0", f"--health-probe-bind-address=127.0.0.1:{self._health}"]
        command += [f"--webhook-server-port={self._port}", f"--webhook-service-name={self.name}"]
        mount_later(UserClient(self._plane.kubeconfig, self.namespace), f"{GROUP}-webhook-cert", certificates)
        self._process.start(command, tied=True)
        self._process.wait(lambda: is_ready(self._health) and self._validates(), PATIENCE)

    def _validates(self) -> bool:
        """Whether the webhooks of all kinds answer: it is ready before it has registered them."""
        admin = UserClient(self._plane.kubeconfig, self.namespace)
        try:
            for kind in KINDS:
                admin.call("POST", f"{admin.path(kind, '')}?dryRun=All", smallest(kind, "any"))
        except Refused as error:
            if error.code < HTTPStatus.INTERNAL_SERVER_ERROR:
                raise
            return False
        return True


def _renamed(item: dict, namespace: str, name: str) -> dict:
    """Return an object of v1's manifests with another namespace and another name than training-operator."""
    text = yaml.dump(item, Dumper=yaml.CSafeDumper)
    found = yaml.safe_load(text.replace("namespace: kubeflow\n", f"namespace: {namespace}\n"))
    if found["metadata"]["name"] == GROUP:
        found["metadata"]["name"] = name
    for hook in found.get("webhooks", ()):
        hook["clientConfig"]["service"]["name"] = name
    for subject in found.get("subjects", ()):
        subject["name"] = name
    if "roleRef" in found:
        found["roleRef"]["name"] = name
    if found["kind"] == "Deployment":
        found["spec"]["template"]["spec"]["serviceAccountName"] = name
    return found
