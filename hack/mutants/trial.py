"""A trial: a copy of the repository with one bug in it, and what the suites say to that."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from . import forks
from .bugs import ROOT, Bug, seeded, texts
from .levels import Level

#: What the tests need of the repository.
NEEDED = (
    "conftest.py",
    "operator",
    "tests",
    "hack",
    "crds",
    "manifests",
    "charts",
    "examples",
    "docs",
    "profiles",
    "Makefile",
    "Dockerfile",
)
FILES = ("pyproject.toml", "README.md", "CONTRIBUTING.md")
LEFT = shutil.ignore_patterns("__pycache__", "*.pyc", ".hypothesis", ".pytest_cache", "*.egg-info")
#: Seconds that one level may take.
LONGEST = 900
PASSED, FAILED, NONE_COLLECTED = 0, 1, 5


class Unusable(Exception):
    """A copy that says nothing about the tests: it cannot be imported, or something else is imported in its place."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a level says: the test that failed first, or that it passed, or that it came to no end."""

    level: Level
    killer: str = ""
    endless: bool = False
    told: str = ""


@contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """The repository as it was committed, or as it stands here if no commit is named."""
    if not commit:
        yield ROOT
        return
    with TemporaryDirectory(prefix="trainshed-commit-") as folder:
        packed = subprocess.run(("git", "archive", commit), cwd=ROOT, capture_output=True, check=True)
        subprocess.run(("tar", "-x"), cwd=folder, input=packed.stdout, check=True)
        yield Path(folder)


@contextmanager
def copy(original: Path, bug: Bug | None) -> Iterator[Path]:
    """A copy of the repository with this bug in it, or none; raises `Unusable`."""
    with TemporaryDirectory(prefix="trainshed-mutant-") as folder:
        root = Path(folder)
        for name in (*NEEDED, *FILES):
            source = original / name
            if source.is_dir():
                shutil.copytree(source, root / name, ignore=LEFT)
            elif source.exists():
                shutil.copy(source, root / name)
        try:
            changed = seeded(bug, texts(bug, root)) if bug else {}
        except (ValueError, OSError) as error:
            raise Unusable(str(error)) from error
        for name, text in changed.items():
            (root / name).write_text(text)
        yield root


def judge(root: Path, level: Level, bug: Bug | None) -> Verdict:
    """What a level says of a copy, at the first of its runs that notices; raises `Unusable` if one cannot begin."""
    verdict = Verdict(level)
    for words in level.runs(bug):
        verdict = _verdict(level, *forks.run(root, words, level.environment, LONGEST))
        if verdict.killer or verdict.endless:
            break
    return verdict


def _verdict(level: Level, code: int | None, told: str) -> Verdict:
    if code is None:
        return Verdict(level, endless=True, told=told)
    if code == forks.BROKEN:
        raise Unusable(told.strip())
    if code in (PASSED, NONE_COLLECTED):
        return Verdict(level, told=told)
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", told, re.MULTILINE)
    if code != FAILED or not failed:
        raise Unusable(f"{level.name} ended with {code}:\n{told[-2000:]}")
    return Verdict(level, killer=failed[0], told=told)
