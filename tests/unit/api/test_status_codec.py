"""Status out, and the patch between two."""

from __future__ import annotations

from itertools import chain
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.builders import a_job, at
from support.replace import replace
from trainshed.api import coerce, patches, status_codec
from trainshed.api.actions import ReleasePod
from trainshed.api.indexes import Indexes
from trainshed.api.status import (
    EXTRA,
    LIMITS,
    Condition,
    ConditionType,
    Failure,
    ReplicaStatus,
    Restart,
    Retries,
    Status,
    Waiting,
)
from trainshed.api.time_spent import JobPhase, TimeSpent
from trainshed.api.trainer_status import TrainerStatus
from trainshed.memory.versioned_store import merge_patch

TIMES = st.integers(0, 10**6).map(at)
COUNTS = st.integers(0, 10**5)
WORDS = st.text("abc 'ü\n", max_size=10)
V1S = [kind for kind in ConditionType if kind not in EXTRA]
CONDITIONS = st.builds(Condition, st.sampled_from(V1S), st.booleans(), WORDS, WORDS, TIMES, TIMES)
#: Conditions that v1 does not have are true, and come last; a job has one end.
BLOCKED = st.builds(Condition, st.just(ConditionType.BLOCKED), st.just(True), WORDS, WORDS, TIMES, TIMES)
ENDING = st.builds(Condition, st.sampled_from(EXTRA[1:]), st.just(True), WORDS, WORDS, TIMES, TIMES)
INDEXES = st.sets(st.integers(0, 60)).map(Indexes.of)
TALLIES = st.builds(ReplicaStatus, COUNTS, COUNTS, COUNTS, COUNTS, WORDS, INDEXES, COUNTS)
CODES = st.none() | st.integers(0, 255)
SPANS = st.none() | st.integers(0, 10**6)
FAILURES = st.builds(Failure, WORDS, WORDS, WORDS, CODES, WORDS, WORDS, TIMES, WORDS, WORDS, SPANS, WORDS)
RESTARTS = st.builds(Restart, TIMES, COUNTS, WORDS, WORDS, WORDS, WORDS, CODES, COUNTS, SPANS)
WAITING = st.builds(
    Waiting, st.sampled_from(["Worker", "PS"]), WORDS, st.integers(1, 99), WORDS, WORDS, TIMES, WORDS, WORDS
)
STATUSES = st.builds(
    Status,
    st.tuples(
        st.lists(CONDITIONS, max_size=4, unique_by=lambda condition: condition.type),
        st.lists(BLOCKED, max_size=1),
        st.lists(ENDING, max_size=1),
    ).map(lambda parts: tuple(chain(*parts))),
    st.dictionaries(st.sampled_from(["Worker", "PS", "Chief"]), TALLIES),
    st.none() | TIMES,
    st.none() | TIMES,
    st.dictionaries(st.sampled_from(["Worker", "PS"]), st.integers(1, 99)),
    st.builds(Retries, COUNTS, COUNTS, st.none() | TIMES, COUNTS, COUNTS),
    st.lists(st.uuids().map(str), max_size=3).map(tuple),
    st.none() | FAILURES,
    st.lists(RESTARTS, max_size=3).map(tuple),
    st.dictionaries(st.sampled_from(["Worker", "PS"]), st.integers(1, 99)),
    st.lists(WAITING, max_size=3).map(tuple),
    WORDS,
    WORDS,
    st.sampled_from(["", *LIMITS]),
)


@given(STATUSES)
def test_what_is_written_is_read_again(status):
    assert status_codec.parse_status({"status": status_codec.status_document(status)}) == status


@given(STATUSES, STATUSES)
def test_a_patch_makes_the_one_into_the_other(before, after):
    patch = status_codec.status_patch(a_job(worker=1), before, after)
    assert patch["metadata"] == {"uid": "job-uid", "resourceVersion": "1"}
    assert (
        status_codec.parse_status({"status": merge_patch(status_codec.status_document(before), patch["status"])})
        == after
    )


