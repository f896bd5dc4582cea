"""Values of users' jobs are redacted in errors, however the server quotes them; the rest is kept."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.client import TooManyRequests
from trainshed.client.redaction import MOST, MOST_WORK, REDACTED, SHORTEST, WORD, redact, redact_error

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
    message = f'pods "mnist-worker-0" is forbidden: no {CANARY}, and not "{CANARY}" either (tensorflow)'
    assert redact(message, body) == message.replace(CANARY, REDACTED)


def test_names_labels_and_other_values_are_kept():
    body = a_pod(env=[{"name": "HOST", "value": "mnist-worker-0"}, {"name": "JOB", "value": "mnist"}], args=["-c", "1"])
    message = 'pods "mnist-worker-0" is forbidden: exceeded quota: few-1, of mnist in ml -c'
    assert redact(message, body) == message
    assert redact(message, None) == redact(message, {"metadata": None}) == message


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
    redacted = redact(f'{before} "{value}" {after}', a_pod(env=[{"name": "A", "value": value}]))
    assert len(value) < 8 or value in REDACTED or value not in redacted.replace(REDACTED, "")


#: Few characters, so that values are parts of others, overlap, and are not whole words.
FEW = st.text(alphabet='ab =-"é\n', min_size=SHORTEST, max_size=12)


@given(st.lists(FEW, min_size=1, max_size=8), st.text(alphabet="ab -(", max_size=3), st.integers(0, 40), st.data())
def test_no_private_value_is_left_in_a_message_that_quotes_several(values, between, padding, data):
    quoted = data.draw(st.lists(st.sampled_from(values), max_size=8))
    for body in (a_pod(args=values), a_pod(args=values + ["x"] * MOST_WORK)):
        said = redact("+" * padding + between.join(quoted), body)
        parts = said.split(REDACTED)
        assert not [value for value in values if len(value) >= WORD and any(value in part for part in parts)]
        whole = {value: re.compile(rf"(?<![\w-]){re.escape(value)}(?![\w-])") for value in values}
        assert not [value for value in values if any(whole[value].search(part) for part in parts)]


@given(st.text(alphabet="ab-", min_size=WORD, max_size=40), st.integers(WORD, 60))
def test_the_beginning_of_a_value_that_is_cut_off_is_redacted(value, shown):
    assert redact("+" * (MOST - shown) + value * 8, a_pod(args=[value * 8])).strip("+") == REDACTED
    cut = f"it is {value[:shown]}"
    assert str(redact_error(TooManyRequests(cut), a_pod(args=[value]))) == f"it is {REDACTED}"


class Read(str):
    """A text that counts how often it is searched, and the characters that are taken from it."""

    __slots__ = ("taken",)
    taken: list[int]

    def __contains__(self, part: str) -> bool:
        self.taken.append(len(self))
        return str.__contains__(self, part)

    def __getitem__(self, place: int | slice) -> str:
        found = Read(str.__getitem__(self, place))
        found.taken = self.taken
        self.taken.append(len(found))
        return found

    def replace(self, *arguments: str) -> str:
        self.taken.append(len(self))
        return str.replace(self, *arguments)


@pytest.mark.parametrize("word", ["{:04x}", "secret-{:04x}"])
def test_the_message_is_not_read_once_per_value(word):
    """The redaction blocks the event loop; the message is bounded, and so is what is read of it."""

    def characters_read(values: int) -> int:
        message = Read(f'Invalid value: "{" ".join(map(word.format, range(100)))}" ' * 100)
        message.taken = []
        redact(message, a_pod(args=[word.format(number) for number in range(values)]))
        return sum(message.taken)

    assert characters_read(10_000) == characters_read(100) < MOST * MOST


@pytest.mark.parametrize(
    "body",
    [
        a_pod(args=[CANARY] + ["a"] * 130_000),
        a_pod(args=[f"{CANARY}\n" + "\x1b[0m\n" * 50_000]),
        a_pod(env=[{"name": "A", "value": CANARY}] * 130_000),
        a_pod(args=["a" * WORD + "A" * count for count in range(1000)] + [CANARY]),
        {**a_pod(args=[CANARY]), "status": [[]] * 50_000},
    ],
    ids=["many", "large", "environment", "values within values", "a large object"],
)
def test_of_a_message_about_too_large_a_body_the_known_words_are_left(body):
    said = f'pods "mnist-worker-0" is forbidden: exceeded quota: {CANARY} not "{CANARY} of" {"a" * 1000}, {CANARY}'
    assert redact(said, body) == f'pods "mnist-worker-0" is forbidden: exceeded quota: {REDACTED} not {REDACTED}'


def test_a_long_message_is_truncated():
    assert len(redact("x" * 10 * MOST, a_pod(args=[CANARY]))) == MOST


def test_a_redacted_error_keeps_its_class_and_fields():
    error = redact_error(TooManyRequests(f"too many {CANARY}", wait=7), a_pod(args=[CANARY]))
    assert (str(error), error.wait, error.reason) == (f"too many {REDACTED}", 7, "TooManyRequests")


def test_a_value_of_several_lines_is_redacted_in_the_one_line_of_an_error():
    secret = "a-1\nb-2\x1b[0m\nc-3"
    error = TooManyRequests(f"no {secret} here")
    assert str(redact_error(error, a_pod(env=[{"name": "TOKEN", "value": secret}]))) == f"no {REDACTED} here"
