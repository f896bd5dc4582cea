"""Kueue beside a control plane: its own manifests and its own program, with the kubeflow.org kinds switched on."""

from __future__ import annotations

import base64
import shutil
import signal
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import yaml

from testbed.control_plane import ControlPlane
from testbed.neighbours import neighbour_binary, source_tree
from testbed.ports import free_port
from testbed.processes import Process

from .kubectl import PATIENCE, Kubectl, kustomized
from .tcp_proxy import ServiceProxy
from .user_client import Refused, UserClient, eventually

NAMESPACE = "kueue-system"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:kueue-controller-manager"
#: What its shipped configuration no longer lists; `kubeflow.org/mpijob` it does.
FRAMEWORKS = tuple(f"kubeflow.org/{kind}job" for kind in ("paddle", "pytorch", "tf", "xgboost", "jax"))
API = "/apis/kueue.x-k8s.io/v1beta2"
QUEUE_LABEL, PRIORITY_LABEL = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
#: Runs a program with a root of its own, in which there is a folder for the certificate of the visibility API.
WITH_ROOT = """
root=$1; shift
mount -t tmpfs none "$root"
for entry in /*; do
  if [ -L "$entry" ]; then cp -P "$entry" "$root"
  elif [ -d "$entry" ]; then mkdir "$root$entry" && mount --rbind "$entry" "$root$entry"; fi
done
mkdir "$root/visibility"
exec chroot "$root" setpriv --pdeathsig KILL "$@"
"""
UNSHARE = ("unshare", "--user", "--map-root-user", "--mount", "--")
#: Seconds after which the Lease of one that was killed has expired, and some more.
TAKEOVER = 180


