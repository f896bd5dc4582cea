"""The output of replicas: whole lines with names before them, progress bars, logs, and failures on purpose."""

from __future__ import annotations

import pytest

from support.scripted_runtime import NoLogs
from trainshed.local.failures import FailureInjector, parse
from trainshed.local.output import Output


def a_pod(name: str = "job-worker-0") -> dict:
    labels = {"training.kubeflow.org/job-name": "job"}
    return {"metadata": {"name": name, "labels": labels}, "spec": {"containers": [{"name": "main"}]}}


def printed(tmp_path, *chunks: bytes, **how) -> list[str]:
    lines: list[str] = []
    output = Output(tmp_path, **({"colour": False} | how), write=lines.append)
    for chunk in chunks:
        output.write(a_pod(), "main", chunk)
    output.end(a_pod(), "main")
    output.close()
    return lines


def test_lines_are_printed_as_a_whole(tmp_path):
    assert printed(tmp_path, b"ep", b"och 1\nepoch", b" 2\nend") == [
        "worker-0 | epoch 1",
        "worker-0 | epoch 2",
        "worker-0 | end",
    ]
    assert (tmp_path / "job-worker-0.log").read_bytes() == b"epoch 1\nepoch 2\nend"


def test_a_progress_bar_is_printed_now_and_then(tmp_path):
    chunks = [b"\r %d%%" % number for number in range(101)]
    assert printed(tmp_path, *chunks, b"\n") == ["worker-0 |  0%", "worker-0 |  100%"]


def test_a_torn_character_does_no_harm(tmp_path):
    assert printed(tmp_path, b"\xff\n") == ["worker-0 | \N{REPLACEMENT CHARACTER}"]


def test_only_some_replicas_are_printed(tmp_path):
    assert printed(tmp_path, b"hello\n", only=("worker-1",)) == []
    assert (tmp_path / "job-worker-0.log").read_bytes() == b"hello\n"


def test_each_replica_has_a_colour(tmp_path):
    lines: list[str] = []
    output = Output(tmp_path, colour=True, write=lines.append)
    for name in ("job-worker-0", "job-worker-1"):
        output.write(a_pod(name), "main", b"x\n")
    output.close()
    assert lines[0].startswith("\x1b[36m")
    assert lines[1].startswith("\x1b[32m")


def test_with_several_jobs_the_job_is_named(tmp_path):
    assert printed(tmp_path, b"x\n", one_job=False) == ["job/worker-0 | x"]


@pytest.mark.parametrize("wanted", ["worker-0", "job/worker-0", "job-worker-0"])
def test_a_line_kills_a_replica_once(wanted):
    killed: list[str] = []
    injector = FailureInjector([parse(f"{wanted}@step 1$")], NoLogs(), killed.append)
    injector.write(a_pod("job-worker-1"), "main", b"step 1\n")
    injector.write(a_pod(), "main", b"step 10\nste")
    assert killed == []
    injector.write(a_pod(), "main", b"p 1\n")
    injector.write(a_pod(), "main", b"step 1\n")
    assert killed == ["job-worker-0"]


@pytest.mark.parametrize("text", ["worker-0", "worker-0@", "@5s", "worker-0@(", "Worker 0@5s"])
def test_a_failure_that_cannot_be_read_is_refused(text):
    with pytest.raises(ValueError, match="is not a"):
        parse(text)
