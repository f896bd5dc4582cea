"""What git knows of a release: whether it may be made, its tag, and the tree of its commit alone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from . import changelog

#: Major, minor and patch, and for versions before a release what follows them in the form of Python's packages.
VERSION = re.compile(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}(rc[1-9]\d*)?")


@dataclass(frozen=True)
class Release:
    """What is made: a version, the tree of its commit, folders for parts and for files, and the time of the files."""

    version: str
    tree: Path
    work: Path
    target: Path
    time: int


class Refused(Exception):
    """A release that must not be made; the message says why."""


def git(root: Path, *words: str) -> str:
    """Return what a command of git prints; raises `Refused` with what it says if it fails."""
    done = subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Refused(done.stderr.strip() or f"git {' '.join(words)} failed")
    return done.stdout.strip()


def check(root: Path, version: str) -> None:
    """Raise `Refused` unless the commit that is checked out may become this version."""
    if not VERSION.fullmatch(version):
        raise Refused(f"{version} is no version such as 0.2.0 or 0.2.0rc1")
    if changed := git(root, "status", "--porcelain"):
        raise Refused(f"the tree has changes that are not committed:\n{changed}")
    head, tag = git(root, "rev-parse", "HEAD"), f"v{version}"
    if tag in git(root, "tag", "--list", tag).split() and git(root, "rev-parse", f"{tag}^{{commit}}") != head:
        raise Refused(f"{version} exists: {tag} is another commit than the one that is checked out")
    others = [name for name in git(root, "tag", "--points-at", "HEAD").split() if name != tag]
    if others:
        raise Refused(f"this commit is {', '.join(others)} already")
    try:
        changelog.entry((root / "CHANGELOG.md").read_text(), version)
    except ValueError as error:
        raise Refused(str(error)) from error


def tagged(root: Path, version: str) -> None:
    """Give the commit that is checked out its tag, unless it has it."""
    if not git(root, "tag", "--list", f"v{version}"):
        git(root, "tag", "--annotate", "--message", f"Trainshed {version}", f"v{version}")


def time_of(root: Path) -> int:
    """Return the seconds since 1970 when the commit was made, which all files of the release have as their time."""
    return int(git(root, "log", "-1", "--format=%ct"))


def begin(root: Path, version: str) -> Release:
    """Return a release in build/release, with a clone of the tag alone: nothing that is not committed gets into it."""
    work = root / "build" / "release"
    shutil.rmtree(work, ignore_errors=True)
    (work / "dist").mkdir(parents=True)
    folder = work / "tree"
    git(root, "clone", "--quiet", "--depth=1", f"--branch=v{version}", "--config=advice.detachedHead=false",
        root.resolve().as_uri(), str(folder))  # fmt: skip
    moment = time_of(folder)
    for path in folder.rglob("*"):
        os.utime(path, (moment, moment), follow_symlinks=False)
    return Release(version, folder, work, work / "dist", moment)
