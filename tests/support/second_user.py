"""Another user of the machine: programs that run with a uid of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

OTHER_USER = 65534
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run programs as another user")


@contextmanager
def open_folder() -> Iterator[Path]:
    """Make a folder that every user can enter, which the folders of pytest are not."""
    path = Path(tempfile.mkdtemp(prefix="trainshed-test-"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path)


def as_nobody(script: str, *words: object) -> str:
    """Run a Python script as another user; return its output.

    The modules are imported before, because that user may not be able to enter the folder of the interpreter.
    """
    begin = (
        "import array, glob, json, os, pathlib, shutil, socket, sys\n"
        f"os.chdir('/'); os.setgroups([]); os.setresgid(*[{OTHER_USER}] * 3); os.setresuid(*[{OTHER_USER}] * 3)\n"
    )
    command = [sys.executable, "-I", "-c", begin + script, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
