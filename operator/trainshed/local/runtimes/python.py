"""The Python of this machine that stands for the image's, and the environment that its programs need."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

#: Variables that containers get from the user's shell: what programs of this machine need to run.
INHERITED = (
    *("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "LOGNAME", "PYTHONPATH", "TMPDIR", "TZ", "USER"),
    *("CONDA_PREFIX", "CUDA_HOME", "HF_HOME", "SSL_CERT_FILE", "XDG_CACHE_HOME"),
)
#: Output appears when it is printed, and not when a buffer is full.
DEFAULTS = {"PYTHONUNBUFFERED": "1"}
#: The names under which images have their Python.
NAMES = ("python", "python3")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class NoPython(Exception):
    """There is no Python at the given place, or none that can be called by name."""


@dataclass(frozen=True, slots=True)
class Python:
    """An interpreter, and the virtual environment that it belongs to, if any.

    `names` is a folder with the names under which images have it, python and python3. `marks` are variables that all
    processes of the run have.
    """

    executable: Path
    environment_folder: Path | None = None
    names: Path | None = None
    marks: tuple[tuple[str, str], ...] = ()

    @property
    def description(self) -> str:
        """Where it is."""
        return f"Python of {self.environment_folder or self.executable}"

    @property
    def folders(self) -> tuple[Path, ...]:
        """The files and folders that its programs need."""
        return tuple(path for path in (self.environment_folder or self.executable, self.names) if path)

    def environment(self, own: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of a container: a few of the user's, then the container's own."""
        inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
        folders = [str(folder) for folder in (self.executable.parent, self.names) if folder]
        path = os.pathsep.join([*folders, os.environ.get("PATH", PATH)])
        virtual = {"VIRTUAL_ENV": str(self.environment_folder)} if self.environment_folder else {}
        return DEFAULTS | inherited | virtual | {"PATH": path} | dict(own) | dict(self.marks)


def find_python(wanted: str) -> Python:
    """Return the Python of a virtual environment, or the one that the user's shell finds; raises `NoPython`."""
    if not wanted:
        found = shutil.which("python") or shutil.which("python3")
        if not found:
            raise NoPython("there is no python in PATH; give one with --python")
        return _described(Path(found))
    path = Path(wanted).expanduser().absolute()
    executable = next((item for item in (path / "bin/python", path / "bin/python3") if item.exists()), path)
    if not executable.is_file():
        raise NoPython(f"{wanted} is neither a virtual environment nor an interpreter")
    return _described(executable)


def with_names(python: Python, folder: Path, marks: tuple[tuple[str, str], ...]) -> Python:
    """Return the Python with scripts in `folder` for the names that it lacks: python on Debian, for example.

    Raises `NoPython` for a folder that cannot be in PATH.
    """
    for flag, path in (("--state", folder), ("--python", python.executable.parent)):
        if os.pathsep in str(path):
            raise NoPython(f"{path} has a colon, so it cannot be in PATH; choose another folder with {flag}")
    folder.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        if not (python.executable.parent / name).exists():
            script = folder / name
            script.write_bytes(os.fsencode(f'#!/bin/sh\nexec {shlex.quote(str(python.executable))} "$@"\n'))
            script.chmod(0o755)
    return replace(python, names=folder, marks=marks)


def _described(executable: Path) -> Python:
    folder = executable.parent.parent
    return Python(executable, folder if (folder / "pyvenv.cfg").exists() else None)
