"""The annotations of a job."""

from __future__ import annotations

import pytest

from trainshed.api.job import RestartScope
from trainshed.api.job_annotations import (
    FORCE_DELETE_AFTER,
    POD_END_GRACE,
    TRACK_RESULTS,
    JobAnnotations,
    asks_for_decisions,
    job_annotations,
)
from trainshed.api.status import STARTUP_DEADLINE


def test_whoever_says_nothing_gets_what_is_usual():
    assert job_annotations({"example.com/name": "1"}) == (JobAnnotations(), ())


def test_scope_and_disruption_are_chosen_from_what_there_is():
    chosen = {"trainshed.dev/restart-scope": "Role", "trainshed.dev/on-disruption": "Fail"}
    assert job_annotations(chosen) == (JobAnnotations(scope=RestartScope.ROLE, fail_on_disruption=True), ())
    found, problems = job_annotations({"trainshed.dev/restart-scope": "all", "trainshed.dev/on-disruption": ["Fail"]})
    assert found == JobAnnotations()
    assert [problem.partition(": supported")[0] for problem in problems] == [
        'metadata.annotations[trainshed.dev/restart-scope]: Unsupported value: "all"',
        "metadata.annotations[trainshed.dev/on-disruption]: Unsupported value: \"['Fail']\"",
    ]


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("10m", 600), ("1h30m", 5400), ("2h5s", 7205), ("8760h", 31536000)]
)
def test_a_length_of_time_is_written_as_in_go(text, seconds):
    found, problems = job_annotations({FORCE_DELETE_AFTER: text, STARTUP_DEADLINE: "1s", POD_END_GRACE: "2s"})
    assert (found.force_delete_after, found.startup_deadline, found.pod_end_grace) == (seconds, 1, 2)
    assert problems == ()


@pytest.mark.parametrize(
    "text", ["", "10", "m", "0s", "-5m", "1.5h", "5m1h", "8761h", "999999999h", " 5m", "٣m", 600, None]
)
def test_what_is_no_length_of_time_is_a_problem(text):
    found, (problem,) = job_annotations({STARTUP_DEADLINE: text})
    assert found == JobAnnotations()
    assert problem.startswith(
        f'metadata.annotations[trainshed.dev/startup-deadline]: Invalid value: "{text}": must be a'
    )


def test_results_are_kept_if_that_is_said_in_so_many_words():
    assert job_annotations({TRACK_RESULTS: "true"}) == (JobAnnotations(track_results=True), ())
    assert job_annotations({TRACK_RESULTS: "false"}) == (JobAnnotations(), ())
    _, (problem,) = job_annotations({TRACK_RESULTS: "yes"})
    assert problem.endswith('Unsupported value: "yes": supported values: "false", "true"')


@pytest.mark.parametrize(("value", "asked"), [("Decisions", True), ("decisions", False), (None, False), ({}, False)])
def test_decisions_are_recorded_where_they_are_asked_for(value, asked):
    assert asks_for_decisions({"annotations": {"trainshed.dev/record": value}}) is asked
    assert asks_for_decisions({}) is False