REPORTS = st.none() | st.builds(TrainerStatus, TIMES, st.none() | COUNTS, step=st.none() | COUNTS)


@given(STATUSES, REPORTS, REPORTS)
def test_a_patch_with_nothing_but_a_report_is_that_of_the_whole_documents(status, old, new):
    before, after = replace(status, trainer=old), replace(status, trainer=new)
    whole = status_codec.status_document(before), status_codec.status_document(after)
    found = merge_patch(whole[0], status_codec.status_patch(a_job(worker=1), before, after)["status"])
    assert {key: found[key] for key in found if key in whole[1]} == whole[1]
    assert found.keys() - whole[1].keys() <= {"ready", "restarts", "totalRestarts", "progress"}
    assert status_codec.same_status(before, after) == (whole[0] == whole[1])


def test_of_a_status_with_nothing_but_another_report_no_whole_document_is_made(monkeypatch):
    before, after = (Status(start=at(0), trainer=TrainerStatus(at(5), step=step)) for step in (1, 2))
    monkeypatch.setattr(status_codec, "status_document", None)
    patch = status_codec.status_patch(a_job(worker=1), before, after)["status"]
    assert patch == {"trainerStatus": {"step": 2}, "progress": "step 2"} | {
        "ready": "0/1",
        "restarts": 0,
        "totalRestarts": 0,
    }
    assert not status_codec.same_status(before, after)


def test_v1s_fields_have_v1s_names_and_zeros_are_left_out():
    condition = Condition(ConditionType.CREATED, True, "TFJobCreated", "m", at(0), at(0))
    found = status_codec.status_document(
        Status(
            conditions=(condition,),
            replica_statuses={"Worker": ReplicaStatus(active=2), "PS": ReplicaStatus()},
            start=at(0),
        )
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


@pytest.mark.parametrize("time", ["1970-01-01T00:00:00Z", "2026-01-01T12:00:00Z", "2999-12-31T23:59:59Z"])
def test_every_time_is_written_as_the_api_server_wants_it(time):
    assert status_codec.status_document(status_codec.parse_status({"status": {"startTime": time}})) == {
        "startTime": time
    }


def test_the_patch_says_how_many_are_ready_of_how_many():
    after = Status(replica_statuses={"Worker": ReplicaStatus(ready=2)})
    assert status_codec.status_patch(a_job(worker=3), Status(), after)["status"]["ready"] == "2/3"


#: Untrusted texts of pods and reasons: of any length, any characters, and some that grow in JSON.
ANYTHING = st.text(st.sampled_from('ab<&>"\\\n\x1b\u2028ü€😀'), max_size=40).map(lambda text: text * 100)
CLASSES = st.sampled_from(["Application", "Infrastructure", "Disruption", "Cascading"])
LONG_NAMES = st.just("n" * 63) | ANYTHING
HUGE = {
    "conditions": st.tuples(
        *(
            st.builds(Condition, st.just(kind), st.just(True), st.just("MPIJobRestarting"), ANYTHING, TIMES, TIMES)
            for kind in (ConditionType.RESTARTING, ConditionType.BLOCKED)
        ),
        *(
            st.builds(Condition, st.just(kind), st.booleans(), st.just("R" * 40), st.just("m" * 160), TIMES, TIMES)
            for kind in (ConditionType.CREATED, ConditionType.RUNNING, ConditionType.SUSPENDED)
        ),
    ),
    "start": TIMES,
    "completion": TIMES,
    "attempts": st.just(dict.fromkeys(("Chief", "PS", "Worker", "Evaluator"), 10**6)),
    "retries": st.builds(Retries, COUNTS, COUNTS, TIMES, COUNTS, COUNTS),
    "pending_replacement": st.just(tuple(f"{number:036}" for number in range(64))),
    "failure": st.builds(
        Failure, LONG_NAMES, CLASSES, ANYTHING, CODES, ANYTHING, ANYTHING, TIMES, LONG_NAMES, ANYTHING, SPANS, ANYTHING
    ),
    "recent_restarts": st.lists(
        st.builds(Restart, TIMES, COUNTS, LONG_NAMES, ANYTHING, CLASSES, ANYTHING, CODES, COUNTS, SPANS),
        min_size=10,
        max_size=12,
    ).map(tuple),
    "time_spent": st.builds(
        TimeSpent, st.fixed_dictionaries(dict.fromkeys(JobPhase, COUNTS)), st.just(JobPhase.IMAGE_PULL), TIMES
    ),
}


def done(step: int, seed: int) -> Indexes:
    """Every Nth of 100,000 indexes, or with 0 a random half of them."""
    random = Random(seed)
    return Indexes.of(index for index in range(0, 100_000, step or 1) if step or random.random() < 0.5)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.builds(Status, **HUGE), st.integers(0, 3), st.integers(0, 9))
