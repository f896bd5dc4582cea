"""Each command that lists objects of a cluster ends with a line about a list whose next pages never end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner

from support.predictions import pytorch_document
from support.served import JsonHandler, served, written_kubeconfig
from trainshed.cli import cli
from trainshed.client import lists

METADATA = {"name": "mnist", "namespace": "ml", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
JOB = pytorch_document(2) | {"metadata": METADATA}
ANSWERS = {
    "/apis": {"groups": []},
    "/apis/kubeflow.org/v1": {"resources": [{"kind": "PyTorchJob", "name": "pytorchjobs"}]},
    "/apis/kubeflow.org/v2beta1": {"resources": []},
    "/apis/kubeflow.org/v1/namespaces/ml/pytorchjobs/mnist": JOB,
    "/apis/kueue.x-k8s.io/v1beta1/namespaces/ml/workloads": {"metadata": {}, "items": []},
}
SAID = "has no end: after 4 pages with few objects or none another one follows"
OF_JOB = ("explain", "events", "logs", "report", "replay", "stacks", "top", "restart")
COMMANDS = {
    **{word: [word, "@latest", "-n", "ml"] for word in OF_JOB},
    **{f"{word} mnist": [word, "mnist", "-n", "ml"] for word in ("explain", "events", "logs", "report", "top")},
    "get": ["get", "-n", "ml"],
    "get -A": ["get", "-A"],
    "get --finished": ["get", "--finished", "-A"],
    "whatif": ["whatif", "--like", "mnist", "-n", "ml", "--run-time", "1h", "--histories", "1"],
    "migrate": ["migrate", "--dry-run"],
    "doctor": ["doctor", "-n", "ml"],
    "remove-finalizers": ["remove-finalizers"],
}


@contextmanager
def endless_lists(folder: Path) -> Iterator[Path]:
    """Yield the kubeconfig of a server that says of each page of a list, which is empty, that another one follows."""
    tokens = count()

    class Handler(JsonHandler, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = {"metadata": {"resourceVersion": "1", "continue": f"token-{next(tokens)}"}, "items": []}
            self.respond(200, ANSWERS.get(urlsplit(self.path).path, page))

        def do_POST(self) -> None:
            self.respond(201, self.read().decode())

    with served(Handler) as address:
        yield written_kubeconfig(folder, address)


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_a_list_without_an_end_is_an_error_of_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]):
    monkeypatch.setattr(lists, "MOST_SPARSE", 3)
    with endless_lists(tmp_path) as kubeconfig:
        result = CliRunner().invoke(cli, [*words, "--kubeconfig", str(kubeconfig)])
    assert isinstance(result.exception, SystemExit), (result.output, result.exception)
    assert (result.exit_code, SAID in result.output) == (1, True), result.output


def test_a_plan_says_what_is_not_known_because_its_list_has_no_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lists, "MOST_SPARSE", 3)
    (tmp_path / "job.yaml").write_text(json.dumps(JOB))
    with endless_lists(tmp_path) as kubeconfig:
        words = ["plan", "-f", str(tmp_path / "job.yaml"), "--kubeconfig", str(kubeconfig)]
        result = CliRunner().invoke(cli, words)
    # Nodes and pods are listed at the same time: the one that ends first is named.
    words_of_lists = [f"Nodes: the API server does not say: the list of {what} {SAID}" for what in ("nodes", "pods")]
    assert any(words in result.output for words in words_of_lists), result.output
