"""The oldest version from which upgrades are tested: its chart and manifests are kept, its program is in git."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: 0.1.0 was not published, and has no tag: this is the commit before the first that only the entry of 0.2.0 names.
COMMIT = "3e0197a7e4e1"
KEPT = ROOT / "tests" / "versions" / "0.1"


def archived(commit: str, *paths: str) -> bytes:
    """Return a tar archive of paths in a commit; skips the test in a clone that does not have it."""
    command = ("git", "-C", ROOT, "archive", commit, *paths)
    found = subprocess.run(command, capture_output=True, check=False)
    if found.returncode:
        pytest.skip(f"this clone has no commit {commit}, whose program the test runs: git fetch --unshallow")
    return found.stdout


def checkout(folder: Path) -> Path:
    """The root of a checkout of the oldest version, made below `folder`: charts/, crds/, manifests/ and operator/."""
    root = folder / "oldest"
    shutil.copytree(KEPT, root)
    shutil.copytree(root / "charts" / "trainshed" / "files" / "crds", root / "crds")
    subprocess.run(["tar", "-x", "-C", root], input=archived(COMMIT, "operator"), check=True)
    return root
