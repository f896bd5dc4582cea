"""Console blocks of the pages are parsed correctly, and their commands are valid."""

from __future__ import annotations

import subprocess

import pytest

from .commands import ROOT, Step, blocks, unlike

#: The requirements that a block of the quick start may name. Blocks that no test can run are checked for their syntax.
KNOWN = {"cluster", "helm", "apiserver", "nothing", "docker", "kind", "registry"}
QUICK_START = ROOT / "docs" / "quick-start.md"
PAGE = """
<!-- needs: cluster helm; adds: --dry-run -->
```console
$ kubectl get \\
  pods # all of them
NAME READY AGE
x-0  1/1   12s
$ echo
```
"""


def test_a_block_is_parsed_with_its_needs_commands_and_output():
    (block,) = blocks(PAGE)
    assert (block.needs, block.adds) == ({"cluster", "helm"}, "--dry-run")
    assert block.steps == (Step("kubectl get    pods", ("NAME READY AGE", "x-0  1/1   12s")), Step("echo"))


@pytest.mark.parametrize(
    ("printed", "missing"),
    [
        ("NAME   READY   AGE\nx-0    1/1     3s\n", ""),
        ("NAME   READY   AGE\nx-0    1/1     3m20s\n", ""),
        ("NAME   READY   AGE\ny-0    1/1     3s\n", "x-0  1/1   12s"),
        ("x-0    1/1     3s\nNAME   READY   AGE\n", "x-0  1/1   12s"),
        ("", "NAME READY AGE"),
    ],
)
def test_output_is_compared_except_for_numbers_and_widths(printed: str, missing: str):
    assert unlike(("NAME READY AGE", "...", "x-0  1/1   12s"), printed) == missing


def test_every_block_of_the_quick_start_says_what_it_needs():
    found = blocks(QUICK_START.read_text())
    assert len(found) == QUICK_START.read_text().count("```console\n") > 0
    assert [block for block in found if not block.needs or not block.needs <= KNOWN or not block.steps] == []


@pytest.mark.parametrize("page", [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
def test_every_command_of_a_page_is_valid_shell(page):
    script = "\n".join(step.command for block in blocks(page.read_text()) for step in block.steps)
    outcome = subprocess.run(["bash", "-n", "-c", script], capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr


def test_the_readme_uses_the_commands_of_the_quick_start():
    known = {step.command for block in blocks(QUICK_START.read_text()) for step in block.steps}
    commands = [step.command for block in blocks((ROOT / "README.md").read_text()) for step in block.steps]
    jobs = [command for command in commands if command.startswith(("kubectl", "helm", ".venv/bin/trainshed"))]
    assert jobs, "the README has no first job"
    assert [command for command in jobs if command not in known] == []
