"""Tests of where the programs of neighbours come from."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from testbed.neighbours import NEIGHBOURS, neighbour_binary, source_tree
from testbed.steps import StepFailed

MAIN = "package main\n\nfunc main() {}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRAINSHED_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TRAINSHED_NEIGHBOURS", str(tmp_path))
    return tmp_path


def _archive(path: Path, content: str) -> None:
    with tarfile.open(path, "w:gz") as archive:
        entry = tarfile.TarInfo("kueue/cmd/kueue/main.go")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content.encode()))


def test_an_archive_is_unpacked_once_and_again_when_its_content_has_changed(folder: Path) -> None:
    path = folder / NEIGHBOURS["kueue"].archive
    _archive(path, MAIN)
    tree = source_tree("kueue")
    assert (tree / "cmd/kueue/main.go").read_text() == MAIN
    assert source_tree("kueue") == tree
    _archive(path, MAIN + "// other\n")
    assert (source_tree("kueue") / "cmd/kueue/main.go").read_text().endswith("// other\n")


def test_a_program_that_does_not_compile_says_where_its_log_is(folder: Path) -> None:
    _archive(folder / NEIGHBOURS["kueue"].archive, "package main\n")
    with pytest.raises(StepFailed, match=r"build-kueue\.log"):
        neighbour_binary("kueue", "kueue")
