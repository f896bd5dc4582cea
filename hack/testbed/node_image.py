"""The image of kind's nodes, built with `kind build node-image` where the published one cannot be pulled.

kind wants a base image and a release of Kubernetes as its project publishes them. Both are made here: the base of
Debian's packages, of programs built from their Go modules and of the files in kind's module; the release with every
image that a node needs in the archive of the first, so that kind finds them all there and pulls none.
"""

from __future__ import annotations

import json
import re
import shutil
import tarfile
from collections.abc import Iterator
from functools import cache as once
from pathlib import Path

from . import archives, binaries, debian, images
from .archives import Image
from .binaries import CONTROL_PLANE, KUBERNETES, binary
from .docker import docker, environment, has_image
from .places import HERE, ROOT, digest, state
from .steps import output, run, step

#: Debian packages of a node: those of kind's own base image, and runc and the CNI plugins, which kind builds.
# fmt: off
NODE_PACKAGES = (
    "systemd", "systemd-sysv", "dbus", "conntrack", "iptables", "nftables", "iproute2", "ethtool", "util-linux",
    "mount", "kmod", "libseccomp2", "pigz", "e2fsprogs", "bash", "curl", "jq", "procps", "runc",
    "containernetworking-plugins",
)
# fmt: on
#: And below kube-proxy and what takes kindnetd's place.
NETWORK_PACKAGES = ("conntrack", "iptables", "nftables", "iproute2", "kmod", "bash", "procps")
#: The groups of programs in the base of the image, and in the images of its pods.
BASE, PODS = ("containerd", "cri-tools"), ("kube", "etcd", "coredns", "local-path-provisioner")
LOG = "node-image.log"


def published() -> str:
    """The image that this version of kind takes of itself, with its digest."""
    source = (_kind() / "pkg/apis/config/defaults/image.go").read_text()
    return re.search(r'Image = "(\S+)"', source)[1]  # type: ignore[index]


def build() -> str:
    """Build the image unless it is there; its name, which changes with all that it is made of."""
    name = f"trainshed.dev/kind-node:{KUBERNETES}-{_digest()}"
    if not has_image(name):
        base = _base(name.partition(":")[2])
        release = _release()
        with step("building the image of the nodes"):
            command = [binary("kind", "kind"), "build", "node-image", "--type=file", release, "--image", name]
            run([*command, "--base-image", base], state() / LOG, "docker info; docker system df", env=environment())
        release.unlink()
    return name


def programs() -> None:
    """Build the programs of a node from their Go modules, as far as they are not there."""
    for group in (*PODS, *BASE):
        binaries.programs(group)


def layers() -> None:
    """Make the parts of the image that are made of Debian's packages, as far as they are not there."""
    for make in (_node, _network, images.base):
        make()


def _base(tag: str) -> str:
    """Build the base image: Debian with the packages that kind requires."""
    name, system = f"trainshed.dev/kind-base:{tag}", f"trainshed.dev/debian:{tag}"
    with step("building the base of the nodes"):
        docker("import", _node(), system)
        context = state() / "node-context"
        shutil.rmtree(context, ignore_errors=True)
        shutil.copytree(_kind() / "images" / "base" / "files", context / "files")
        for path in (context, *context.glob("**/*")):  # files of a Go module cannot be written to
            path.chmod(path.stat().st_mode | 0o200)
        (context / "programs").mkdir()
        for path in (path for group in BASE for path in binaries.programs(group)):
            shutil.copy(path, context / "programs")
        recipe = HERE / "node" / "Dockerfile"
        docker("build", "--tag", name, "--build-arg", f"DEBIAN={system}", "--file", recipe, context)
        shutil.rmtree(context)
    return name


def _release() -> Path:
    """A release of Kubernetes in the form in which its servers are published."""
    place = state() / "kubernetes-server.tar.gz"
    programs = "kubernetes/server/bin"
    with step("packing Kubernetes"):
        bundle, known = state() / "node-images.tar", state() / "known-image.tar"
        archives.write(bundle, _images())
        archives.write(known, [_pause()])
        version = state() / "kubernetes-version"
        version.write_text(KUBERNETES)
        with tarfile.open(place, "w:gz", compresslevel=1) as tar:
            tar.add(version, "kubernetes/version")
            for program in ("kubeadm", "kubelet", "kubectl"):
                tar.add(binary("kube", program), f"{programs}/{program}")
            tar.add(bundle, f"{programs}/{CONTROL_PLANE[0]}.tar")
            for name in (CONTROL_PLANE[1], "kube-scheduler", "kube-proxy"):
                tar.add(known, f"{programs}/{name}.tar")
        for path in (bundle, known, version):
            path.unlink()
    return place


def _images() -> Iterator[Image]:
    """Every image that a node needs, by the names that kubeadm and kind give them."""
    wanted = output([binary("kube", "kubeadm"), "config", "images", "list", f"--kubernetes-version={KUBERNETES}"])
    kubernetes = {name.rpartition("/")[2].partition(":")[0]: name for name in wanted.split()}
    for program in (*CONTROL_PLANE, "kube-scheduler"):
        yield Image(kubernetes[program], (images.program("kube", program),))
    yield Image(kubernetes["kube-proxy"], (_network(), images.program("kube", "kube-proxy")))
    yield Image(kubernetes["etcd"], (images.program("etcd", "etcd"),))
    yield Image(kubernetes["coredns"], (images.program("coredns", "coredns"),), entrypoint=("coredns",))
    yield _pause()
    router = (_network(), images.program("kube", "kubectl"), _router())
    yield Image(_named("pkg/build/nodeimage/const_cni.go", "kindnetd"), router, ("/usr/local/bin/kindnetd.sh",))
    storage = "pkg/build/nodeimage/const_storage.go"
    provisioner = images.program("local-path-provisioner", "local-path-provisioner")
    yield Image(_named(storage, "local-path-provisioner"), (provisioner,), ("local-path-provisioner",))
    yield Image(_named(storage, "local-path-helper"), (_network(),), ("/bin/sh",))


def _pause() -> Image:
    return Image(_named("images/base/files/etc/containerd/config.toml", "pause"), (images.pause(),), ("/pause",))


def _node() -> Path:
    return _debian("node", "a Debian with systemd (once, about a minute)", NODE_PACKAGES)


def _network() -> Path:
    return _debian("network", "a Debian with iptables (once, half a minute)", NETWORK_PACKAGES)


def _debian(name: str, description: str, packages: tuple[str, ...]) -> Path:
    named = f"debian-bookworm-{name}-{digest(' '.join(packages))}"
    return images.layer(named, description, lambda folder: debian.bootstrap(folder, packages))


def _router() -> Path:
    script = HERE / "node" / "kindnetd.sh"
    return images.executable(script, digest(script.read_bytes()))


def _named(file: str, image: str) -> str:
    """The full name by which a file of kind's module calls an image."""
    return re.search(rf"[\w./-]+/{image}:[\w.-]+", (_kind() / file).read_text())[0]  # type: ignore[index]


@once
def _kind() -> Path:
    """The folder of kind's module."""
    found = output(["go", "mod", "download", "-json", "sigs.k8s.io/kind"], cwd=HERE / "tools" / "kind")
    return Path(json.loads(found)["Dir"])


def _digest() -> str:
    """Return eight digits that change with the content of the image."""
    modules = [HERE / "tools" / group / "go.mod" for group in ("kind", *PODS, *BASE)]
    mine = [*sorted((HERE / "node").iterdir()), *modules, Path(__file__)]
    return digest(b"".join(str(path.relative_to(ROOT)).encode() + path.read_bytes() for path in mine))
