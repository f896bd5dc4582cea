"""Compiles Horovod, which has no wheels, for one version of TensorFlow: see examples/mpi/horovod.Dockerfile."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from . import debian
from .places import cache
from .steps import run

COMPILER_PACKAGES = ("g++", "cmake", "make", "libopenmpi-dev", "python3-dev", "python3-pip")
#: libopenmpi-dev needs `automake-1.16` through libltdl-dev: apt knows that automake provides it, debootstrap does not.
PROVIDERS = ("automake",)
#: TensorFlow, whose headers Horovod includes; what Horovod imports; and what its setup.py needs. In setuptools
#: is also the distutils that TensorFlow imports and Debian's python3 lacks.
REQUIREMENTS = ("tensorflow-cpu==2.13.1", "cloudpickle", "psutil", "pyyaml", "packaging", "setuptools<70", "wheel")
#: Installs them even if Debian has them, as it has setuptools for pip: the image has only what pip installs.
AGAIN = "--ignore-installed"
RELEASE = "horovod==0.28.1"
SETTINGS = {
    "HOROVOD_WITH_TENSORFLOW": "1",
    "HOROVOD_WITH_MPI": "1",
    "HOROVOD_WITH_GLOO": "1",
    "HOROVOD_WITHOUT_PYTORCH": "1",
    "HOROVOD_WITHOUT_MXNET": "1",
}
PIP = ("pip3", "install", "--break-system-packages", "--no-cache-dir", "--no-compile")


def compile_into(folder: Path) -> None:
    """Fill a folder with the layer of Horovod and TensorFlow. They are built in a Debian that is removed afterwards."""
    root, log = folder.with_suffix(".root"), cache() / "logs" / "image-horovod.log"
    shutil.rmtree(root, ignore_errors=True)
    debian.bootstrap(root, (*COMPILER_PACKAGES, *PROVIDERS))
    # With its own PID and mount namespaces, a command that is interrupted leaves no process and no mounted /proc.
    inside = ["unshare", "--mount", "--pid", "--fork", f"--mount-proc={root / 'proc'}", "chroot", root]
    hint = "is the Python package index reachable?"
    run([*inside, *PIP, AGAIN, *REQUIREMENTS], log, hint, env=_environment())
    run([*inside, *PIP, "--no-deps", "--no-build-isolation", "--verbose", RELEASE], log, hint, env=_environment())
    shutil.copytree(root / "usr/local", folder / "usr/local", symlinks=True)
    shutil.rmtree(root)
    for headers in list(folder.glob("**/include")):
        shutil.rmtree(headers, ignore_errors=True)


def _environment() -> dict[str, str]:
    """Return the settings of the compilation, and this machine's settings for pip."""
    own = {name: value for name, value in os.environ.items() if name.startswith("PIP_") or name.endswith("_PROXY")}
    python = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "PYTHONDONTWRITEBYTECODE": "1"}
    return own | SETTINGS | python | {"MAKEFLAGS": f"-j{os.cpu_count() or 1}"}
