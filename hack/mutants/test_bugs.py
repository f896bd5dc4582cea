"""Each seeded bug still applies to the code, and the bugs of other operators are complete."""

from __future__ import annotations

import pytest

from .bugs import OWN, bugs, problems

BUGS = bugs()


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.id)
def test_a_seeded_bug_applies_and_changes_the_code(bug):
    assert list(problems(bug)) == []


def test_each_known_bug_of_other_operators_is_seeded():
    assert {bug.source for bug in BUGS} == {*(f"P{number}" for number in range(1, 24)), OWN}


def test_names_of_seeded_bugs_are_unique():
    assert len({bug.id for bug in BUGS}) == len(BUGS)
