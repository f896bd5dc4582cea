"""A digest stands for a large value of an object of the API server."""

from __future__ import annotations

import time

import pytest

from support.replace import replace
from trainshed.api.digest import Digest, digest_of, many_texts, text_digest
from trainshed.api.objects import LAST_APPLIED_HASH
from trainshed.plan.dependents import covers

WANTED = {"b": ["x", "ä<"], "a": 1}


def test_equal_values_have_equal_digests():
    assert covers(digest_of({"a": 1, "b": ["x", "ä<"]}), WANTED)
    assert covers(digest_of("text"), "text")


def test_a_digest_of_what_a_server_has_written_stands_for_the_value():
    written = text_digest(b'{"a":1,"b":["x","\xc3\xa4\\u003c"]}')
    assert (written.stands_for(WANTED), written.stands_for({"a": 1}), written.stands_for(text_digest)) == (
        True,
        False,
        False,
    )


def test_very_many_texts_are_those_that_are_wanted_if_the_operator_has_written_them():
    texts = many_texts("applied", {"a": "b", "of-others": "c"})
    assert (texts.stands_for({"a": "b"}), texts.stands_for({"a": "c"})) == (True, False)
    whole = replace(texts, entries=b"", whole=Digest(digest_of({"a": "b"}).content))
    assert (whole.stands_for({LAST_APPLIED_HASH: "applied"}), whole.stands_for({LAST_APPLIED_HASH: "other"})) == (
        True,
        False,
    )
    assert (whole.stands_for({"a": "b"}), whole.stands_for({"a": "c"})) == (True, False)


SAME = [
    ({"a": "1000m", "b": "1Gi", "c": 0.5, "d": 3}, {"d": "3", "c": "500m", "b": 2**30, "a": 1}),
    ([{"target": {"averageValue": "1e3", "value": None}, "selector": {}}], [{"target": {"averageValue": "1k"}}]),
    ({"a": "", "b": 0, "c": False, "d": [], "e": {"f": {}}, "g": "0"}, {}),
    ([{"verbs": ("get",)}, ["010"], "x"], [{"verbs": ["get"]}, ["10"], "x"]),
    ({str(number): f"{number}m" for number in range(1000)}, {str(number): number / 1000 for number in range(1000)}),
    ({str(number): f"{number}" for number in range(9000)}, {str(number): f"{number}" for number in range(9000)}),
]


@pytest.mark.parametrize(("one", "other"), SAME, ids=range(len(SAME)))
def test_values_that_api_servers_take_for_each_other_have_equal_digests(one, other):
    assert digest_of(one) == digest_of(other)


@pytest.mark.parametrize(("one", "other"), [("1", "1001m"), ([0], []), (["a", ""], ["", "a"]), ("1kg", "1000g")])
def test_values_that_differ_in_more_than_notation_have_other_digests(one, other):
    assert digest_of(one) != digest_of(other)


def test_a_value_with_very_many_quantities_takes_little_time():
    """Anyone may write one into a ConfigMap."""
    began = time.process_time()
    digest_of({str(number): f"{number}m" for number in range(100_000)})
    assert time.process_time() - began < 0.5


def test_the_order_of_very_many_keys_does_not_end_the_process():
    keys = sorted(str(number) for number in range(110_000))
    assert digest_of(dict.fromkeys(("z", *keys))) == digest_of(dict.fromkeys((*keys, "z")))


@pytest.mark.parametrize("other", [{"a": 1}, {"a": 1, "b": ["ä<", "x"]}, "text", None, {"a": 2**70}, {"a": object()}])
def test_another_value_has_another_digest(other):
    assert not covers(digest_of(other), WANTED)
