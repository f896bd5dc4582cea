"""Runs of Python in a copy of the repository, each in a process that has others' packages already: seconds for none."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import pkgutil
import runpy
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

#: Nothing of ours: that is to come from the copy.
PACKAGES = ("pytest", "pytest_asyncio", "hypothesis", "aiohttp", "kopf", "pydantic", "msgspec", "prometheus_client")
PACKAGES += ("rich", "cryptography.x509", "uvloop", "click", "yaml")
#: What a run ends with whose copy cannot be imported.
BROKEN = 70

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(list(PACKAGES))


def run(root: Path, words: Sequence[str], more: Mapping[str, str], longest: float) -> tuple[int | None, str]:
    """What `python WORDS` ends with in the copy at `root`, None after so many seconds without an end; and what it said.

    `words` begin with `-m` and a module. All of the copy is imported before it runs.
    """
    with TemporaryDirectory(prefix="trainshed-told-") as folder:
        told = Path(folder) / "told"
        process = _CONTEXT.Process(target=_begin, args=(root, tuple(words), dict(more), told))
        process.start()
        process.join(longest)
        code = process.exitcode
        if code is None:
            os.killpg(process.pid or 0, signal.SIGKILL)
            process.join()
        return code, told.read_text(errors="replace") if told.exists() else ""


def _begin(root: Path, words: tuple[str, ...], more: dict[str, str], told: Path) -> None:
    os.setsid()
    output = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w", buffering=1), os.fdopen(2, "w", buffering=1)
    os.chdir(root)
    paths = [str(root / folder) for folder in ("operator", "tests", "hack")]
    os.environ.update({"PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1", **more})
    sys.path[:0] = paths
    sys.dont_write_bytecode = True
    _import(root)
    sys.argv = [words[1], *words[2:]]
    runpy.run_module(words[1], run_name="__main__", alter_sys=True)


def _import(root: Path) -> None:
    """Import all of the copy, and see that it is the copy: the environment knows another place of it."""
    try:
        package = importlib.import_module("trainshed")
        for found in pkgutil.walk_packages(package.__path__, "trainshed."):
            importlib.import_module(found.name)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the bug's
        print(f"cannot be imported: {error!r}")
        sys.exit(BROKEN)
    place = Path(package.__file__ or "").resolve()
    if root.resolve() not in place.parents:
        print(f"{place} was imported in its place")
        sys.exit(BROKEN)
