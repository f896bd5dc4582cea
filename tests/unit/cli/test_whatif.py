"""`trainshed whatif` says when a job would end, what is lost and what to change, and refuses what makes no sense."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest
from click.testing import CliRunner, Result

from support.builders import at
from support.predictions import pytorch_document
from trainshed.api import run_history
from trainshed.api.run_history import RunHistory
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


@pytest.mark.slow
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


def test_a_picture_is_an_svg_with_the_printed_times(job, tmp_path):
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
        (("--run-time", "1d", "--mtbf", "4h", "--restart-cost", "1d"), "no run would end: a restart (--restart-cost)"),
        (("--run-time", "1h", "--mtbf", "1d", "--start-up", "200d"), "no run would begin: its start (--start-up)"),
        (("--run-time", "\u0661h"), "is no duration"),
        (("--run-time", "1d", "--program-failures", "nan"), "'nan' is no number"),
        (("--run-time", "1d", "--program-failures", "1.5"), "not in the range"),
        (("--run-time", "1d", "--nodes", "0"), "not in the range"),
        (("--run-time", "1d", "--nodes", "1e300"), "is not a valid integer"),
        (("--run-time", "1d", "--nodes", "999999999"), "not in the range"),
        (("--run-time", "1d", "--histories", "999999999"), "not in the range"),
        (("--run-time", "1d", "--mtbf", "inf"), "'inf' is no duration"),
        (("--run-time", "1d", "--mtbf", "-5s"), "'-5s' is no duration"),
        (("--run-time", "1e300", "--mtbf", "1d"), "'1e300' is no duration"),
        (("--run-time", "1d", "--mtbf", "0s"), "must be at least 1s"),
        (("--run-time", "1d", "--restart-cost", "9" * 400), "is longer than ten years"),
        ((), "Missing option '--run-time'"),
    ],
)
def test_what_makes_no_sense_is_refused(job, words, error):
    result = whatif("-f", job(), *words)
    assert result.exit_code == 2
    assert error in " ".join(result.output.split())


DECADE = ("--run-time", "3650d", "--mtbf", "8d")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (DECADE, "longer than --time-limit 1h, as a run meets about 36,500 failures: try --histories"),
        ((*DECADE, "--checkpoint-every", "1h", "--time-limit", "20m"), "try --histories 500"),
        ((*DECADE, "--checkpoint-every", "1h", "--time-limit", "5m"), "longer than --time-limit 5m, as a run meets"),
        ((*DECADE, "--checkpoint-every", "1h", "--time-limit", "1s"), "try a shorter --run-time or a longer --mtbf"),
        ((*DECADE, "--time-limit", "1s"), "a longer --mtbf and --checkpoint-every"),
        ((*DECADE, "--histories", "1", "--time-limit", "1s"), "a longer --mtbf and --checkpoint-every"),
    ],
)
def test_what_takes_too_long_is_refused_before_it_begins(job, words, said):
    result = whatif("-f", job(), "--processes", "2", *words)
    assert (result.exit_code, said in " ".join(result.output.split())) == (2, True), result.output


def test_a_job_that_the_api_server_would_refuse_is_reported(job):
    result = whatif("-f", job(policy={"backoffLimit": -1}), *TIMES)
    assert result.exit_code == 1
    assert "backoffLimit" in result.output


# --------------------------------------------------------------------------------------------------------------- like

SHOWN = {
    "conditions": [{"type": "Succeeded", "status": "True", "lastTransitionTime": "2026-01-03T00:00:00Z"}],
    "startTime": "2026-01-01T00:00:00Z",
    "completionTime": "2026-01-03T00:00:00Z",
    "timeSpent": {"schedulingSeconds": 60, "runningSeconds": 172_800, "ofAnotherVersion": 1},
}


@pytest.fixture
def kept(tmp_path):
    """A function that writes what a run has left, and returns its folder."""

    def written(*names: str, status: dict = SHOWN) -> str:
        folder = tmp_path / "kept"
        folder.mkdir()
        document = pytorch_document(4)
        jobs = tuple(
            document | {"metadata": {**document["metadata"], "uid": "u", "name": name}, "status": status}
            for name in names
        )
        (folder / run_history.FILE).write_bytes(run_history.encode(RunHistory(at(0), jobs)))
        return str(folder)

    return written


def test_a_run_of_a_job_shows_what_is_not_given_and_is_asked_about_without_files(kept):
    words = ("--like", kept("mnist"), "--processes", "1", "--histories", "40", "--exit-code", "137")
    text = " ".join(whatif(*words).output.split())
    assert text.startswith("PyTorchJob ml/mnist takes 2d")
    for said in (
        "From pytorchjob/mnist, unless an option says something else:",
        "--start-up 1m: from its creation until all replicas ran and were ready.",
        "--run-time 2d: it trained for so long.",
        "--mtbf is as without --like: it has not failed in 2d.",
    ):
        assert said in text


def test_an_option_that_is_given_wins_and_a_run_time_is_without_its_checkpoints(job, kept):
    like = kept("mnist")
    words = ("-f", job(), "--like", like, "--processes", "1", "--histories", "20", "-o", "json")
    found = json.loads(whatif(*words, "--start-up", "9s", "--checkpoint-every", "60s").output)[0]
    assert (found["name"], found["measured"]["job"]) == ("big", "pytorchjob/mnist")
    assert found["assumptions"]["startUpSeconds"] == 9
    assert found["assumptions"]["runTimeSeconds"] == pytest.approx(172_800 * 60 / 90)
    assert found["measured"]["options"]["start-up"] == {"value": 60, "isUsed": False}
    given = json.loads(whatif(*words, "--run-time", "1h").output)[0]
    assert given["assumptions"]["runTimeSeconds"] == 3600
    text = " ".join(whatif(*words[:-2], "--run-time", "1h").output.split())
    assert "it trained for so long (not used: the option is given)" in text


def test_what_a_job_does_not_show_has_to_be_given(kept):
    result = whatif("--like", kept("mnist", status={}))
    assert result.exit_code == 2
    assert "Missing option '--run-time': pytorchjob/mnist does not show it." in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("names", "error"),
    [
        (("a", "b"), "--like needs the run of one job"),
        ((), "has none"),
    ],
)
def test_a_folder_of_another_number_of_jobs_is_refused(kept, names, error):
    result = whatif("--like", kept(*names), "--run-time", "1h", "--histories", "1")
    assert result.exit_code == 1
    assert error in result.output


LOTS = {"time": "2026-01-01T00:00:00Z", "replica": "\x1b[31m", "exitCode": 10**30, "recoverySeconds": -(10**30)}
HOSTILE = {
    "nothing": {},
    "numbers": {"timeSpent": {"runningSeconds": 10**30, "schedulingSeconds": -5, "since": "9999-12-31T23:59:59Z"}},
    "no numbers": {"timeSpent": {"runningSeconds": 1e308, "phase": [], "since": "x"}, "trainerStatus": "x"},
    "restarts": {"recentRestarts": [LOTS] * 100_000, "timeSpent": {"runningSeconds": 9}},
    "other types": {"recentRestarts": {"a": 1}, "timeSpent": [1], "conditions": 5, "failure": "x", "retry": []},
    "remains": {"trainerStatus": {"lastUpdatedTime": "2026-01-01T00:00:00Z", "estimatedRemainingSeconds": 10**30}},
}


@pytest.mark.parametrize("status", HOSTILE.values(), ids=HOSTILE)
def test_a_status_that_no_job_has_is_survived(kept, status):
    words = ("--run-time", "1h", "--histories", "2", "--processes", "1")
    result = whatif("--like", kept("mnist", status=SHOWN | status), *words)
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.output


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"ended": "2026-01-01T00:00:00", "jobs": []}', "Expected `datetime` with a timezone component"),
        (b'{"ended": 1e308, "jobs": []}', "Expected `datetime`"),
        (b'{"ended": "2026-01-01T00:00:00Z", "jobs": [{"kind": ' + b"[" * 10_000, "recursion"),
        (b'{"ended": "2026-01-01T00:00:00Z", "jobs": [{"kind": "\xff"}]}', "utf-8"),
        (b'{"ended": "2026-01-01T00:00:00Z", "jobs": [{"kind": "\x1b[31m"}]}', "invalid"),
        (b"\0" * 1000, "invalid character"),
        (b'{"ended": "2026-01-01T00:00:00Z", "jobs": [5]}', "Expected `object`"),
    ],
)
def test_a_history_that_no_run_has_written_is_refused(tmp_path, content, said):
    (tmp_path / run_history.FILE).write_bytes(content)
    result = whatif("--like", str(tmp_path), "--run-time", "1h")
    assert result.exit_code == 1
    assert result.output.startswith("Error: ")
    assert (said in result.output, result.output.count("\n")) == (True, 1), result.output


def test_without_a_job_there_is_nothing_to_ask_about(tmp_path):
    assert "name the files of jobs with -f" in whatif("--run-time", "1d").output
    assert "only --like asks a cluster" in whatif("--run-time", "1d", "--context", "c").output
    assert f"has no {run_history.FILE}" in whatif("--like", str(tmp_path)).output
    foreign = {"apiVersion": "example.com/v1", "kind": "Job", "metadata": {"name": "a"}}
    (tmp_path / run_history.FILE).write_bytes(run_history.encode(RunHistory(at(0), (foreign,))))
    assert "no job of a kind that is known" in whatif("--like", str(tmp_path)).output
    (tmp_path / run_history.FILE).write_text("{}")
    assert whatif("--like", str(tmp_path)).exit_code == 1
