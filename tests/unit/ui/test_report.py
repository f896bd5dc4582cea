"""A report has all that a post-mortem needs, in one file that loads nothing; what others have written stays text."""

from __future__ import annotations

import json
import re

import pytest

from support.broken_jobs import BROKEN, WELL
from support.builders import FRAMEWORKS, T0, at
from trainshed.api import parse
from trainshed.api.framework import JobDefaults
from trainshed.api.job_record import Curve, Ended, Point, Versions, decode, encode
from trainshed.api.status import Status
from trainshed.api.training import parse_report
from trainshed.ui.model import JobFile, Sample
from trainshed.ui.report_content import MOST_POINTS, JobReport, as_markdown, spec_text, training
from trainshed.ui.report_page import as_html
from trainshed.ui.report_reading import of_record

from .page_text import Page

RUNS = Versions("1.2.3", "v1.36.1")
SECRET = "hunter2-hunter2"
EVIL = "</style><script>alert(1)</script>\"'><img src=x onerror=alert(1)>\x1b[31m\u202e\n# x\n```\n| a |"


def report_of(name: str) -> JobReport:
    """The report of a prepared job while it is there."""
    play, now = (BROKEN | WELL)[name]()
    return JobReport(play.file(now), RUNS, at(now))


def record_of(file: JobFile, seconds: float, *, deleted: bool = False) -> JobReport:
    """The report of the same job from its record."""
    framework = FRAMEWORKS[file.document["kind"]]
    job = parse.job(file.document, framework, JobDefaults())
    curve = Curve("loss", (Point(60, 10, 2.5), Point(120, 20, 1.25)))
    ended = Ended(job, framework, file.status, curve, deleted=at(seconds) if deleted else None)
    found = decode(encode(ended, RUNS), "ml")
    return of_record(found, "1.2.3")


@pytest.mark.parametrize("name", BROKEN | WELL)
def test_a_report_loads_nothing_and_runs_nothing(name: str):
    page = Page(as_html(report_of(name)))
    assert not {tag for tag, _ in page.elements} & {"script", "link", "img", "iframe", "object", "form", "input"}
    for tag, attributes in page.elements:
        assert not [key for key in attributes if key.startswith("on") or key in ("src", "style")], tag
        assert str(attributes.get("href", "#")).startswith("#"), attributes
    policies = [one["content"] for tag, one in page.elements if one.get("http-equiv") == "Content-Security-Policy"]
    assert policies[0].startswith("default-src 'none'")


@pytest.mark.parametrize("name", BROKEN | WELL)
def test_both_forms_say_what_has_become_of_the_job(name: str):
    report = report_of(name)
    page, text = Page(as_html(report)).text, as_markdown(report)
    for words in (report.headline, "Asked for", "Conditions", "v1.36.1"):
        assert words in page
    assert text.startswith("# ")
    assert "| Kubernetes | v1.36.1 |" in text
    assert ("There are no curves" in page) is ("There are no curves" in text)


def test_a_failed_job_has_its_cause_and_its_timeline():
    report = next(found for found in map(report_of, BROKEN) if found.file.status.failure and found.file.status.over)
    page = Page(as_html(report))
    assert any(one.get("class") == "timeline" for _, one in page.elements)
    assert "Last failure" in page.text
    assert report.file.status.failure.message in page.text


@pytest.mark.parametrize("name", [name for name in BROKEN if BROKEN[name]()[0].file(BROKEN[name]()[1]).status.over])
def test_the_record_of_a_deleted_job_tells_the_same_and_what_it_has_not(name: str):
    live = report_of(name)
    gone = record_of(live.file, 9000)
    page, text = Page(as_html(gone)).text, as_markdown(gone)
    assert gone.headline == re.sub(r"(, as the .+ failed)?(, and .+ still holds? .+)?\.$", ".", live.headline)
    assert gone.file.status.failure == live.file.status.failure
    assert "has neither its pods" in page
    assert "has neither its pods" in text
    assert "What to do" not in page
    assert "loss" in page
    assert training(gone).rows[0][1:] == ("10", "2.5")


def test_a_job_that_was_deleted_while_it_ran_says_so():
    play, now = WELL["healthy"]()
    gone = record_of(play.file(now), now, deleted=True)
    assert gone.headline.startswith("PyTorchJob ml/mnist was deleted while it was ")
    assert "Deleted" in Page(as_html(gone)).text
    assert "| State | Deleted |" in as_markdown(gone)


def test_no_form_has_values_of_variables_commands_or_arguments():
    play, now = next(iter(BROKEN.values()))()
    container = play.job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]
    container |= {"command": [SECRET], "args": ["--password", SECRET], "env": [{"name": "PASSWORD", "value": SECRET}]}
    container["lifecycle"] = {"preStop": {"exec": {"command": ["sh", "-c", SECRET]}}}
    play.job["metadata"]["annotations"] |= {"kubectl.kubernetes.io/last-applied-configuration": SECRET}
    report = JobReport(play.file(now), RUNS, at(now))
    for text in (as_html(report), as_markdown(report), spec_text(report)):
        assert SECRET not in text
        assert "PASSWORD" in text


def test_a_hostile_record_is_text_and_nothing_else():
    status = {
        "conditions": [{"type": "Failed", "status": "True", "reason": EVIL, "message": EVIL}],
        "failure": {"pod": EVIL, "message": EVIL, "terminationMessage": EVIL, "time": T0.isoformat(), "node": EVIL},
        "trainerStatus": {"lastUpdatedTime": T0.isoformat(), "metrics": [{"name": EVIL, "value": EVIL}]},
    }
    spec = {EVIL + "ReplicaSpecs": {EVIL: {"replicas": EVIL, "template": {"spec": {"containers": [{"image": EVIL}]}}}}}
    metadata = {"name": EVIL, "uid": EVIL, "creationTimestamp": T0.isoformat()}
    curve = {"metric": EVIL, "points": [[1, 2, 3], [2, 3, 4]]}
    record = {"form": 1, "ended": at(60).isoformat(), "operator": EVIL, "kubernetes": EVIL, "curve": curve}
    whole = {"apiVersion": EVIL, "kind": EVIL, "metadata": metadata, "spec": spec, "status": status, "record": record}
    for kind in (EVIL, "PyTorchJob"):
        found = decode(json.dumps(whole | {"kind": kind, "apiVersion": "kubeflow.org/v1"}), "ml")
        report = of_record(found, "1")
        page = Page(as_html(report))
        assert not {tag for tag, _ in page.elements} & {"script", "img"}
        assert sum(tag == "style" for tag, _ in page.elements) == 1
        text = as_markdown(report)
        acting = {mark for mark in text + as_html(report) if not (mark.isprintable() or mark in "\n\t")}
        assert acting == set()
        outside = "".join(text.split("````")[::2])
        assert "<script" not in outside.replace("\\<script", "")
        assert [line for line in outside.splitlines() if line.startswith("# ")] == [f"# {text.splitlines()[0][2:]}"]


def test_a_report_of_a_training_has_few_rows_of_it():
    sample = parse_report({"step": 1}, T0)
    samples = tuple(Sample(at(n), n, None, (("loss", 1 / (n + 1)),)) for n in range(500))
    file = JobFile(report_of(next(iter(WELL))).file.document, Status(trainer=sample), samples=samples)
    rows = training(JobReport(file, RUNS, at(600))).rows
    assert len(rows) <= MOST_POINTS + 1
    assert (rows[0][1], rows[-1][1]) == ("0", "499")
