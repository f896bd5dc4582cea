"""The whole bed: control plane, scheduler, DNS and one real node, brought up and taken down in order."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from . import binaries, images, network, node
from .binaries import binary
from .control_plane import MASTERS, ControlPlane
from .places import alone, cache, state, written
from .processes import Process, strays, sweep
from .steps import StepFailed, output, run, step

#: Debian's packages that the bed is made with, by a program of each.
APT = {
    "runc": "runc",
    "iptables": "iptables",
    "nft": "nftables",
    "conntrack": "conntrack",
    "socat": "socat",
    "ip": "iproute2",
    "debootstrap": "debootstrap",
    "buildah": "buildah",
    "openssl": "openssl",
    "cc": "gcc libc6-dev",
    "usr/lib/cni/bridge": "containernetworking-plugins",
}
COREFILE = """.:53 {{
  bind {host}
  errors
  kubernetes cluster.local {{
    kubeconfig {kubeconfig}
    ttl 2
  }}
}}
"""


class NodePlane(ControlPlane):
    """A control plane for a cluster with nodes, at the bridge's address."""

    def __init__(self) -> None:
        super().__init__(state() / "control-plane", controllers=True, address=network.HOST, tied=False)
        self._scheduler, self._dns = Process("kube-scheduler", self.folder), Process("coredns", self.folder)
        self.processes += (self._scheduler, self._dns)
        keys = self.authority.folder
        self.extra_flags = (
            f"--kubelet-client-certificate={keys / 'kubelet-client.crt'}",
            f"--kubelet-client-key={keys / 'kubelet-client.key'}",
            f"--kubelet-certificate-authority={self.authority.certificate}",
            "--kubelet-preferred-address-types=InternalIP",
        )

    def start(self) -> None:
        """Start it with scheduler and DNS."""
        self.authority.make()
        self.authority.sign("kubelet-client", "kube-apiserver-kubelet-client", MASTERS)
        super().start()
        config = self.kubeconfig_for("system:kube-scheduler")
        command = [binary("kube", "kube-scheduler"), f"--kubeconfig={config}", "--leader-elect=false"]
        self._scheduler.start([*command, "--secure-port=0"])
        settings = COREFILE.format(host=network.HOST, kubeconfig=self.kubeconfig)
        corefile = written(self.folder / "Corefile", settings)
        self._dns.start([binary("coredns", "coredns"), "-conf", corefile])

    def controller_flags(self) -> tuple[str, ...]:
        """Nodes come and go quickly here."""
        return ("--allocate-node-cidrs=false", "--node-monitor-grace-period=16s", "--concurrent-gc-syncs=4")


class Cluster:
    """The bed with its one node."""

    def __init__(self) -> None:
        self.plane = NodePlane()
        self.node = node.Node(self.plane)

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.plane.kubeconfig

    def up(self) -> None:
        """Bring up what is not up yet; may be repeated."""
        _packages()
        binaries.everything()
        with step("bringing the network up"):
            network.up()
        with step("starting the control plane"):
            self.plane.start()
        with step("starting containerd"):
            self.node.start_containerd()
        self.load(images.stand_ins())
        self.node.start()

    def down(self) -> None:
        """Take everything down; what was built and downloaded stays in the cache."""
        self.node.stop()
        self.plane.stop()
        sweep(binaries.servers(), state())
        network.down()
        self.node.forget()
        shutil.rmtree(self.plane.folder, ignore_errors=True)
        for archive in state().glob("*.tar"):  # an image of gigabytes, if loading it was interrupted
            archive.unlink()

    def left(self) -> list[str]:
        """What `down` has left, which should be nothing."""
        running = strays(binaries.servers(), state())
        found = [f"{name} (process {pid})" for pid, name in running.items()]
        return found + network.left() + node.left(self.node.home)

    def missing(self) -> list[str]:
        """The processes that should run and do not."""
        return [process.name for process in (*self.plane.processes, *self.node.processes) if not process.pid]

    def running(self) -> bool:
        """Whether every process runs, the API server answers and the node is ready."""
        if self.missing():
            return False
        command = [binary("kube", "kubectl"), "--kubeconfig", self.kubeconfig, "get", "node", node.NAME]
        found = subprocess.run([str(word) for word in command], check=False, capture_output=True, text=True)
        return " Ready" in found.stdout

    def load(self, wanted: Iterable[images.Image]) -> None:
        """Load images into the node, as far as it does not have them."""
        known = self.node.ctr("images", "ls", "-q").stdout.split()
        for image in wanted:
            if image.name not in known:
                self._load(image)

    def build(self, reference: str, dockerfile: Path, context: Path) -> None:
        """Build an image from a Dockerfile with buildah, on the stand-in of its base, and load it into the node."""
        store = ["--root", cache() / "buildah", "--runroot", state() / "buildah", "--storage-driver", "vfs"]
        log = state() / "build-image.log"
        with step(f"building {reference} (about a minute the first time)"), alone(state() / "build-image.lock"):
            if images.PYTHON not in output(["buildah", *store, "images", "--format", "{{.Name}}:{{.Tag}}"]):
                base = images.Image(images.PYTHON, (images.base(),))
                archive = state() / "base.tar"
                base.write(archive)
                run(["buildah", *store, "pull", f"oci-archive:{archive}"], log)
                self._tag(store, log)
                archive.unlink()
            options = ["--isolation", "chroot", "--network", "host", "--layers", "--pull-never", "-t", reference]
            run(["buildah", *store, "bud", *options, *_pip_settings(), "-f", dockerfile, context], log)
            archive = _archive()
            archive.unlink(missing_ok=True)
            run(["buildah", *store, "push", reference, f"oci-archive:{archive}:{reference}"], log)
            size = archive.stat().st_size
            self._import(archive, reference)
            run(["buildah", *store, "rmi", "--prune"], log)  # layers that only earlier builds used: each a whole copy
        print(f"{reference}: {size / 1e6:.0f} MB to download, its base among them")

    def _tag(self, store: list[object], log: Path) -> None:
        newest = output(["buildah", *store, "images", "-q"]).split()[0]
        run(["buildah", *store, "tag", newest, images.PYTHON], log)

    def _load(self, image: images.Image) -> None:
        with step(f"loading {image.name}"):
            archive = _archive()
            image.write(archive)
            self._import(archive, image.name)

    def _import(self, archive: Path, name: str) -> None:
        result = self.node.ctr("images", "import", archive)
        archive.unlink()
        if result.returncode:
            raise StepFailed(f"{name} could not be loaded: {result.stderr.strip()[-1000:]}")


def _archive() -> Path:
    """Where an image is written before it is loaded: out of the way of whoever else loads one now."""
    return state() / f"image-{os.getpid()}.tar"


def _pip_settings() -> list[str]:
    """This machine's own way to its package index goes into the build, not into the image."""
    wanted = [name for name in os.environ if name in ("PIP_INDEX_URL", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY")]
    return [word for name in wanted for word in ("--build-arg", f"{name}={os.environ[name]}")]


def _packages() -> None:
    missing = [name for program, name in APT.items() if not (shutil.which(program) or Path("/", program).exists())]
    if not missing:
        return
    names = " ".join(missing).split()
    log = state() / "apt.log"
    hint = "run as root on Debian 12; is its mirror reachable?"
    with step(f"installing {', '.join(names)}"):
        run(["apt-get", "update", "-q"], log, hint)
        run(["apt-get", "install", "-qy", "--no-install-recommends", *names], log, hint)