def test_a_status_stays_small_whatever_the_size_of_its_job(status, step, seed):
    workers = done(step, seed)
    counts = ReplicaStatus(10**5, 10**5, 10**5, 10**5, "x" * 200, workers)
    replica_statuses = {
        "Worker": counts,
        "PS": counts,
        "Chief": ReplicaStatus(succeeded=1, selector="x" * 200, done=Indexes.of([0])),
    }
    written = status_codec.status_patch(
        a_job(worker=10**5), Status(), replace(status, replica_statuses=replica_statuses)
    )["status"]
    assert coerce.json_size(written) < 16_384
    again = status_codec.parse_status({"status": written})
    assert status_codec.status_document(again) == status_codec.status_document(
        status_codec.parse_status({"status": status_codec.status_document(again)})
    )
    assert 0 in again.replica_statuses["Chief"].done
    kept = set(again.replica_statuses["Worker"].done)
    assert kept == set(workers) if step else kept <= set(workers)
    assert again.pending_replacement == status.pending_replacement
    assert again.recent_restarts[-1].time == status.recent_restarts[-1].time


def test_the_random_indexes_of_a_big_job_fit_into_its_status():
    random = Random(7)
    found = Indexes.of(index for index in range(70_000) if random.random() < 0.5)
    status = Status(
        replica_statuses={"Worker": ReplicaStatus(35_000, 35_000, 0, 35_000, "x" * 200, found)}, start=at(0)
    )
    assert status_codec.parse_status({"status": status_codec.status_document(status)}) == status
    assert coerce.json_size(status_codec.status_document(status)) < 16_384


def test_since_when_a_job_waits_for_its_group_is_written_where_v1_has_it():
    def written(true: bool, reason: str) -> object:
        condition = Condition(ConditionType.BLOCKED, true, reason, "m", at(9), at(0))
        return status_codec.status_document(Status(conditions=(condition,))).get("lastReconcileTime")

    assert written(True, "WaitingForPodGroup") == "2026-01-01T12:00:00Z"
    assert (written(False, "WaitingForPodGroup"), written(True, "QuotaExceeded")) == (None, None)


def test_a_release_takes_our_finalizer_and_leaves_those_of_others():
    alone = patches.finalizer_patch(ReleasePod("a", "u", "7", ()))
    assert alone == {"metadata": {"uid": "u", "resourceVersion": "7", "finalizers": None}}
    assert patches.finalizer_patch(ReleasePod("a", "u", "7", ("x/y",)))["metadata"]["finalizers"] == ["x/y"]
    assert patches.without_version(alone) == patches.finalizer_patch(ReleasePod("a", "u", "", ()))


def test_a_status_is_encoded_once_and_the_documents_of_the_newest_are_kept():
    statuses = [Status(state=str(number)) for number in range(status_codec.KEPT_DOCUMENTS + 2)]
    documents = [status_codec.status_document(status) for status in statuses]
    assert status_codec.status_document(statuses[-1]) is documents[-1]
    assert status_codec.status_document(statuses[0]) is not documents[0]
    assert [document["state"] for document in documents] == [status.state for status in statuses]
    assert len(status_codec._kept) <= status_codec.KEPT_DOCUMENTS
