"""A digest stands for a large value of an object of the API server."""

from __future__ import annotations

import pytest

from trainshed.api.digest import digest_of
from trainshed.plan.dependents import covers

WANTED = {"b": ["x", "ä<"], "a": 1}


def test_equal_values_have_equal_digests():
    assert covers(digest_of({"a": 1, "b": ["x", "ä<"]}), WANTED)
    assert covers(digest_of("text"), "text")


@pytest.mark.parametrize("other", [{"a": 1}, {"a": 1, "b": ["ä<", "x"]}, "text", None, {"a": 2**70}, {"a": object()}])
def test_another_value_has_another_digest(other):
    assert not covers(digest_of(other), WANTED)
