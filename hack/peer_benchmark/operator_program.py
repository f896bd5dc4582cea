"""The operator with the Python and the packages of its image, but without a container.

The virtual environments of the repository have another Python, which can be a slower one: pyenv compiles Python without
profile-guided optimization, images have it with.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys

from testbed import images
from testbed.archives import unpacked
from testbed.places import ROOT, cache
from testbed.steps import run, step

FOLDER = ROOT / "build" / "operator"
#: A program with the arguments of Python: `program -m trainshed operator`.
PROGRAM = FOLDER / "python"
LOG = FOLDER / "install.log"


def install() -> None:
    """Install the operator from the working tree, and its pinned packages. Raises StepFailed."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    version = images.OPERATOR_PYTHON
    with step(f"installing the operator for Python {version}"):
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
        target = ["--no-deps", "--no-compile", "--target", FOLDER / "packages"]
        binary = [f"--python-version={version}", "--implementation=cp", "--only-binary=:all:"]
        pinned = ROOT / "constraints" / "operator.txt"
        run([*pip, "install", *target, *binary, "--require-hashes", "-r", pinned], LOG)
        run([*pip, "install", *target, "--no-build-isolation", ROOT], LOG)
    (layer,) = images.operator_base().layers
    root = unpacked(layer, cache() / layer.stem, "--exclude=./dev/*")
    (loader,) = root.glob("usr/lib/*-linux-gnu/ld-linux-*.so.*")
    python = shlex.join(map(str, (loader, "--library-path", loader.parent, root / "usr" / "bin" / f"python{version}")))
    # Started through its own loader, Python does not find its modules.
    settings = f"PYTHONHOME={shlex.quote(f'{root}/usr')} PYTHONPATH={shlex.quote(f'{FOLDER}/packages')}"
    PROGRAM.write_text(f'#!/bin/sh\n{settings} exec {python} "$@"\n')
    PROGRAM.chmod(0o755)
    run([PROGRAM, "-m", "compileall", "-q", FOLDER / "packages"], LOG)


def python_version() -> str:
    """Return the exact version of the Python that the operator runs on."""
    command = [str(PROGRAM), "-c", "import platform; print(platform.python_version())"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
