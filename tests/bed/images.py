"""Images without a registry: written layer by layer, under the very names that the examples use."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import sys
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .binaries import KUBERNETES, binary
from .places import cache
from .steps import StepFailed, output, run, step

PYTHON = "docker.io/library/python:3.11-slim"
TENSORFLOW = "docker.io/tensorflow/tensorflow:2.21.0"
PYTORCH = "docker.io/pytorch/pytorch:2.13.0-cuda13.0-cudnn9-runtime"
JAX = "docker.io/kubeflow/jaxjob-dist-spmd-mnist:latest"
XGBOOST = "ghcr.io/kubeflow/trainer/xgboost-runtime:latest"
PADDLE = "docker.io/paddlepaddle/paddle:3.3.1"
OPEN_MPI = "ghcr.io/trainshed/example-mpi4py:1"
KUBECTL_DELIVERY = "ghcr.io/kubeflow/training-v1/kubectl-delivery:latest"
PAUSE = "localhost/pause:1"
SITE = "usr/local/lib/python3.11/dist-packages"
PAUSE_SOURCE = """#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
static void end(int s) { _exit(0); }
static void reap(int s) { while (waitpid(-1, 0, WNOHANG) > 0) {} }
int main(void) { signal(SIGINT, end); signal(SIGTERM, end); signal(SIGCHLD, reap); for (;;) pause(); }
"""
#: What is in every Debian here, and what else is in that of the MPI jobs: see examples/mpi/Dockerfile.
PYTHON_PACKAGES = ("python3", "python3-pip", "python3-venv", "ca-certificates")
OPEN_MPI_PACKAGES = ("openmpi-bin", "openssh-server", "python3-mpi4py", "python3-numpy")
#: Between pods, whose names and keys are made for one job, ssh knows no hosts and takes keys that a volume links to.
SSH_SETTINGS = {
    "etc/ssh/ssh_config.d/pods.conf": "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n",
    "etc/ssh/sshd_config.d/pods.conf": "StrictModes no\n",
}
ENV = ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "PYTHONDONTWRITEBYTECODE=1"]


@dataclass(frozen=True)
class Image:
    """An image: its name, its layers as tar files from the bottom up, and what it runs."""

    name: str
    layers: tuple[Path, ...]
    command: tuple[str, ...] = ("python3",)

    def write(self, path: Path) -> None:
        """Write it as an OCI layout in a tar."""
        layers = [_blob_of(layer) for layer in self.layers]
        rootfs = {"type": "layers", "diff_ids": [layer["digest"] for layer in layers]}
        config = {"architecture": "amd64", "os": "linux", "config": {"Env": ENV, "Cmd": list(self.command)}}
        history = [{"created_by": layer.stem} for layer in self.layers]
        described = json.dumps(config | {"rootfs": rootfs, "history": history}).encode()
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": _blob("application/vnd.oci.image.config.v1+json", described),
            "layers": layers,
        }
        listed = json.dumps(manifest).encode()
        entry = _blob("application/vnd.oci.image.manifest.v1+json", listed)
        entry["annotations"] = {"io.containerd.image.name": self.name}
        index = json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode()
        with tarfile.open(path, "w") as tar:
            _add(tar, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
            _add(tar, "index.json", index)
            for content in (described, listed):
                _add(tar, _place(hashlib.sha256(content).hexdigest()), content)
            for layer, blob in zip(self.layers, layers, strict=True):
                tar.add(layer, _place(blob["digest"].partition(":")[2]))


def base() -> Path:
    """The layer of Debian with Python, made once by debootstrap."""
    told = "a Debian with Python (once, about a minute)"
    return _made("debian-bookworm-python", told, lambda folder: _debootstrap(folder, PYTHON_PACKAGES))


def open_mpi() -> Path:
    """The layer of Debian with Open MPI and mpi4py, which needs no other below it."""
    told = "a Debian with Open MPI (once, about a minute)"
    return _made("debian-bookworm-openmpi", told, _open_mpi)


def library(package: str) -> Path:
    """The layer of one package of Debian that needs no setting up, as libraries do not."""
    return _made(f"debian-bookworm-{package}", f"a layer of {package}", lambda folder: _unpack(folder, package))


def kubectl() -> Path:
    """A layer of kubectl alone."""
    return _made(f"kubectl-{KUBERNETES}", "a layer of kubectl", _kubectl)


def packages(name: str, *requirements: str) -> Path:
    """A layer of Python packages, made once by pip."""
    told = f"a layer of {' '.join(requirements)} (once, a minute or two)"
    digest = hashlib.sha256(" ".join(requirements).encode()).hexdigest()[:8]
    return _made(f"{name}-{digest}", told, lambda folder: _pip(folder, requirements))


def pause() -> Path:
    """The layer of the pause container: a program of a few lines, linked statically."""
    return _made("pause", "the pause container", _compile_pause)


def stand_ins() -> Iterable[Image]:
    """The public images that the examples name, as far as they are needed."""
    yield Image(PAUSE, (pause(),), ("/pause",))
    yield Image(PYTHON, (base(),))
    yield Image(TENSORFLOW, (base(), packages("tensorflow", "tensorflow-cpu==2.21.*", "numpy", "scikit-learn")))
    yield Image(PYTORCH, (base(), packages("torch", "torch==2.13.0", "numpy", "scikit-learn")))
    yield Image(JAX, (base(), packages("jax", "jax==0.10.2", "numpy")))
    yield Image(XGBOOST, (base(), packages("xgboost", "xgboost-cpu==3.2.0", "numpy")))
    paddle = packages("paddle", "paddlepaddle==3.3.1", "numpy")
    yield Image(PADDLE, (base(), library("libgomp1"), paddle))
    yield Image(OPEN_MPI, (open_mpi(),))
    deliver = ("/bin/sh", "-c", "cp /usr/bin/kubectl $TARGET_DIR/kubectl")
    yield Image(KUBECTL_DELIVERY, (base(), kubectl()), deliver)


def _made(name: str, told: str, make: object) -> Path:
    path = cache() / "layers" / f"{name}.tar"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    work = path.with_suffix(".work")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    with step(f"making {told}"):
        make(work)  # type: ignore[operator]
        fresh = path.with_suffix(".new")
        run(["tar", "--numeric-owner", "--owner=0", "--group=0", "-C", work, "-cf", fresh, "."], _log(name))
        fresh.rename(path)
    shutil.rmtree(work, ignore_errors=True)
    return path


def _debootstrap(folder: Path, wanted: Iterable[str]) -> None:
    include = f"--include={','.join(wanted)}"
    command = ["debootstrap", "--variant=minbase", include, "bookworm", folder, _mirror()]
    run(command, _log("debian"), hint="are Debian's packages reachable? apt-get update tells")
    for junk in ("var/lib/apt/lists", "var/cache/apt/archives", "usr/share/doc", "usr/share/man", "usr/share/locale"):
        shutil.rmtree(folder / junk, ignore_errors=True)
    for marker in folder.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
        marker.unlink()
    (folder / "usr/bin/python").symlink_to("python3")
    authorities = Path("/etc/ssl/certs/ca-certificates.crt")
    if authorities.exists():
        shutil.copy(authorities, folder / "etc/ssl/certs/ca-certificates.crt")


def _open_mpi(folder: Path) -> None:
    _debootstrap(folder, ("ca-certificates", *OPEN_MPI_PACKAGES))
    (folder / "run/sshd").mkdir(parents=True, exist_ok=True)
    for place, settings in SSH_SETTINGS.items():
        (folder / place).write_text(settings)


def _unpack(folder: Path, package: str) -> None:
    log, hint = _log(package), "apt-get update, then try again"
    run(["apt-get", "download", package], log, hint, cwd=folder)
    (archive,) = folder.glob("*.deb")
    run(["dpkg-deb", "-x", archive, folder], log)
    archive.unlink()


def _kubectl(folder: Path) -> None:
    programs = folder / "usr/bin"  # not `bin`, which is a link in the layer below
    programs.mkdir(parents=True)
    shutil.copy(binary("kube", "kubectl"), programs / "kubectl")


def _mirror() -> str:
    """Where this machine's own apt takes Debian from."""
    found = output(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"])
    wanted = (line for line in found.splitlines() if "security" not in line and "debian" in line)
    mirror = next(wanted, "")
    if not mirror:
        raise StepFailed("apt knows no Debian mirror: apt-get update, then try again")
    return mirror


def _pip(folder: Path, requirements: Iterable[str]) -> None:
    target = folder / SITE
    command = [sys.executable, "-m", "pip", "install", "--no-compile", "--target", target, *requirements]
    run(command, _log(folder.stem), hint="is the Python package index reachable?")
    for junk in ("include", "__pycache__", "triton"):
        for path in target.glob(f"**/{junk}"):
            shutil.rmtree(path, ignore_errors=True)
    programs = folder / "usr/local/bin"
    programs.mkdir(parents=True)
    for program in target.glob("bin/*"):
        head, _, body = program.read_bytes().partition(b"\n")
        if head.startswith(b"#!"):
            (programs / program.name).write_bytes(b"#!/usr/bin/python3\n" + body)
            (programs / program.name).chmod(0o755)


def _compile_pause(folder: Path) -> None:
    source = folder.parent / "pause.c"
    source.write_text(PAUSE_SOURCE)
    run(["cc", "-Os", "-static", "-o", folder / "pause", source], _log("pause"), hint="apt-get install gcc libc6-dev")


def _log(name: str) -> Path:
    return cache() / "logs" / f"image-{name}.log"


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))


def _blob(kind: str, content: bytes) -> dict:
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    return {"mediaType": kind, "digest": digest, "size": len(content)}


def _blob_of(layer: Path) -> dict:
    known = layer.with_suffix(".sha256")
    if not known.exists():
        with layer.open("rb") as file:
            known.write_text(hashlib.file_digest(file, "sha256").hexdigest())
    digest = f"sha256:{known.read_text()}"
    return {"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": digest, "size": layer.stat().st_size}


def _place(digest: str) -> str:
    return f"blobs/sha256/{digest}"
