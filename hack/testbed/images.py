"""Images without a registry: written layer by layer, under the very names that the examples use."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from . import debian, hollow, horovod
from .archives import Image
from .binaries import binary
from .places import alone, cache, digest
from .steps import run, step

PYTHON = "docker.io/library/python:3.11-slim"
#: The Python of the operator's image, and the image below it: see Dockerfile.
OPERATOR_PYTHON = "3.13"
OPERATOR_BASE = f"docker.io/library/python:{OPERATOR_PYTHON}-slim"
TENSORFLOW = "docker.io/tensorflow/tensorflow:2.21.0"
PYTORCH = "docker.io/pytorch/pytorch:2.13.0-cuda13.0-cudnn9-runtime"
JAX = "docker.io/kubeflow/jaxjob-dist-spmd-mnist:latest"
XGBOOST = "ghcr.io/kubeflow/trainer/xgboost-runtime:latest"
PADDLE = "docker.io/paddlepaddle/paddle:3.3.1"
OPEN_MPI = "ghcr.io/trainshed/example-mpi4py:1"
HOROVOD = "ghcr.io/trainshed/example-horovod:1"
KUBECTL_DELIVERY = "ghcr.io/trainshed/kubectl-delivery:v1.36.1"
SITE = "usr/local/lib/python3.11/dist-packages"
PAUSE_SOURCE = """#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
static void end(int s) { _exit(0); }
static void reap(int s) { while (waitpid(-1, 0, WNOHANG) > 0) {} }
int main(void) { signal(SIGINT, end); signal(SIGTERM, end); signal(SIGCHLD, reap); for (;;) pause(); }
"""
#: The packages of every Debian image, and those of the image for MPI jobs: see examples/mpi/Dockerfile.
PYTHON_PACKAGES = ("python3", "python3-pip", "python3-venv")
OPEN_MPI_PACKAGES = ("openmpi-bin", "openssh-server", "python3-mpi4py", "python3-numpy")
#: What transformers needs at its import, without what the layer of PyTorch has already.
HUGGING_FACE_PACKAGES = (
    *("accelerate==1.15.0", "huggingface-hub==2.4.0", "tokenizers==0.23.3", "safetensors==0.8.0", "hf-xet==1.8.0"),
    *("regex", "tqdm", "pyyaml", "packaging", "psutil", "typer", "click", "rich", "shellingham", "annotated-doc"),
    *(
        "markdown-it-py",
        "mdurl",
        "pygments",
        "httpx2==2.16.2",
        "httpcore2==2.16.2",
        "h11",
        "anyio",
        "idna",
        "truststore",
    ),
    *("pydantic==2.14.4", "pydantic-core==2.50.5", "annotated-types", "typing-inspection"),
)
#: Between pods, whose names and keys are made for one job, ssh knows no hosts and takes keys that a volume links to.
SSH_SETTINGS = {
    "etc/ssh/ssh_config.d/pods.conf": "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n",
    "etc/ssh/sshd_config.d/pods.conf": "StrictModes no\n",
}


def base() -> Path:
    """The layer of Debian with Python, made once by debootstrap."""
    description = "a Debian with Python (once, about a minute)"
    return layer("debian-bookworm-python", description, lambda folder: _python(folder, "bookworm"))


def operator_base() -> Image:
    """Return the replacement of the image below the operator's: Debian 13, which has Python 3.13."""
    description = "a Debian with Python 3.13 (once, about a minute)"
    return Image(OPERATOR_BASE, (layer("debian-trixie-python", description, lambda folder: _python(folder, "trixie")),))


def open_mpi() -> Path:
    """The layer of Debian with Open MPI and mpi4py, which needs no other below it."""
    description = "a Debian with Open MPI (once, about a minute)"
    return layer("debian-bookworm-openmpi", description, _open_mpi)


def library(package: str) -> Path:
    """The layer of one package of Debian that needs no setting up, as libraries do not."""
    return layer(f"debian-bookworm-{package}", f"a layer of {package}", lambda folder: debian.unpack(folder, package))


def packages(name: str, *requirements: str) -> Path:
    """A layer of Python packages, made once by pip."""
    description = f"a layer of {' '.join(requirements)} (once, a minute or two)"
    return layer(f"{name}-{digest(' '.join(requirements))}", description, lambda folder: _pip(folder, requirements))


def pause() -> Path:
    """The layer of the pause container: a program of a few lines, linked statically."""
    return layer("pause", "the pause container", _compile_pause)


def _torch() -> Path:
    """PyTorch without the gigabytes of NVIDIA's libraries, of which only the names are left: nothing here has a GPU."""
    return packages("torch-without-cuda", "torch==2.13.0", "numpy", "scikit-learn")


def hugging_face() -> Image:
    """Return an image with the real Trainer of Hugging Face, and what it needs besides PyTorch."""
    own = packages("transformers", "--no-deps", "transformers==5.24.*", *HUGGING_FACE_PACKAGES)
    return Image("localhost/transformers:5.24", (base(), _torch(), own), ("python3",))


def _horovod() -> tuple[Path, ...]:
    content = digest(" ".join((*horovod.COMPILER_PACKAGES, horovod.AGAIN, *horovod.REQUIREMENTS, horovod.RELEASE)))
    description = "a layer of Horovod, compiled for TensorFlow 2.13 (once, about ten minutes)"
    return open_mpi(), layer(f"horovod-{content}", description, horovod.compile_into)


