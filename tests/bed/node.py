"""A real node: containerd, kubelet and kube-proxy in a network namespace of their own, with real containers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import yaml

from . import cgroups, network
from .binaries import binary, folder, servers
from .control_plane import ControlPlane
from .places import state, written
from .processes import Process, sweep
from .steps import run, step

NAME = "node1"
PAUSE = "localhost/pause:1"

CONTAINERD = """version = 3
root = "{home}/containerd"
state = "{home}/run"
oom_score = 0
[grpc]
  address = "{socket}"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{pause}"
[plugins."io.containerd.cri.v1.runtime"]
  disable_apparmor = true
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["/usr/lib/cni"]
    conf_dir = "{home}/cni"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      SystemdCgroup = false
"""

CNI = """{{"cniVersion": "0.4.0", "name": "bed", "plugins": [
 {{"type": "bridge", "bridge": "pods0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
  "ipam": {{"type": "host-local", "ranges": [[{{"subnet": "{pods}"}}]], "routes": [{{"dst": "0.0.0.0/0"}}],
           "dataDir": "{home}/ipam"}}}},
 {{"type": "portmap", "capabilities": {{"portMappings": true}}}}
]}}
"""


class Node:
    """The one node of the bed; everything it keeps is in `home`."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.home = state() / NAME
        self.socket = self.home / "containerd.sock"
        self._containerd, self._kubelet = Process("containerd", self.home), Process("kubelet", self.home)
        self._proxy = Process("kube-proxy", self.home)
        self.processes = (self._containerd, self._kubelet, self._proxy)

    def start_containerd(self) -> None:
        """Start the container runtime."""
        for part in ("cni", "ipam", "run"):
            (self.home / part).mkdir(parents=True, exist_ok=True)
        settings = CONTAINERD.format(home=self.home, socket=self.socket, pause=PAUSE)
        config = written(self.home / "containerd.toml", settings)
        written(self.home / "cni" / "10-bed.conflist", CNI.format(pods=network.PODS, home=self.home))
        path = {"PATH": f"{folder('containerd')}:/usr/sbin:/usr/bin:/sbin:/bin"}
        program = binary("containerd", "containerd")
        binary("containerd", "containerd-shim-runc-v2")
        self._containerd.start(network.inside(program, "--config", config), env=path)
        self._containerd.wait(lambda: self.ctr("version").returncode == 0, 30)

    def start(self) -> None:
        """Start kubelet and kube-proxy, and wait until the node is ready."""
        cgroups.make()
        user = f"system:node:{NAME}"
        self.plane.authority.sign("kubelet", user, ("system:nodes",), (NAME, network.NODE_ADDRESS))
        kubeconfig = self.plane.kubeconfig_for(user, ("system:nodes",))
        config = self._write("kubelet.yaml", self._kubelet_config())
        command = [binary("kube", "kubelet"), "--config", config, "--kubeconfig", kubeconfig]
        command += ["--hostname-override", NAME, "--node-ip", network.NODE_ADDRESS]
        command += ["--root-dir", self.home / "kubelet", "--v=1"]
        self._kubelet.start(network.inside(*command))
        proxy = {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "nftables",
            "clusterCIDR": network.PODS,
            "hostnameOverride": NAME,
            "clientConnection": {"kubeconfig": str(self.plane.kubeconfig_for("system:kube-proxy"))},
            "conntrack": {"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        }
        self._proxy.start(
            network.inside(binary("kube", "kube-proxy"), "--config", self._write("kube-proxy.yaml", proxy))
        )
        with step("waiting for the node to be ready"):
            self._kubelet.wait(self._ready, 90, hint="see the log of containerd beside that of the kubelet")

    def stop(self) -> None:
        """End every container, then what ran them; then clear their mounts and groups away."""
        self._kubelet.stop()
        self._proxy.stop()
        if self._containerd.pid:
            for task in self.ctr("tasks", "ls", "-q").stdout.split():
                self.ctr("tasks", "kill", "-s", "SIGKILL", task)
            for task in self.ctr("tasks", "ls", "-q").stdout.split():
                self.ctr("tasks", "delete", "-f", task)
        self._containerd.stop()
        sweep(servers(), self.home)
        cgroups.remove()
        _unmount(self.home)

    def forget(self) -> None:
        """Remove what the node has kept, images too."""
        shutil.rmtree(self.home, ignore_errors=True)

    def ctr(self, *words: object, stdin: object = None) -> subprocess.CompletedProcess[str]:
        """Ask containerd directly, among the images and containers that the kubelet sees."""
        command = [binary("containerd", "ctr"), "-a", self.socket, "-n", "k8s.io", *words]
        return subprocess.run([str(word) for word in command], check=False, capture_output=True, text=True, stdin=stdin)

    def _write(self, name: str, content: object) -> Path:
        return written(self.home / name, yaml.safe_dump(content))

    def _ready(self) -> bool:
        path = "{.status.conditions[?(@.type=='Ready')].status}"
        command = [binary("kube", "kubectl"), "--kubeconfig", self.plane.kubeconfig]
        command += ["get", "node", NAME, "-o", f"jsonpath={path}"]
        found = subprocess.run([str(word) for word in command], check=False, capture_output=True, text=True)
        return found.stdout == "True"

    def _kubelet_config(self) -> dict[str, object]:
        keys = self.plane.authority.folder
        resolv = written(self.home / "resolv.conf", f"nameserver {network.HOST}\n")
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(self.plane.authority.certificate)},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": str(keys / "kubelet.crt"),
            "tlsPrivateKeyFile": str(keys / "kubelet.key"),
            "containerRuntimeEndpoint": f"unix://{self.socket}",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{cgroups.GROUP}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "clusterDNS": [network.HOST],
            "clusterDomain": "cluster.local",
            "resolvConf": str(resolv),
            "podLogsDir": str(self.home / "logs"),
            "readOnlyPort": 0,
            "healthzPort": 0,
            "nodeStatusUpdateFrequency": "2s",
            "nodeLeaseDurationSeconds": 8,
            "imageGCHighThresholdPercent": 100,
            "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%"},
            "maxPods": 200,
            "registerWithTaints": [],
            "maxParallelImagePulls": 2,
            "serializeImagePulls": False,
            # Two cores bear the whole cluster and what it trains: what pods ask for is not to keep others out.
            "systemReserved": {},
        }


def left(home: Path) -> list[str]:
    """What is still there of a node."""
    mounts, groups = _mounts(home), cgroups.left()
    found = [f"{len(mounts)} mounts below {home}"] if mounts else []
    return found + ([f"control group {cgroups.GROUP} in {len(groups)} hierarchies"] if groups else [])


def _mounts(home: Path) -> list[str]:
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return [line.split()[1] for line in lines if line.split()[1].startswith(f"{home}/")]


def _unmount(home: Path) -> None:
    for mount in sorted(_mounts(home), key=len, reverse=True):
        run(["umount", "-l", mount], state() / "network.log")
