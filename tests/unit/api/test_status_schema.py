"""No status that the operator writes can be refused by the schema of its own CRD, whatever it was read from."""

from __future__ import annotations

from datetime import UTC, datetime

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulation.schema_validation import SchemaValidator
from support.builders import a_job, at
from support.replace import replace
from trainshed import crd
from trainshed.api import status_codec
from trainshed.api.coerce import LARGEST, SMALLEST, encodable, fitted
from trainshed.api.status import Condition, ConditionType, Failure, ReplicaStatus, Restart, Retries, Status
from trainshed.api.status_schema import STATUS
from trainshed.frameworks import FRAMEWORKS

CRD = SchemaValidator(crd.definition(FRAMEWORKS[0])["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
NUMBERS = st.integers() | st.sampled_from([-1, 0, LARGEST, LARGEST + 1, SMALLEST - 1, 2**63, 10**400])
#: Any characters, halves of some as well.
WORDS = st.text(st.characters(codec=None), max_size=8)
TIMES = st.sampled_from(
    ["0000-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00", "2026-01-01T00:00:00Z"]
) | st.datetimes(timezones=st.just(UTC)).map(datetime.isoformat)
LEAVES = st.none() | st.booleans() | NUMBERS | st.floats() | WORDS | TIMES
ANYTHING = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3))


def like(schema: dict) -> st.SearchStrategy:
    """Documents that are more or less as the schema has them."""
    if "properties" in schema:
        parts = {key: like(part) for key, part in schema["properties"].items()}
        return st.fixed_dictionaries({}, optional=parts) | LEAVES
    if "additionalProperties" in schema:
        return st.dictionaries(WORDS | st.just("Worker"), like(schema["additionalProperties"]), max_size=3) | LEAVES
    if schema["type"] == "array":
        return st.lists(like(schema["items"]), max_size=3) | LEAVES
    right = {
        "integer": NUMBERS,
        "number": NUMBERS | st.floats(),
        "string": TIMES if "format" in schema else WORDS | st.sampled_from(list(ConditionType)),
    }
    return right.get(schema["type"], ANYTHING) | LEAVES


def accepted(status: Status) -> dict:
    """The status as it is written, which the schema must accept and the wire be able to send."""
    for document in (
        status_codec.status_document(status),
        status_codec.status_patch(a_job(worker=2), Status(), status)["status"],
    ):
        sent = orjson.loads(orjson.dumps(document))
        assert sent == document
        assert CRD.errors({"status": sent}, only="status") == []
        assert CRD.prune_and_default({"status": sent}, only="status") == {"status": sent}, "nothing is dropped"
    return status_codec.status_document(status)


@pytest.mark.slow
@pytest.mark.fault("J18")
@settings(max_examples=400, deadline=None)
@given(like(STATUS) | ANYTHING)
def test_whatever_a_status_was_read_from_the_schema_accepts_what_is_written(document):
    written = accepted(status_codec.parse_status({"status": document}))
    again = status_codec.parse_status({"status": written})
    assert status_codec.same_status(again, status_codec.parse_status({"status": accepted(again)})), (
        "what is stored is not stored another time"
    )


FAILURES = st.builds(
    Failure, *([WORDS] * 3), st.none() | NUMBERS, WORDS, WORDS, st.just(at(0)), WORDS, WORDS, st.none() | NUMBERS, WORDS
)
RESTARTS = st.builds(
    Restart, st.just(at(0)), NUMBERS, *([WORDS] * 4), st.none() | NUMBERS, NUMBERS, st.none() | NUMBERS
)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    st.builds(
        Status,
        st.lists(
            st.builds(Condition, st.sampled_from(ConditionType), st.booleans(), WORDS, WORDS, *([st.just(at(0))] * 2))
        ).map(tuple),
        st.dictionaries(WORDS, st.builds(ReplicaStatus, NUMBERS, NUMBERS, NUMBERS, NUMBERS, WORDS), max_size=3),
        attempts=st.dictionaries(WORDS, NUMBERS, max_size=3),
        retries=st.builds(Retries, NUMBERS, NUMBERS, st.just(at(0)), NUMBERS, NUMBERS),
        pending_replacement=st.lists(WORDS, max_size=3).map(tuple),
        failure=FAILURES,
        recent_restarts=st.lists(RESTARTS, max_size=3).map(tuple),
        scaled_down_to=st.dictionaries(WORDS, NUMBERS, max_size=3),
    )
)
def test_whatever_is_planned_the_schema_accepts_what_is_written(status):
    accepted(status)


def test_a_number_is_moved_to_the_nearest_of_its_format():
    written = fitted(
        {"restarts": LARGEST + 1, "failure": {"exitCode": SMALLEST - 1, "runDurationSeconds": True}}, STATUS
    )
    assert written == {"restarts": LARGEST, "failure": {"exitCode": SMALLEST, "runDurationSeconds": 1}}


@pytest.mark.parametrize(
    "wrong",
    [
        {"restarts": "many"},
        {"restarts": 1.5},
        {"startTime": "soon"},
        {"startTime": "2026-01-01T00:00:00"},
        {"ready": 7},
        {"failure": "worker-0"},
        {"unknown": "field"},
        {7: "seven"},
    ],
)
def test_what_the_schema_does_not_have_is_left_out(wrong):
    assert fitted(wrong, STATUS) == {}


def test_an_item_without_a_field_that_it_must_have_is_left_out():
    known = {"type": "Created", "status": "True"}
    assert fitted({"conditions": [{"type": "Created"}, known, 7], "podsPendingReplacement": 7}, STATUS) == {
        "conditions": [known],
        "podsPendingReplacement": [],
    }


def test_half_a_character_is_replaced():
    assert encodable("a\ud800b") == "a?b"
    assert status_codec.status_document(Status(pending_replacement=("\udfff",))) == {"podsPendingReplacement": ["?"]}


def test_two_statuses_are_the_same_if_they_are_stored_as_the_same_document():
    most = Status(retries=Retries(container_restarts=LARGEST))
    assert status_codec.same_status(most, replace(most, retries=Retries(container_restarts=LARGEST + 5)))
    assert not status_codec.same_status(most, Status())
