"""`trainshed whatif` says when a job would end, what is lost and what to change, and refuses what makes no sense."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest
from click.testing import CliRunner, Result

from support.predictions import pytorch_document
from trainshed.cli import cli

TIMES = ("--run-time", "2d", "--mtbf", "10d", "--processes", "1", "--histories", "40", "--checkpoint-every", "6h")


@pytest.fixture
def job(tmp_path):
    """A function that writes a job into a file and returns its path."""

    def written(**fields) -> str:
        path = tmp_path / "job.json"
        path.write_text(json.dumps(pytorch_document(4, **fields)))
        return str(path)

    return written


def whatif(*words: str) -> Result:
    return CliRunner().invoke(cli, ["whatif", *words])


def test_it_says_when_the_job_ends_what_is_lost_and_what_was_assumed(job):
    result = whatif("-f", job(), *TIMES, "--exit-code", "137")
    assert result.exit_code == 0, result.output
    assert result.output.startswith("PyTorchJob ml/big takes 2d")
    for words in (
        "All 40 runs succeed.",
        "hours of example.com/chip on average",
        "Young and Daly: save every",
        "4 replicas on 4 nodes; 2d of training.",
        "Each node fails once in 10d (MTBF is per node), so one of the job's every 2d12h.",
    ):
        assert words in " ".join(result.output.split()), result.output


def test_it_advises_on_limits_and_on_what_is_not_retried(job):
    text = whatif("-f", job(policy={"activeDeadlineSeconds": 173200}), *TIMES).output
    assert "fail by a failure that is not retried" in text
    assert "activeDeadlineSeconds 173200 (2d) is too short" in text
    text = whatif("-f", job(restart="OnFailure", policy={"backoffLimit": 2}), *TIMES).output
    assert "backoffLimit 2 is too small" in text
    assert "each counts against" in text


def test_json_has_all_numbers_in_seconds(job):
    found = json.loads(whatif("-f", job(), *TIMES, "-o", "json", "--exit-code", "137").output)[0]
    assert (found["kind"], found["namespace"], found["name"], found["histories"]) == ("PyTorchJob", "ml", "big", 40)
    assert found["assumptions"]["mtbfSeconds"] == 864_000
    assert found["finishSeconds"]["p5"] <= found["finishSeconds"]["p50"] <= found["finishSeconds"]["p95"]
    assert found["endings"]["Succeeded"] == 1
    assert found["hours"]["example.com/chip"]["training"] == pytest.approx(48 * 32)
    assert {"checkpointInterval"} <= {one["about"] for one in found["advice"]}


def test_a_picture_is_an_svg_with_the_times_that_are_told(job, tmp_path):
    path = tmp_path / "ends.svg"
    assert whatif("-f", job(), *TIMES, "--picture", str(path)).exit_code == 0
    texts = [element.text for element in ET.fromstring(path.read_text()).iter() if element.text]
    assert any(text.startswith("p50 2d") for text in texts)
    assert any(text.startswith("nothing fails 2d") for text in texts)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--run-time", "soon"), "'soon' is no duration"),
        (("--run-time", "0s"), "must be at least 1s"),
        (("--run-time", "9" * 400 + "d"), "is longer than ten years"),
        (("--run-time", "1d", "--mtbf", "1s"), "at most 5,000 are simulated"),
        (("--run-time", "1d", "--program-failures", "1.5"), "not in the range"),
        (("--run-time", "1d", "--nodes", "0"), "not in the range"),
        ((), "Missing option '--run-time'"),
    ],
)
def test_what_makes_no_sense_is_refused(job, words, error):
    result = whatif("-f", job(), *words)
    assert result.exit_code == 2
    assert error in " ".join(result.output.split())


def test_a_job_that_the_api_server_would_refuse_is_reported(job):
    result = whatif("-f", job(policy={"backoffLimit": -1}), *TIMES)
    assert result.exit_code == 1
    assert "backoffLimit" in result.output
