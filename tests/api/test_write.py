"""Status out, and the patch between two."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from make import a_job, at
from trainshed.api import read, write
from trainshed.api.indexes import Indexes
from trainshed.api.status import Condition, Failure, Kind, Retries, Status, Tally
from writes import merged

TIMES = st.integers(0, 10**6).map(at)
COUNTS = st.integers(0, 10**5)
WORDS = st.text("abc 'ü\n", max_size=10)
CONDITIONS = st.builds(Condition, st.sampled_from(Kind), st.booleans(), WORDS, WORDS, TIMES, TIMES)
TALLIES = st.builds(Tally, COUNTS, COUNTS, COUNTS, COUNTS, WORDS, st.sets(st.integers(0, 60)).map(Indexes.of))
FAILURES = st.builds(Failure, WORDS, WORDS, WORDS, st.none() | st.integers(0, 255), WORDS, WORDS, TIMES)
STATUSES = st.builds(
    Status,
    st.lists(CONDITIONS, max_size=4).map(tuple),
    st.dictionaries(st.sampled_from(["Worker", "PS", "Chief"]), TALLIES),
    st.none() | TIMES,
    st.none() | TIMES,
    st.dictionaries(st.sampled_from(["Worker", "PS"]), st.integers(1, 99)),
    st.builds(Retries, COUNTS, COUNTS, st.none() | TIMES, COUNTS, COUNTS),
    st.lists(st.uuids().map(str), max_size=3).map(tuple),
    st.none() | FAILURES,
)


@given(STATUSES)
def test_what_is_written_is_read_again(status):
    assert read.status({"status": write.status(status)}) == status


@given(STATUSES, STATUSES)
def test_a_patch_makes_the_one_into_the_other(before, after):
    patch = write.patch(a_job(worker=1), before, after)
    assert patch["metadata"] == {"uid": "job-uid", "resourceVersion": "1"}
    assert read.status({"status": merged(write.status(before), patch["status"])}) == after


def test_v1s_fields_have_v1s_names_and_zeros_are_left_out():
    condition = Condition(Kind.CREATED, True, "TFJobCreated", "m", at(0), at(0))
    found = write.status(
        Status(conditions=(condition,), tallies={"Worker": Tally(active=2), "PS": Tally()}, start=at(0))
    )
    assert found == {
        "conditions": [
            {
                "type": "Created",
                "status": "True",
                "reason": "TFJobCreated",
                "message": "m",
                "lastUpdateTime": "2026-01-01T12:00:00Z",
                "lastTransitionTime": "2026-01-01T12:00:00Z",
            }
        ],
        "replicaStatuses": {"Worker": {"active": 2}, "PS": {}},
        "startTime": "2026-01-01T12:00:00Z",
    }


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00Z", "2026-01-01T12:00:00Z", "9999-12-31T23:59:59Z"])
def test_every_time_is_written_as_the_api_server_wants_it(time):
    assert write.status(read.status({"status": {"startTime": time}})) == {"startTime": time}


def test_the_patch_says_how_many_are_ready_of_how_many():
    after = Status(tallies={"Worker": Tally(ready=2)})
    assert write.patch(a_job(worker=3), Status(), after)["status"]["ready"] == "2/3"


def test_a_status_stays_small_whatever_the_size_of_its_job():
    tallies = {
        role: Tally(10**5, 10**5, 10**5, 10**5, "x" * 200, Indexes.of(range(0, 10**5, 2))) for role in ("Worker", "PS")
    }
    failure = Failure("p" * 63, "Application", "Error", 1, "n" * 63, "w" * 1024, at(0))
    replacing = tuple(f"{number:036}" for number in range(64))
    status = Status(tallies=tallies, replacing=replacing, failure=failure)
    assert len(json.dumps(write.status(status))) < 16_384


def test_since_when_a_job_waits_for_its_group_is_written_where_v1_has_it():
    def written(true: bool, reason: str) -> object:
        condition = Condition(Kind.BLOCKED, true, reason, "m", at(9), at(0))
        return write.status(Status(conditions=(condition,))).get("lastReconcileTime")

    assert written(True, "WaitingForPodGroup") == "2026-01-01T12:00:00Z"
    assert (written(False, "WaitingForPodGroup"), written(True, "QuotaExceeded")) == (None, None)