class Kueue:
    """Kueue as a process; `settings` are merged into the configuration of its manifests."""

    def __init__(self, plane: ControlPlane, services: ServiceProxy, folder: Path) -> None:
        self._plane = plane
        self._services = services
        self._folder = folder
        self._process = Process("kueue", folder)
        self._ports = {name: free_port() for name in ("webhook", "health", "metrics", "visibility")}
        self._certificates = folder / "certificates"
        self._config: dict[str, Any] = {}
        self.admin = UserClient(plane.kubeconfig, NAMESPACE)
        #: Whether it says who waits, for which it needs a root of its own.
        self.is_visible = shutil.which("unshare") is not None and _may_change_root(folder)

    @classmethod
    @contextmanager
    def installed(cls, plane: ControlPlane, services: ServiceProxy, folder: Path, **settings: object) -> Iterator[Self]:
        """One that runs with these settings, installed with its manifests."""
        kueue = cls(plane, services, folder)
        kueue.install()
        try:
            kueue.start(**settings)
            yield kueue
        finally:
            kueue.stop()

    @property
    def log(self) -> Path:
        return self._process.log

    def install(self) -> None:
        """Apply its manifests, and let the API server reach its webhooks."""
        self._certificates.mkdir(parents=True, exist_ok=True)
        without = ("Deployment",) if self.is_visible else ("Deployment", "APIService")
        found = [item for item in manifests() if item["kind"] not in without]
        config = next(item for item in found if item["kind"] == "ConfigMap")
        self._config = yaml.safe_load(config["data"]["controller_manager_config.yaml"])
        path = self._folder / "kueue.yaml"
        path.write_text(yaml.dump_all(found, Dumper=yaml.CSafeDumper))
        Kubectl(str(self._plane.kubeconfig))("apply", "--server-side", "-f", str(path), timeout=PATIENCE)
        service = self.admin.call("GET", f"/api/v1/namespaces/{NAMESPACE}/services/kueue-webhook-service")
        self._services.backends[f"{service['spec']['clusterIP']}:443"] = self._ports["webhook"]
        if self.is_visible:
            self._give_visibility_an_endpoint()

    def _give_visibility_an_endpoint(self) -> None:
        """Let the API server reach the API in which Kueue says who waits, which it takes for absent without a pod."""
        path = f"/api/v1/namespaces/{NAMESPACE}/services/kueue-visibility-server"
        address = self.admin.call("GET", path)["spec"]["clusterIP"]
        self._services.backends[f"{address}:443"] = self._ports["visibility"]
        metadata = {"name": "visibility", "labels": {"kubernetes.io/service-name": "kueue-visibility-server"}}
        endpoint = {"addresses": ["198.51.100.1"], "conditions": {"ready": True}}
        ports = [{"name": "https", "port": 8082, "protocol": "TCP"}]
        body = {"metadata": metadata, "addressType": "IPv4", "endpoints": [endpoint], "ports": ports}
        self.admin.call("POST", f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices", body)

    def start(self, **settings: object) -> None:
        """Start it, and wait until it is ready: until its Lease is its own and its webhooks answer."""
        program = neighbour_binary("kueue", "kueue")  # the first time it is built, which takes minutes
        mount_later(self.admin, "kueue-webhook-server-cert", self._certificates)
        command = [program, f"--config={self._write_config(settings)}", "--zap-log-level=2"]
        account = self._plane.kubeconfig_for(ACCOUNT, ("system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}"))
        flags = [f"--kubeconfig={account}"] + ([] if self.is_visible else ["--feature-gates=VisibilityOnDemand=false"])
        inside = _with_root(self._folder) if self.is_visible else []
        self._process.start([*inside, *command, *flags], tied=True)
        self._process.wait(lambda: is_ready(self._ports["health"]), TAKEOVER)
        eventually(self._leads, TAKEOVER)

    def kill(self) -> None:
        self._process.stop(signal.SIGKILL)

    def stop(self) -> None:
        self._process.stop()

    def restart(self, **settings: object) -> None:
        self.stop()
        self.start(**settings)

    def _write_config(self, settings: dict[str, object]) -> Path:
        known = self._config
        frameworks = [*known["integrations"]["frameworks"], *FRAMEWORKS]
        changed = known | {
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self._ports['health']}"},
            "metrics": {"bindAddress": f"127.0.0.1:{self._ports['metrics']}"},
            "webhook": {"host": "127.0.0.1", "port": self._ports["webhook"], "certDir": str(self._certificates)},
            "visibilityServer": {"bindAddress": "127.0.0.1", "bindPort": self._ports["visibility"]},
            "leaderElection": known["leaderElection"] | {"resourceNamespace": NAMESPACE},
            "integrations": {"frameworks": list(dict.fromkeys(frameworks))},
        }
        path = self._folder / "kueue-config.yaml"
        path.write_text(yaml.safe_dump(changed | settings))
        return path

    def _leads(self) -> bool:
        """Whether the webhooks answer and the controllers run: a new LocalQueue gets a status."""
        try:
            ask = self.admin.call
            body = {"metadata": {"name": "probe"}, "spec": {"clusterQueue": "none"}}
            path = f"{API}/namespaces/default/localqueues"
            ask("POST", path, {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", **body})
            eventually(lambda: ask("GET", f"{path}/probe").get("status", {}).get("conditions"), TAKEOVER)
            ask("DELETE", f"{path}/probe")
        except Refused:
            return False
        return True


class Queues:
    """The queues of one test: a ClusterQueue with a quota of CPUs, and its LocalQueue in the namespace of the user.

    Of the resource `pods` each pod counts as one, whatever it requests.
    """

    def __init__(self, user: UserClient, quota: int, *, resource: str = "cpu", **spec: object) -> None:
        self.user = user
        self.name = user.namespace
        flavor = {"metadata": {"name": self.name}, "spec": spec.pop("flavor", {})}
        resources = [{"name": resource, "nominalQuota": quota}]
        group = {"coveredResources": [resource], "flavors": [{"name": self.name, "resources": resources}]}
        queue = {"namespaceSelector": {}, "resourceGroups": [group], **spec}
        self._make("ResourceFlavor", f"{API}/resourceflavors", flavor)
        self._make("ClusterQueue", f"{API}/clusterqueues", {"metadata": {"name": self.name}, "spec": queue})
        local = {"metadata": {"name": "research"}, "spec": {"clusterQueue": self.name}}
        self._make("LocalQueue", f"{API}/namespaces/{user.namespace}/localqueues", local)

    def workloads(self) -> dict[str, dict]:
        """The Workloads by the name of their job."""
        found = self.user.call("GET", f"{API}/namespaces/{self.user.namespace}/workloads")["items"]
        return {item["metadata"]["ownerReferences"][0]["name"]: item for item in found}

    def outcomes(self) -> dict[str, str]:
        """The reason for which Kueue takes each job for finished, by the name of the job; "" if it does not."""
        found = {name: item.get("status", {}).get("conditions", []) for name, item in self.workloads().items()}
        return {name: next((c["reason"] for c in each if c["type"] == "Finished"), "") for name, each in found.items()}

    def patch_workload(self, job: str, patch: dict) -> None:
        """Merge a patch into the Workload of a job, as an administrator does."""
        name = self.workloads()[job]["metadata"]["name"]
        path = f"{API}/namespaces/{self.user.namespace}/workloads/{name}"
        self.user.call("PATCH", path, patch, "application/merge-patch+json")

    def usage(self) -> int:
        """How much of the quota is reserved."""
        status = self.user.call("GET", f"{API}/clusterqueues/{self.name}").get("status", {})
        flavors = status.get("flavorsReservation") or [{"resources": [{"total": "0"}]}]
        return int(flavors[0]["resources"][0]["total"])

    def _make(self, kind: str, path: str, body: dict) -> None:
        self.user.call("POST", path, {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, **body})


def manifests() -> list[dict]:
    return kustomized(source_tree("kueue") / "config" / "default")


def mount_later(admin: UserClient, secret: str, folder: Path) -> None:
    """Write a Secret into files, as a kubelet does for a volume, once the program has filled it."""

    def mount() -> None:
        path = f"/api/v1/namespaces/{admin.namespace}/secrets/{secret}"
        for name, content in eventually(lambda: admin.call("GET", path).get("data"), PATIENCE).items():
            (folder / name).write_bytes(base64.b64decode(content))

    threading.Thread(target=mount, daemon=True).start()


def is_ready(port: int) -> bool:
    """Whether the program with its health probes at this port says that it is ready."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2) as answer:
            return answer.status == 200
    except OSError:
        return False


def _with_root(folder: Path) -> list[str]:
    """The words before a command that give it a root of its own."""
    root = folder / "root"
    root.mkdir(parents=True, exist_ok=True)
    return [*UNSHARE, "sh", "-ec", WITH_ROOT, "sh", str(root)]


def _may_change_root(folder: Path) -> bool:
    return subprocess.run([*_with_root(folder), "true"], capture_output=True, timeout=60, check=False).returncode == 0
