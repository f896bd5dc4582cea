"""The shell completes commands, options and the names of jobs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

WORDS = "from trainshed.__main__ import main; import sys; sys.argv = ['trainshed']; main()"


def completed(line: str) -> list[str]:
    """The completions that bash gets for the end of a line."""
    words = {"_TRAINSHED_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    variables = os.environ | words | {"KUBECONFIG": os.devnull}
    done = subprocess.run((sys.executable, "-c", WORDS), env=variables, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return [item.partition(",")[2] for item in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("line", "found"),
    [("trainshed lo", ["logs"]), ("trainshed logs --gr", ["--grep"]), ("trainshed explain @", ["@latest"])],
)
def test_a_shell_completes_without_a_cluster(line, found):
    assert completed(line) == found


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["lo"], ["logs\tPrint the output of all replicas of a job...", ":4"]),
        (["explain", "@"], ["@latest", ":4"]),
        (["lint", "-f", "a"], [":0"]),
    ],
)
def test_kubectl_completes_the_same_behind_its_own_name(words, shown):
    program = "from trainshed.cli.completion import complete_for_kubectl; complete_for_kubectl()"
    variables = os.environ | {"KUBECONFIG": os.devnull}
    done = subprocess.run(
        (sys.executable, "-c", program, *words), env=variables, capture_output=True, text=True, check=False
    )
    assert (done.stdout.splitlines(), done.stderr) == (shown, "")


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_the_script_of_a_shell_is_one_that_it_can_read(shell):
    command = (sys.executable, "-m", "trainshed", "completion", shell)
    script = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "_TRAINSHED_COMPLETE" in script
    if shell == "bash":
        subprocess.run(("bash", "-n"), input=script, text=True, check=True)
