"""The command line loads no more than a command needs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner

from trainshed.cli import ADMINISTRATORS, COMMANDS, JOBS, cli

#: Packages that take long to import.
HEAVY = ("kopf", "pydantic", "aiohttp", "rich", "trainshed.lint")


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


def test_the_help_of_no_command_loads_kopf():
    script = (
        "import sys\nfrom click.testing import CliRunner\nfrom trainshed.cli import cli\n"
        "for word in sys.argv[1:]:\n"
        "    result = CliRunner().invoke(cli, [word, '--help'])\n"
        "    print(word, result.exit_code, 'kopf' in sys.modules)"
    )
    words = [sys.executable, "-c", script, *COMMANDS]
    printed = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    assert printed.splitlines() == [f"{command} 0 False" for command in COMMANDS]


@pytest.mark.parametrize(("columns", "lines"), [(80, 23), (50, 99)])
def test_every_command_is_listed_with_its_help_for_those_who_need_it(columns, lines):
    words = [sys.executable, "-m", "trainshed", "--help"]
    environment = os.environ | {"COLUMNS": str(columns)}
    result = subprocess.run(words, check=True, capture_output=True, text=True, env=environment)
    _, jobs, administration = re.split("^(?:Jobs|Set-up):$", result.stdout, flags=re.MULTILINE)
    for text, commands in ((jobs, JOBS), (administration, ADMINISTRATORS)):
        for name, (_, help_) in commands.items():
            assert re.search(f"  {name} +{re.escape(help_)}(  |$)", text, re.MULTILINE), name
    printed = result.stdout.splitlines()
    assert len(printed) <= lines, "it does not fit a terminal"
    assert max(map(len, printed)) <= columns


@pytest.mark.parametrize("command", ["get", "events", "wait", "logs", "explain"])
def test_a_command_of_users_begins_without_the_models_of_specs(command):
    assert not {"pydantic", "trainshed.lint"} & loaded(command, "--help")


@pytest.mark.parametrize("output", [{"PYTHONIOENCODING": "latin-1"}, ">&-"])
def test_no_output_ends_a_command_with_a_traceback(tmp_path, output):
    container = {"name": "pytorch", "image": "example.com/train:1", "env": [{"name": "GREETING", "value": "✓ 漢"}]}
    roles = {"Worker": {"replicas": 1, "template": {"spec": {"containers": [container]}}}}
    job = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "mnist"}}
    (tmp_path / "job.json").write_text(json.dumps({**job, "spec": {"pytorchReplicaSpecs": roles}}))
    closed, environment = (output, {}) if isinstance(output, str) else ("", output)
    words = ["sh", "-c", f'exec "$0" -m trainshed render -f "$1" {closed}', sys.executable, str(tmp_path / "job.json")]
    done = subprocess.run(words, capture_output=True, text=True, env=os.environ | environment, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert closed or r"\u2713" in done.stdout


@pytest.mark.parametrize(
    ("word", "said"),
    [("exsplain", "No such command 'exsplain'; did you mean explain?"), ("qqqq", "No such command 'qqqq'.")],
)
def test_a_command_that_is_misspelt_is_named(word: str, said: str):
    result = CliRunner().invoke(cli, [word])
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (2, f"Error: {said}")


def test_an_operator_that_records_nothing_does_not_load_what_records():
    script = "import sys, trainshed.controller.manager\nprint(*sys.modules)"
    printed = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    recording = {"trainshed.decisions.ring", "trainshed.controller.job_decisions", "trainshed.controller.notifier"}
    assert recording & {*printed.split()} == set()


def test_the_operator_does_not_load_the_official_client_which_kopf_would():
    script = "import sys, trainshed.controller.kopf_shim\nprint(*sys.modules)"
    printed = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    assert {"kopf", "kubernetes", "requests"} & {*printed.split()} == {"kopf"}
