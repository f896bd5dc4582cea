"""A control plane: etcd and API server, and optionally the controllers; no kubelet runs its pods."""

from __future__ import annotations

import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from .certificates import Authority, client_tls
from .places import written
from .ports import free_port
from .processes import Process
from .releases import program

MASTERS = ("system:masters",)
#: As whom the API server asks aggregated ones.
FRONT_PROXY = "front-proxy"
AUDIT = """apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
"""


class ControlPlane:
    """One control plane with everything in `folder`; several may run at a time. With `address` it serves there too."""

    def __init__(
        self,
        folder: Path,
        *,
        controllers: bool = False,
        audit: bool = True,
        address: str = "127.0.0.1",
        tied: bool = True,
    ) -> None:
        self.folder = folder
        self.controllers = controllers
        self.audit = audit
        self.address = address
        self.tied = tied
        self.authority = Authority(folder / "pki")
        self.audit_log = folder / "audit.log"
        self._etcd, self._apiserver = Process("etcd", folder), Process("kube-apiserver", folder)
        self._manager = Process("kube-controller-manager", folder)
        self.processes = (self._etcd, self._apiserver, self._manager)
        self.extra_flags: tuple[str, ...] = ()
        self.etcd_flags: tuple[str, ...] = ()
        self.extra_controller_flags: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The URL of the API server."""
        return f"https://{self.address}:{self._port('apiserver')}"

    @property
    def etcd_url(self) -> str:
        """The URL of etcd."""
        return f"http://127.0.0.1:{self._port('etcd')}"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.folder / "pki" / "admin.kubeconfig"

    def kubeconfig_for(self, user: str, groups: tuple[str, ...] = ()) -> Path:
        """A kubeconfig for a user in groups."""
        name = "-".join((user, *groups)).replace(":", "-")
        self.authority.sign(name, user, groups)
        return self.authority.kubeconfig(name, self.url)

    def start(self) -> None:
        """Start everything and wait until the API server is ready."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._make_certificates()
        self.start_etcd()
        self.start_apiserver()
        if self.controllers:
            self.start_controllers()

    def stop(self) -> None:
        """Stop everything."""
        for process in reversed(self.processes):
            process.stop(patience=5)

    def start_etcd(self) -> None:
        """Start etcd."""
        client, peer = self.etcd_url, f"http://127.0.0.1:{self._port('peer')}"
        command = [program("etcd"), "--data-dir", self.folder / "etcd", "--unsafe-no-fsync"]
        command += ["--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer]
        command += ["--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}", "--log-level=warn"]
        self._etcd.start([*command, *self.etcd_flags], tied=self.tied)

    def stop_etcd(self) -> None:
        """Stop etcd; its data stays."""
        self._etcd.stop()

    def start_apiserver(self) -> None:
        """Start the API server and wait until it is ready."""
        self._apiserver.start([program("kube-apiserver"), *self._apiserver_flags()], tied=self.tied)
        self._apiserver.wait(lambda: self._answers("/readyz"), 240, hint="make cluster-down, then make cluster")

    def stop_apiserver(self) -> None:
        """Stop the API server; its data stays."""
        self._apiserver.stop()

    def kill_apiserver(self) -> None:
        """End the API server without a warning."""
        self._apiserver.stop(signal.SIGKILL)

    def start_controllers(self) -> None:
        """Start the controllers (garbage collection, namespaces, quotas, endpoints), and wait until they work.

        They exit if the API server stops before all of them have their clients: no test may stop it earlier.
        """
        config = self.kubeconfig_for("system:kube-controller-manager")
        keys = self.authority.folder
        command = [program("kube-controller-manager"), f"--kubeconfig={config}", "--leader-elect=false"]
        command += ["--use-service-account-credentials", f"--service-account-private-key-file={keys / 'sa.key'}"]
        command += [f"--root-ca-file={self.authority.certificate}", "--secure-port=0", *self.controller_flags()]
        command += self.extra_controller_flags
        self._manager.start(command, tied=self.tied)
        made_by_a_controller = "/api/v1/namespaces/default/serviceaccounts/default"
        self._manager.wait(lambda: self._answers(made_by_a_controller), 60, hint="make cluster-down, then make cluster")

    def controller_flags(self) -> tuple[str, ...]:
        """Return more flags of the controllers: with simulated kubelets no controller may miss the nodes."""
        played = ("pod-garbage-collector-controller", "node-lifecycle-controller")
        return ("--concurrent-gc-syncs=4", "--controllers=" + ",".join(("*", *(f"-{name}" for name in played))))

    def _apiserver_flags(self) -> list[str]:
        keys = self.authority.folder
        flags = [
            f"--etcd-servers={self.etcd_url}",
            f"--bind-address={self.address}",
            f"--advertise-address={self.address}",
            f"--secure-port={self._port('apiserver')}",
            f"--tls-cert-file={keys / 'apiserver.crt'}",
            f"--tls-private-key-file={keys / 'apiserver.key'}",
            f"--client-ca-file={self.authority.certificate}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={keys / 'sa.pub'}",
            f"--service-account-signing-key-file={keys / 'sa.key'}",
            *self._aggregation_flags(),
            "--service-cluster-ip-range=198.19.0.0/20",
            "--authorization-mode=Node,RBAC",
            "--allow-privileged=true",
            *self.extra_flags,
        ]
        if self.address.startswith("127."):
            flags.append("--endpoint-reconciler-type=none")  # no Service may point to a loopback address
        if not self.controllers:
            flags.append("--disable-admission-plugins=ServiceAccount")
        return flags + (self._audit_flags() if self.audit else [])

    def _aggregation_flags(self) -> Iterator[str]:
        """Yield the flags with which an API server says to aggregated ones who asks."""
        keys = self.authority.folder
        yield f"--requestheader-client-ca-file={self.authority.certificate}"
        yield f"--requestheader-allowed-names={FRONT_PROXY}"
        yield f"--proxy-client-cert-file={keys / FRONT_PROXY}.crt"
        yield f"--proxy-client-key-file={keys / FRONT_PROXY}.key"
        for what, header in (("username", "User"), ("group", "Group")):
            yield f"--requestheader-{what}-headers=X-Remote-{header}"
        yield "--requestheader-extra-headers-prefix=X-Remote-Extra-"

    def _audit_flags(self) -> list[str]:
        policy = written(self.folder / "audit.yaml", AUDIT)
        return [f"--audit-policy-file={policy}", f"--audit-log-path={self.audit_log}", "--audit-log-mode=blocking"]

    def _make_certificates(self) -> None:
        self.authority.make()
        hosts = ("127.0.0.1", self.address, "198.19.0.1", "localhost", "kubernetes.default.svc")
        self.authority.sign("apiserver", "kube-apiserver", hosts=tuple(dict.fromkeys(hosts)))
        self.authority.sign("admin", "admin", MASTERS)
        self.authority.sign(FRONT_PROXY, FRONT_PROXY)
        self.authority.kubeconfig("admin", self.url)

    def _port(self, name: str) -> int:
        file = self.folder / f"{name}.port"
        if not file.exists():
            file.write_text(str(free_port()))
        return int(file.read_text())

    def _answers(self, path: str) -> bool:
        keys = self.authority.folder
        context = client_tls(self.authority.certificate, keys / "admin.crt", keys / "admin.key")
        try:
            with urllib.request.urlopen(f"{self.url}{path}", context=context, timeout=2) as answer:
                return answer.status == 200
        except (OSError, urllib.error.URLError):
            return False
