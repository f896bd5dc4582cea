"""Expressions of users are bounded, take linear time, and are refused where they are wrong."""

from __future__ import annotations

import json

import pytest

from trainshed.api.job_annotations import PROGRESS_PATTERNS, JobAnnotations, job_annotations
from trainshed.progress.log_shapes import LineReport, by_expression
from trainshed.progress.tracker import Tracker

STEP = r"it (?P<step>[\d,]+)/(?P<total>\d+) ep (?P<epoch>\S+) loss (?P<loss>\S+) lr (?P<lr>\S*)"
PROFILE = f"""
apiVersion: nvcre.nvidia.com/v1alpha1
kind: LogProfile
spec:
  patterns:
    trainingStart: {{regex: 'begin(?=x)'}}
    trainingStep:
      regex: '{STEP}'
"""


@pytest.mark.parametrize(
    "text",
    [
        PROFILE,
        *(
            json.dumps(found)
            for found in ({"trainingStep": {"regex": STEP}}, {"patterns": {"trainingStep": {"regex": STEP}}})
        ),
    ],
    ids=("profile", "patterns", "spec"),
)
def test_an_expression_is_found_in_a_profile_and_in_parts_of_one(text):
    assert job_annotations({PROGRESS_PATTERNS: text}) == (JobAnnotations(log_expression=STEP), ())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "must be JSON or YAML such as"),
        ("[" * 3000, "must be JSON or YAML such as"),
        ("a: b: c", "must be JSON or YAML such as"),
        ('{"trainingStep": {"regex": 5}}', "must be JSON or YAML such as"),
        ('{"trainingStep": "step"}', "must be JSON or YAML such as"),
        ("x" * 4097, "Too long: must have at most 4096 characters"),
        (json.dumps({"trainingStep": {"regex": "(?P<a>x)" * 200}}), "has more than 1024 characters"),
        ('{"trainingStep": {"regex": "(?=x)(?P<step>1)"}}', "invalid perl operator: (?= (the syntax is that of RE2)"),
        ('{"trainingStep": {"regex": "(?P<step>x{1000}){1000}"}}', "invalid repetition size"),
        (
            '{"trainingStep": {"regex": "((?P<step>[a-z]{1,900}){1,1}|x{999}y{999}z{999}){1}\\\\pL{900}"}}',
            "pattern too large",
        ),
        ('{"trainingStep": {"regex": "(?P<step>(?:x?){1000}y)"}}', "pattern too large: has it large repetitions"),
        ('{"trainingStep": {"regex": "step (\\\\d+)"}}', "must have named groups"),
        (json.dumps({"trainingStep": {"regex": "".join(f"(?P<g{n}>x)" for n in range(17))}}), "must have named groups"),
        ('{"trainingStep": {"regex": "\\ud800(?P<step>1)"}}', "trainingStep.regex: "),
    ],
)
def test_what_is_no_expression_is_refused_with_the_reason(text, problem):
    found, (said,) = job_annotations({PROGRESS_PATTERNS: text})
    assert found == JobAnnotations()
    assert said.startswith("metadata.annotations[trainshed.dev/progress-patterns]: ")
    assert problem in said


def test_the_groups_of_an_expression_are_steps_and_metrics_and_no_other_line_counts():
    own = by_expression(STEP)
    line = "\x1b[1mit 1,200/5000 ep 0.5 loss 3e-1 lr "
    assert own(line) == LineReport(1200, 5000, 0.5, metrics=(("loss", "3e-1"),))
    assert own("it x/5000 ep none loss 1 lr 2") is own("step 7/10 loss=0.5") is None
    assert own("it 1/2 ep none loss 1 lr 2").epoch is None
    tracker = Tracker(parse_line=own)
    tracker.feed(f"step 9/10 loss=0.1\n{line}\n".encode(), 5)
    assert tracker.progress(5).percentage == 24
