"""`trainshed whatif --like` survives an API server that is broken, or means harm: it says so in a line, and soon."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Event

import pytest
from click.testing import CliRunner, Result

from support.listed_cluster import listed_cluster
from support.predictions import pytorch_document
from support.served import served, written_kubeconfig
from trainshed.cli import cli
from trainshed.client import http

KINDS = {"resources": [{"kind": "PyTorchJob", "name": "pytorchjobs"}]}
METADATA = {"name": "mnist", "namespace": "ml", "uid": "u"}
RESTART = {"time": "2026-01-01T00:00:00Z", "kind": "program", "exitCode": 1, "recoverySeconds": 60}
DEEP, FAR = "[" * 200_000, 10**30
NO_JOB = "the API server has answered with what is no PyTorchJob"


def a_job(seconds: object = 7200, replicas: object = 4, **fields: object) -> dict:
    status = {"timeSpent": {"schedulingSeconds": 60, "runningSeconds": seconds}, "recentRestarts": [RESTART]}
    found = pytorch_document(4) | {"metadata": METADATA, "status": status}
    found["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = replicas
    return found | fields


def with_number(text: str) -> str:
    return json.dumps(a_job("here")).replace('"here"', text)


def whatif(kubeconfig: Path) -> Result:
    words = ("--run-time", "1h", "--histories", "1", "--processes", "1", "-n", "ml", "--kubeconfig", str(kubeconfig))
    return CliRunner().invoke(cli, ["whatif", "--like", "pytorchjob/mnist", *words])


@pytest.mark.parametrize(
    ("job", "said"),
    [
        ("", "cannot decode the response"),
        ("\x1b[31m", "cannot decode the response"),
        ("null", "cannot decode the response"),
        ("[1]", "cannot decode the response"),
        (DEEP, "cannot decode the response"),
        (with_number("NaN"), "cannot decode the response"),
        (500, "Error: "),
        (a_job(metadata=None), NO_JOB),
        (a_job(metadata=[]), NO_JOB),
        (a_job(metadata={"name": "mnist", "namespace": 5, "uid": "u"}), NO_JOB),
        (a_job(apiVersion=["v1"]), NO_JOB),
        (a_job(kind={"a": 1}), NO_JOB),
        (a_job(kind="Pod"), "no job of a kind that is known"),
        (a_job(spec=None), "spec: Required value"),
        (a_job(spec="x"), "must be of type object"),
        (a_job(replicas=10**9), "must be less than or equal to"),
        (a_job(replicas=FAR), "must be less than or equal to"),
        (a_job(replicas=-1), "must be greater than or equal to"),
        (a_job(replicas=1.5), "must be of type integer"),
    ],
)
def test_what_is_no_job_is_refused_in_a_line(tmp_path: Path, job: object, said: str):
    with listed_cluster(tmp_path, {"v1": KINDS, "v2beta1": {"resources": []}, "mnist": job}) as kubeconfig:
        result = whatif(kubeconfig)
    assert isinstance(result.exception, SystemExit), result.exception
    assert (result.exit_code, said in result.output, result.output.count("\n")) == (1, True, 1), result.output
    assert "\x1b" not in result.output


@pytest.mark.parametrize("number", ["1e400", "1e308", "-7200", "9" * 5000, str(FAR), "[]", '{"a": null}', "1.5"])
def test_a_number_that_no_status_has_is_left_out(tmp_path: Path, number: str):
    objects = {"v1": KINDS, "v2beta1": {"resources": []}, "mnist": with_number(number)}
    with listed_cluster(tmp_path, objects) as kubeconfig:
        result = whatif(kubeconfig)
    assert result.exit_code == 0, (result.output, result.exception)


@pytest.mark.parametrize(
    ("pods", "said"),
    [
        ("x", "cannot decode the response"),
        (DEEP, "cannot decode the response"),
        ('{"metadata": {}, "items": {"a": 1}}', "cannot decode the response"),
        ({"metadata": {"continue": "x"}, "items": []}, "the list of pods has no end"),
        (500, "Error: "),
    ],
)
def test_a_list_that_is_none_is_refused_in_a_line(tmp_path: Path, pods: object, said: str):
    objects = {"v1": KINDS, "v2beta1": {"resources": []}, "mnist": a_job(), "pods": pods}
    with listed_cluster(tmp_path, objects) as kubeconfig:
        result = whatif(kubeconfig)
    assert isinstance(result.exception, SystemExit), result.exception
    assert (result.exit_code, said in result.output, result.output.count("\n")) == (1, True, 1), result.output


@contextmanager
def endless_server(folder: Path, piece: bytes, pause: float) -> Iterator[Path]:
    """Yield the kubeconfig of a server that answers with such pieces, one after each pause, until no client listens."""
    over = Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            try:
                while not over.wait(pause):
                    self.wfile.write(piece)
            except OSError:
                self.close_connection = True

    with served(Handler) as address:
        try:
            yield written_kubeconfig(folder, address)
        finally:
            over.set()


@pytest.mark.parametrize(
    ("piece", "pause", "said"), [(b"[" * 65_536, 0.0, "bytes"), (b" ", 0.05, "Error: ")], ids=["without end", "slow"]
)
def test_a_body_that_does_not_end_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: bytes, pause: float, said: str
):
    monkeypatch.setattr(http, "REQUEST_TIMEOUT", 0.5 if pause else 60.0)
    with endless_server(tmp_path, piece, pause) as kubeconfig:
        result = whatif(kubeconfig)
    assert (result.exit_code, said in result.output) == (1, True), result.output
