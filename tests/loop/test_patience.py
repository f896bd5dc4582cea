"""Counts are stored a little later and once; what cannot be told again is stored at once."""

from __future__ import annotations

from dataclasses import replace

from make import at
from trainshed.api.status import Condition, Kind, Status, Tally
from trainshed.loop.patience import LONGEST, QUIET, Patience
from trainshed.loop.view import Key

KEY = Key("ml", "TFJob", "mnist")
STORED = Status(tallies={"Worker": Tally(active=4)})


def counted(ready: int) -> Status:
    return Status(tallies={"Worker": Tally(active=4, ready=ready)})


def test_counts_wait_until_they_have_been_quiet():
    patience = Patience()
    assert patience.until(KEY, STORED, counted(1), at(0)) == at(0) + QUIET
    assert patience.until(KEY, STORED, counted(2), at(0.1)) == at(0.1) + QUIET
    assert patience.until(KEY, STORED, counted(2), at(0.2)) == at(0.1) + QUIET
    assert patience.until(KEY, STORED, counted(2), at(0.41)) is None


def test_counts_that_never_rest_are_stored_all_the_same():
    patience = Patience()
    begun = at(0)
    times = [at(tenth / 10) for tenth in range(40)]
    due = [patience.until(KEY, STORED, counted(number), now) is None for number, now in enumerate(times, 1)]
    assert times[due.index(True)] == begun + LONGEST
    assert due.count(True) == 1, "and then the wait begins anew"


def test_a_job_without_a_running_pod_waits_for_more_to_tell():
    assert Patience().until(KEY, Status(), Status(tallies={"Worker": Tally()}), at(0)) == at(0) + LONGEST


def test_a_verdict_does_not_wait():
    failed = Condition(Kind.FAILED, True, "r", "m", at(0), at(0))
    assert Patience().until(KEY, STORED, replace(counted(1), conditions=(failed,)), at(0)) is None


def test_what_is_stored_already_needs_no_patience():
    patience = Patience()
    patience.until(KEY, STORED, counted(1), at(0))
    assert patience.until(KEY, STORED, STORED, at(0.1)) is None
    assert patience.until(KEY, STORED, counted(1), at(5)) == at(5) + QUIET, "the first wait is over and forgotten"


def test_a_job_that_is_forgotten_waits_from_the_beginning():
    patience = Patience()
    patience.until(KEY, STORED, counted(1), at(0))
    patience.forget(KEY)
    assert patience.until(KEY, STORED, counted(1), at(5)) == at(5) + QUIET