def _paddle() -> tuple[Path, ...]:
    return base(), library("libgomp1"), packages("paddle", "paddlepaddle==3.3.1", "numpy")


#: The public images that the examples name, and the functions that create the layers of their replacements.
STAND_INS: dict[str, Callable[[], tuple[Path, ...]]] = {
    PYTHON: lambda: (base(),),
    TENSORFLOW: lambda: (base(), packages("tensorflow", "tensorflow-cpu==2.21.*", "numpy", "scikit-learn")),
    PYTORCH: lambda: (base(), _torch()),
    JAX: lambda: (base(), packages("jax", "jax==0.10.2", "numpy")),
    XGBOOST: lambda: (base(), packages("xgboost", "xgboost-cpu==3.2.0", "numpy")),
    PADDLE: _paddle,
    OPEN_MPI: lambda: (open_mpi(),),
    HOROVOD: _horovod,
    KUBECTL_DELIVERY: lambda: (base(), program("kube", "kubectl")),
}
#: Stand-ins that take minutes to compile: they are made for the tests and manifests that name them.
COMPILED = (HOROVOD,)
#: Images of the examples that no registry has, and their Dockerfiles below examples/.
DOCKERFILES = {OPEN_MPI: "mpi/Dockerfile", HOROVOD: "mpi/horovod.Dockerfile"}
COMMANDS = {KUBECTL_DELIVERY: ("/bin/sh", "-c", "cp /usr/local/bin/kubectl $TARGET_DIR/kubectl")}


def stand_in(name: str) -> Image:
    """Return the replacement of a public image; its layers are created first if they do not exist."""
    return Image(name, STAND_INS[name](), COMMANDS.get(name, ("python3",)))


def common() -> list[str]:
    """Return the public images for which a stand-in is made within a few minutes."""
    return [name for name in STAND_INS if name not in COMPILED]


def named(manifest: str) -> list[str]:
    """The public images that a manifest names and that have a stand-in."""
    found = {_in_full(name) for name in re.findall(r"\bimage: *[\"']?([\w./:-]+)", manifest)}
    return [name for name in STAND_INS if name in found]


def _in_full(name: str) -> str:
    first, slash, _ = name.partition("/")
    if not slash:
        return f"docker.io/library/{name}"
    return name if "." in first or ":" in first or first == "localhost" else f"docker.io/{name}"


def program(group: str, name: str) -> Path:
    """The layer of one program alone, linked statically."""
    path = binary(group, name)
    return executable(path, path.parent.name)


def executable(path: Path, version: str) -> Path:
    """The layer of one file alone that is run by its name."""

    def copy(folder: Path) -> None:
        (folder / "usr/local/bin").mkdir(parents=True)
        shutil.copy(path, folder / "usr/local/bin")

    return layer(f"{version}-{path.name}", f"a layer of {path.name}", copy)


def layer(name: str, description: str, make: Callable[[Path], None]) -> Path:
    """A layer as a tar file in the cache; `make` fills a folder with it if it is not there."""
    path = cache() / "layers" / f"{name}.tar"
    path.parent.mkdir(parents=True, exist_ok=True)
    with alone(path.with_suffix(".lock")):
        if not path.exists():
            work = path.with_suffix(".work")
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir()
            with step(f"making {description}"):
                make(work)
                fresh = path.with_suffix(".new")
                run(["tar", "--numeric-owner", "--owner=0", "--group=0", "-C", work, "-cf", fresh, "."], _log(name))
                fresh.rename(path)
            shutil.rmtree(work, ignore_errors=True)
    return path


def _python(folder: Path, release: str) -> None:
    debian.bootstrap(folder, PYTHON_PACKAGES, release)
    for marker in folder.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
        marker.unlink()
    (folder / "usr/bin/python").symlink_to("python3")


def _open_mpi(folder: Path) -> None:
    debian.bootstrap(folder, OPEN_MPI_PACKAGES)
    (folder / "run/sshd").mkdir(parents=True, exist_ok=True)
    for place, settings in SSH_SETTINGS.items():
        (folder / place).write_text(settings)


def _pip(folder: Path, requirements: Iterable[str]) -> None:
    target = folder / SITE
    command = [sys.executable, "-m", "pip", "install", "--no-compile", "--target", target, *requirements]
    command += ["--python-version=3.11", "--implementation=cp", "--only-binary=:all:"]
    run(command, _log(folder.stem), hint="is the Python package index reachable?")
    for junk in ("include", "__pycache__", "triton"):
        for path in target.glob(f"**/{junk}"):
            shutil.rmtree(path, ignore_errors=True)
    for path in sorted(target.glob("nvidia/**/*.so*")):
        hollow.out(path, _log(folder.stem))
    programs = folder / "usr/local/bin"
    programs.mkdir(parents=True)
    for program in target.glob("bin/*"):
        head, _, body = program.read_bytes().partition(b"\n")
        if head.startswith(b"#!"):
            (programs / program.name).write_bytes(b"#!/usr/bin/python3\n" + body)
            (programs / program.name).chmod(0o755)


def _compile_pause(folder: Path) -> None:
    debian.ensure("cc")
    source = folder.parent / "pause.c"
    source.write_text(PAUSE_SOURCE)
    run(["cc", "-Os", "-static", "-o", folder / "pause", source], _log("pause"), hint="apt-get install gcc libc6-dev")


def _log(name: str) -> Path:
    return cache() / "logs" / f"image-{name}.log"
