"""The command line loads no more than a command needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from trainshed.cli import COMMANDS

#: Packages that take long to import.
HEAVY = ("kopf", "pydantic", "aiohttp", "rich")


def loaded(*arguments: str) -> set[str]:
    """Return which of the heavy packages the command line has imported when it ends."""
    script = (
        "import sys, trainshed.__main__ as entry\n"
        f"sys.argv = ['trainshed', *{arguments!r}]\n"
        "try:\n    entry.main()\n"
        "except SystemExit as end:\n    assert not end.code\n"
        f"print('loaded', *(name for name in {HEAVY!r} if name in sys.modules))\n"
    )
    result = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    return set(result.stdout.splitlines()[-1].split()[1:])


def test_the_version_is_printed_without_heavy_packages():
    assert loaded("--version") == set()


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_the_help_of_a_command_does_not_load_kopf(command):
    assert "kopf" not in loaded(command, "--help")


def test_every_command_is_listed_with_its_help():
    result = subprocess.run([sys.executable, "-m", "trainshed", "--help"], check=True, capture_output=True, text=True)
    listed = [line.split() for line in result.stdout.partition("Commands:")[2].splitlines() if line.strip()]
    assert [words[0] for words in listed] == sorted(COMMANDS)
    assert all(len(words) > 2 for words in listed)
