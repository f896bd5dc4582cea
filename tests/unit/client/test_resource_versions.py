"""The resourceVersions of one server are compared as numbers."""

from __future__ import annotations

import pytest

from trainshed.api.objects import is_older


@pytest.mark.parametrize(
    ("version", "than", "expected"),
    [("9", "10", True), ("10", "9", False), ("7", "7", False), ("a", "10", False), ("", "10", False)],
)
def test_versions_are_compared_as_numbers(version, than, expected):
    assert is_older(version, than) is expected
