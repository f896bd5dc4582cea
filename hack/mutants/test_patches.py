"""The seeded bugs do not rot: each still applies, is Python, and changes something; each of the peers' is there."""

from __future__ import annotations

import pytest

from .bugs import OWN, PEERS_HAD, bugs, problems

BUGS = bugs()


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.id)
def test_a_seeded_bug_still_applies_and_changes_something(bug):
    assert list(problems(bug)) == []


def test_every_bug_of_a_peer_has_its_equivalent():
    assert {bug.source for bug in BUGS} == {*PEERS_HAD, OWN}


def test_there_are_bugs_enough_and_no_two_of_a_name():
    assert len({bug.id for bug in BUGS}) == len(BUGS)
    assert sum(1 for bug in BUGS if bug.source == OWN) >= 20
