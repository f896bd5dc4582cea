"""Where `trainshed report` writes, and in which form."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from trainshed.cli import cli
from trainshed.cli.whole_files import write


def test_a_file_is_replaced_as_a_whole(tmp_path: Path):
    path = tmp_path / "report.html"
    path.write_text("old")
    write(path, "new \ud800")
    assert path.read_text() == "new ?"
    assert [found.name for found in tmp_path.iterdir()] == ["report.html"]


def test_a_link_is_replaced_and_its_target_stays(tmp_path: Path):
    target, link = tmp_path / "precious", tmp_path / "report.md"
    target.write_text("precious")
    link.symlink_to(target)
    write(link, "report")
    assert (target.read_text(), link.read_text(), link.is_symlink()) == ("precious", "report", False)


def test_a_device_or_a_pipe_is_written_to(tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write(pipe, "report")
        assert os.read(reader, 100) == b"report"
    finally:
        os.close(reader)


@pytest.mark.parametrize("place", ["", "missing/report.md"])
def test_what_is_no_file_is_an_error_and_leaves_nothing(tmp_path: Path, place: str):
    with pytest.raises(OSError):  # noqa: PT011 - of several kinds
        write(tmp_path / place, "report")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["report", "report.pdf", "report.html.gz"])
def test_a_name_that_tells_no_form_needs_one(name: str):
    result = CliRunner().invoke(cli, ["report", "mnist", "-o", name])
    assert result.exit_code == 2
    assert "add --format" in result.output
