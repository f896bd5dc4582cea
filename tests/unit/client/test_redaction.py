"""Values of users' jobs are redacted in errors, however the server quotes them; the rest is kept."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.client import TooManyRequests
from trainshed.client.redaction import MOST, REDACTED, redact, redact_error

CANARY = "s3cr3t-canary"


def a_pod(**container: object) -> dict:
    metadata = {"name": "mnist-worker-0", "namespace": "ml", "labels": {"job": "mnist"}}
    return {"metadata": metadata, "spec": {"containers": [{"name": "tensorflow", **container}]}}


@pytest.mark.parametrize(
    "body",
    [
        a_pod(args=["--rate=1", CANARY]),
        a_pod(args=[f"--token={CANARY}"]),
        a_pod(command=["sh", "-c", CANARY]),
        a_pod(command=["sh", "-c", f"set -e\n  export TOKEN={CANARY}\n  {CANARY}\n"]),
        a_pod(env=[{"name": "A", "valueFrom": {}}, {"name": "TOKEN", "value": CANARY}]),
        a_pod(lifecycle={"preStop": {"exec": {"command": [CANARY]}}}),
        {"metadata": {"annotations": {"note": CANARY}}},
        {"templates": ({"spec": {"initContainers": [{"args": [CANARY]}]}},)},
        {"data": {"key": CANARY}},
    ],
)
def test_a_value_is_redacted_wherever_the_user_has_set_it(body):
    told = f'pods "mnist-worker-0" is forbidden: no {CANARY}, and not "{CANARY}" either (tensorflow)'
    assert redact(told, body) == told.replace(CANARY, REDACTED)


def test_names_labels_and_other_values_are_kept():
    body = a_pod(env=[{"name": "HOST", "value": "mnist-worker-0"}, {"name": "JOB", "value": "mnist"}], args=["-c", "1"])
    told = 'pods "mnist-worker-0" is forbidden: exceeded quota: few-1, of mnist in ml -c'
    assert redact(told, body) == told
    assert redact(told, None) == redact(told, {"metadata": None}) == told


def test_a_short_value_is_redacted_as_a_whole_word_only():
    body = a_pod(command=["work"])
    assert redact("no work for workers or mnist-work", body) == f"no {REDACTED} for workers or mnist-work"


def test_a_value_that_contains_another_is_redacted_completely():
    body = a_pod(args=["canary-one", "canary-one-and-two"])
    assert redact("canary-one-and-two, canary-one", body) == f"{REDACTED}, {REDACTED}"


@pytest.mark.parametrize(
    "value", ['say "canary" twice', "line one\nline canary\n", "tab\tcanary", "schön canary \\ end"]
)
def test_a_value_with_escapes_is_redacted(value):
    for quoted in (value, json.dumps(value), json.dumps(value, ensure_ascii=False)):
        assert "canary" not in redact(f"Invalid value: {quoted}: no", a_pod(args=[value]))


@given(st.text(min_size=4), st.text(max_size=20), st.text(max_size=20))
def test_any_value_is_redacted(value, before, after):
    told = redact(f'{before} "{value}" {after}', a_pod(env=[{"name": "A", "value": value}]))
    assert len(value) < 8 or value in REDACTED or value not in told.replace(REDACTED, "")


def test_a_long_message_is_truncated():
    assert len(redact("x" * 10 * MOST, a_pod(args=[CANARY]))) == MOST


def test_a_redacted_error_keeps_its_class_and_fields():
    error = redact_error(TooManyRequests(f"too many {CANARY}", wait=7), a_pod(args=[CANARY]))
    assert (str(error), error.wait, error.reason) == (f"too many {REDACTED}", 7, "TooManyRequests")


def test_a_value_of_several_lines_is_redacted_in_the_one_line_of_an_error():
    secret = "a-1\nb-2\x1b[0m\nc-3"
    error = TooManyRequests(f"no {secret} here")
    assert str(redact_error(error, a_pod(env=[{"name": "TOKEN", "value": secret}]))) == f"no {REDACTED} here"
