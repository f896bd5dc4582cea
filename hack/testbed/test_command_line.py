"""`python -m testbed`: a verb that answers with a value prints that value and nothing else, programs missing or not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
#: Takes the place of the Go compiler: it talks, and writes a program that does nothing where `-o` says.
GO = """#!/bin/sh
echo compiling
echo compiling >&2
while [ $# -gt 1 ]; do
    if [ "$1" = -o ]; then printf '#!/bin/sh\\n' > "$2" && chmod +x "$2"; fi
    shift
done
"""
PROGRAMS = {("kubectl",): "kubectl", ("helm",): "helm", ("helm", "--version", "3"): "helm"}


@pytest.fixture
def fresh(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine that has nothing yet, but a Go compiler that takes no time."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "go").write_text(GO)
    (programs / "go").chmod(0o755)
    places = {"HOME": tmp_path, "TRAINSHED_CACHE": tmp_path / "cache", "TRAINSHED_STATE": tmp_path / "state"}
    search = {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": TESTS}
    return os.environ | {name: str(value) for name, value in (places | search).items()}


def answer(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    """Return the output of `python -m testbed`."""
    command = [sys.executable, "-m", "testbed", *words]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True)


@pytest.mark.parametrize("words", PROGRAMS, ids=" ".join)
def test_the_first_answer_is_the_path_of_a_program_and_so_is_the_second(words: tuple[str, ...], fresh: dict) -> None:
    first, second = answer(fresh, *words), answer(fresh, *words)
    path = Path(first.stdout.removesuffix("\n"))
    assert (path.name, path.is_file()) == (PROGRAMS[words], True), first.stdout
    assert "building" in first.stderr
    assert (second.stdout, second.stderr) == (first.stdout, "")


def test_the_path_of_the_kubeconfig_is_printed_before_there_is_a_cluster(fresh: dict) -> None:
    path = answer(fresh, "kubeconfig").stdout.removesuffix("\n")
    assert Path(path).is_relative_to(fresh["TRAINSHED_STATE"]), path
    assert "\n" not in path
