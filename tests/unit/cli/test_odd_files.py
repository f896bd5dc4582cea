"""A link that leads to itself is no file of jobs, and a disk that is full takes no output: each is said in a line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from trainshed.cli import cli


@pytest.mark.parametrize("words", [("lint",), ("render",), ("whatif", "--run-time", "1h")])
def test_a_link_that_leads_to_itself_is_an_error_of_a_line(tmp_path: Path, words: tuple[str, ...]):
    loop = tmp_path / "loop.yaml"
    loop.symlink_to(loop)
    result = CliRunner().invoke(cli, [*words, "-f", str(loop)])
    assert isinstance(result.exception, SystemExit), result.exception
    assert (result.exit_code, result.output) == (1, f"Error: cannot read {loop}: Too many levels of symbolic links\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
def test_a_disk_that_is_full_is_an_error_of_a_line():
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "trainshed", "crds"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "Error: cannot write the output: No space left on device\n")
