"""Runs tests on a copy of the repository that has a seeded bug."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from .bugs import ROOT, Bug

#: The test levels by number; a bug is tried at the next one if no test has detected it.
LEVELS = {1: "unit tests", 2: "simulation", 3: "API server"}
#: The unit tests of each part of the operator.
UNITS = {
    "operator/trainshed/api": ("tests/unit/api", "hack/test_generate_manifests.py"),
    "operator/trainshed/frameworks": ("tests/unit/frameworks", "tests/unit/plan"),
    "operator/trainshed/plan": ("tests/unit/plan",),
    "operator/trainshed/client": ("tests/unit/client",),
    "operator/trainshed/controller": ("tests/unit/controller",),
    "operator/trainshed/cli": ("tests/unit/cli",),
    "operator/trainshed/config.py": ("tests/unit/test_config.py", "tests/unit/cli"),
    "operator/trainshed/crd.py": ("tests/unit/api", "hack/test_generate_manifests.py"),
    "operator/trainshed/process.py": ("tests/unit/controller",),
}
#: The tests on an API server that run for a bug that names none, as all would take an hour; and where all of them are.
CLIENT = "tests/unit/client"
SERVER = (CLIENT, "tests/integration")
FAST, ON_SERVER = "not apiserver and not e2e and not bench", "apiserver"
PYTEST = ("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=line", "-rfE", "--hypothesis-seed=0")
#: Seconds that one run may take.
LONGEST = 900
PASSED, FAILED, NONE_COLLECTED = 0, 1, 5


class Unusable(Exception):
    """The tests could not run at all, so they show nothing."""


def copy(target: Path) -> Path:
    """Copy the files of the repository that git knows or would add, and link the environment of v1's SDK."""
    if (sdk := ROOT / ".venv-sdk").exists():
        (target / sdk.name).symlink_to(sdk)
    listing = ("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
    for name in subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0"):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)
    return target


def detected(root: Path, level: int, bug: Bug | None) -> str:
    """The first test of a level that fails with this bug, or without one; empty if none does."""
    return next((test for paths, marker in _runs(level, bug) if (test := _run(root, paths, marker))), "")


def _runs(level: int, bug: Bug | None) -> Iterator[tuple[Iterable[str], str]]:
    """The paths and the markers of the tests to run: first those of the bug's hint, then all of the level."""
    hint = bug.hint if bug else ()
    if level == 1:
        parts = [unit for unit in UNITS if not bug or any(edit.file.startswith(unit) for edit in bug.edits)]
        units = dict.fromkeys(path for part in parts for path in UNITS[part])
        if hint:
            yield hint, FAST
        if units:  # local runs and long simulations mostly wait: one process would need half an hour for all
            yield units, f"{FAST} and not slow"
    elif level == 2:
        yield ("tests/simulation",), FAST
    else:
        yield tuple(path for path in hint if path.startswith(SERVER)) or (CLIENT,), ON_SERVER


def _run(root: Path, paths: Iterable[str], marker: str) -> str:
    paths_of_python = os.pathsep.join(str(root / folder) for folder in ("operator", "tests", "hack"))
    environment = os.environ | {"PYTHONPATH": paths_of_python, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, *PYTEST, "-m", marker, *paths]
    with subprocess.Popen(
        command, cwd=root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, process_group=0
    ) as process:
        try:
            output, _ = process.communicate(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return f"no end after {LONGEST} s"
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
    if process.returncode in (PASSED, NONE_COLLECTED):
        return ""
    if process.returncode != FAILED or not failed:
        raise Unusable(f"pytest ended with {process.returncode}:\n{output[-2000:]}")
    return failed[1].removeprefix("tests/")
