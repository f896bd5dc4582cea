"""A file is not rewritten with the same text: kube-proxy exits when its configuration file is touched."""

from __future__ import annotations

from pathlib import Path

from testbed.places import written


def test_the_same_text_leaves_the_file_alone(tmp_path: Path) -> None:
    file = written(tmp_path / "settings", "a: 1\n")
    before = file.stat()
    after = written(file, "a: 1\n").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_another_text_takes_its_place_in_one_go(tmp_path: Path) -> None:
    file = written(tmp_path / "settings", "a: 1\n")
    before = file.stat()
    written(file, "a: 2\n")
    assert file.read_text() == "a: 2\n"
    assert file.stat().st_ino != before.st_ino
    assert list(tmp_path.iterdir()) == [file]
    assert file.stat().st_mode & 0o777 == 0o600
