"""Tests of unpacking archives."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from testbed.archives import unpacked


def _archive(path: Path, content: str) -> Path:
    with tarfile.open(path, "w") as archive:
        root = tarfile.TarInfo(".")
        root.type = tarfile.DIRTYPE
        archive.addfile(root)
        entry = tarfile.TarInfo("./file")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content.encode()))
    return path


def test_an_archive_that_was_made_again_is_unpacked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINSHED_CACHE", str(tmp_path / "cache"))
    archive, folder = _archive(tmp_path / "layer.tar", "one"), tmp_path / "layer"
    assert (unpacked(archive, folder) / "file").read_text() == "one"
    (folder / "file").write_text("kept")
    assert (unpacked(archive, folder) / "file").read_text() == "kept"
    later = folder.stat().st_mtime + 1
    os.utime(_archive(archive, "two"), (later, later))
    assert (unpacked(archive, folder) / "file").read_text() == "two"
