"""A command whose packages an extra brings says which one to install, and all others run without any of them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from support.trainjobs import EXAMPLES

#: The packages of extras, which the program in the test cannot import.
MISSING = ("aiohttp", "cryptography", "htpy", "kopf", "kubernetes", "prometheus_client", "uvloop")
PROGRAM = f"""
import sys
for name in {MISSING}:
    sys.modules[name] = None
from click.testing import CliRunner
from trainshed.__main__ import run
from trainshed.cli import COMMANDS, cli
for name in COMMANDS:
    done = CliRunner().invoke(cli, [name, "--help"])
    assert done.exit_code == 0, (name, done.output, done.exception)
for words in sys.argv[1:]:
    done = CliRunner().invoke(cli, words.split(), obj=run)
    print(done.exit_code, done.output.splitlines()[-1] if done.output else repr(done.exception))
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What `operator`, `ui` and `run` say last, after the help of every command, without any extra."""
    folder = tmp_path_factory.mktemp("kube")
    config = folder / "config"
    config.write_text(
        '{"apiVersion": "v1", "kind": "Config", "current-context": "x", "contexts": [{"name": "x", "context":'
        ' {"cluster": "x", "user": "x"}}], "users": [{"name": "x", "user": {"token": "x"}}],'
        ' "clusters": [{"name": "x", "cluster": {"server": "http://127.0.0.1:9"}}]}'
    )
    job = EXAMPLES / "mpi" / "v2beta1" / "allreduce.yaml"
    run = f"run --runtime processes --state {folder} -f {job}"
    words = [f"operator --kubeconfig {config}", f"ui --no-browser --kubeconfig {config}", run]
    done = subprocess.run([sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_command_says_which_extra_it_lacks(said):
    operator, page, keys = said
    assert operator.startswith("1 Error: this needs the Python package ")
    assert operator.endswith("pip install 'trainshed[operator]'")
    assert page == "1 Error: this needs the Python package aiohttp: pip install 'trainshed[ui]'"
    assert keys.endswith("keys of ssh need the Python package cryptography: pip install 'trainshed[operator]'")
