"""Folders of the test bed outside of the repository: a cache, which can be recreated, and a state folder."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def cache() -> Path:
    """Binaries, packages and image layers, by version or content."""
    return _folder("TRAINSHED_CACHE", ".cache/trainshed")


def state() -> Path:
    """Process ids, certificates, logs and the kubeconfig of the cluster that is up."""
    return _folder("TRAINSHED_STATE", ".local/state/trainshed")


def written(path: Path, text: str, mode: int = 0o600) -> Path:
    """The file with this text, replaced in one go and only if it says something else: others read and watch it."""
    if not path.exists() or path.read_text() != text:
        fresh = path.with_name(f"{path.name}.new")
        fresh.touch(mode=mode)
        fresh.write_text(text)
        fresh.rename(path)
    return path


def digest(content: str | bytes) -> str:
    """Return eight digits that change with the content, for file names."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()[:8]


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Hold a lock file that all processes of this machine share."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _folder(variable: str, usual: str) -> Path:
    path = Path(os.environ.get(variable) or Path.home() / usual)
    path.mkdir(parents=True, exist_ok=True)
    return path
