"""`trainshed report --run`: what happened to a job on this machine, from the folder of its run."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from support.local_runs import Machine, a_job
from trainshed.api import run_history
from trainshed.cli import cli

FAILS_ONCE = (
    "echo step $((RANK + 1))/60 loss 0.5; test $RANK = 0 || exec sleep 60; test -e again && exit 0; touch again; exit 7"
)


def report(*words: str) -> Result:
    return CliRunner().invoke(cli, ["report", *words])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run whose job has failed once, by the line that the run has printed."""
    place = tmp_path_factory.mktemp("run")
    script = f"cd {place}; {FAILS_ONCE}"
    done = Machine(place).run(a_job(script, restart="OnFailure"))
    assert done.returncode == 0, done.stdout
    line = next(line for line in done.stdout.splitlines() if line.startswith("Report:"))
    words = line.split()
    assert (words[1:4], words[5:]) == (["trainshed", "report", "--run"], ["-o", "report.html"])
    return Path(words[4])


def test_the_report_of_a_run_says_what_happened_without_a_cluster(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KUBECONFIG", "/does/not/exist")
    done = report("--run", str(folder))
    assert done.exit_code == 0, done.output
    text = done.output.replace("\\", "")
    for words in ("PyTorchJob default/job", "has succeeded", "on one machine, by trainshed run", "SuccessfulCreatePod"):
        assert words in text
    assert "kubectl" not in text


def test_html_has_the_timeline_of_the_pods_that_are_gone(folder: Path, tmp_path: Path):
    done = report("job", "--run", str(folder / "logs"), "-o", str(tmp_path / "job.html"))
    assert done.exit_code == 0, done.output
    html = (tmp_path / "job.html").read_text()
    assert ("master-0" in html, "worker-0" in html, 'class="timeline' in html) == (True, True, True)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "has no history.json: the run goes on, or was killed"),
        (b"{", "truncated"),
        (b"[1]", "Expected `object`"),
        (b'{"ended": "2026-01-01T00:00:00Z", "jobs": []}', "name one job of the run: it has none"),
        (b'{"ended": "2026-01-01T00:00:00Z", "jobs": [{}], "pods": [{"document": {"metadata": 3}}]}', "is Pending"),
    ],
)
def test_what_a_run_has_not_written_is_said_in_a_line(tmp_path: Path, content: bytes | None, said: str):
    if content is not None:
        (tmp_path / run_history.FILE).write_bytes(content)
    done = report("--run", str(tmp_path))
    assert said in done.output
    assert done.exception is None or isinstance(done.exception, SystemExit)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "name the job, or the folder of a run: --run FOLDER"),
        (("--run", "x", "-n", "ml"), "--run is about no cluster: leave out --record, --namespace"),
        (("--run", "x", "--record"), "--run is about no cluster"),
        (("--run", "/does/not/exist"), "/does/not/exist is no folder: trainshed run names that of a run at its end"),
    ],
)
def test_words_that_mean_nothing_together_are_refused(words: tuple[str, ...], said: str):
    done = report(*words)
    assert done.exit_code != 0
    assert said in done.output


def test_of_several_jobs_one_has_to_be_named(folder: Path):
    done = report("other", "--run", str(folder))
    assert (done.exit_code, "name one job of the run: it has pytorchjob/job" in done.output) == (1, True)
    assert report("pytorchjob/job", "--run", str(folder)).exit_code == 0
