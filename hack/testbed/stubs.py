"""Stubs of programs that take minutes on a new machine, such as the Go compiler; they record their arguments.

The programs that the stub of the compiler "builds" are stubs too, and answer as the real ones do.
"""

from __future__ import annotations

from pathlib import Path

KIND_FILES = {
    "pkg/apis/config/defaults/image.go": 'const Image = "kindest/node:v1@sha256:0"',
    "pkg/build/nodeimage/const_cni.go": "docker.io/kindest/kindnetd:v1",
    "pkg/build/nodeimage/const_storage.go": (
        "docker.io/kindest/local-path-provisioner:v1 docker.io/kindest/local-path-helper:v1"
    ),
    "images/base/files/etc/containerd/config.toml": 'sandbox_image = "registry.k8s.io/pause:1"',
}
GO = """#!/bin/bash
if [ "$1" = mod ]; then echo '{{"Dir": "{module}"}}'; exit; fi
while [ $# -gt 1 ]; do
    if [ "$1" = -o ]; then path=$2; fi
    shift
done
name=$(basename "$path" .new)
echo "go build $name" >> "{said}"
echo compiling $name
cp "{built}" "$path" && chmod +x "$path"
"""
#: The stub of every program that is built: it answers by its own name.
BUILT = """#!/bin/bash
name=$(basename "$0")
echo "$name $*" >> "{said}"
case "$name $*" in
    "kind create cluster"*) echo 0123456789ab > "{folder}/nodes" ;;
    "kubeadm config images list"*) printf 'registry.k8s.io/%s\\n' kube-apiserver:v1 kube-controller-manager:v1 \\
        kube-scheduler:v1 kube-proxy:v1 coredns/coredns:v1 etcd:1 pause:1 ;;
    *"get nodes"*) printf 'node%s Ready\\n' 1 2 3 ;;
    *jsonpath*conditions*) echo -n Succeeded ;;
esac
"""
DOCKER = """#!/bin/bash
echo "docker $*" >> "{said}"
case "$*" in
    pull*) [ "${{STUB_REGISTRY:-yes}}" = yes ] || {{ echo "no such host" >&2; exit 1; }} ;;
    "image inspect --format"*) echo 1000000 ;;
    "image inspect"*) exit 1 ;;
    "ps --all"*) cat "{folder}/nodes" 2>/dev/null || true ;;
    exec*) echo '{{}}' ;;
esac
"""
DEBOOTSTRAP = """#!/bin/bash
echo "debootstrap $*" >> "{said}"
for word in "$@"; do case "$word" in /*) mkdir -p "$word/etc/ssl/certs" "$word/usr/bin" ;; esac; done
"""
CC = """#!/bin/bash
while [ $# -gt 1 ]; do if [ "$1" = -o ]; then touch "$2"; fi; shift; done
"""
APT = """#!/bin/bash
echo mirror/debian
"""
STUBS = {"go": GO, "docker": DOCKER, "debootstrap": DEBOOTSTRAP, "cc": CC, "apt-get": APT}


def programs(folder: Path) -> Path:
    """Write the stubs below a folder, for the PATH; they record their arguments in its file `said`."""
    shelf, module = folder / "programs", folder / "module"
    shelf.mkdir()
    for name, content in KIND_FILES.items():
        (module / name).parent.mkdir(parents=True, exist_ok=True)
        (module / name).write_text(content)
    fields = {"said": folder / "said", "folder": folder, "module": module, "built": folder / "built"}
    (folder / "built").write_text(BUILT.format(**fields))
    for name, text in STUBS.items():
        (shelf / name).write_text(text.format(**fields))
        (shelf / name).chmod(0o755)
    return shelf
