"""The ring of records: each job once, the oldest ones go, and what others have written takes no place for long."""

from __future__ import annotations

import json
from datetime import datetime

from support.builders import T0, at
from trainshed.api.coerce import format_time
from trainshed.api.record_ring import MOST_BYTES, MOST_RECORDS, Candidate, changes, is_ours, new_config_map, records


def text(name: str, ended: datetime, *, settled: bool = True, size: int = 0) -> str:
    record = {"form": 1, "ended": format_time(ended), "settled": settled}
    return json.dumps({"kind": "TFJob", "metadata": {"name": name}, "record": record, "x": "x" * size})


def candidate(uid: str, seconds: float, *, settled: bool = True) -> Candidate:
    return Candidate(uid, at(seconds), settled, lambda known: f"after {known}" if known else f"record of {uid}")


def ring(*numbers: int, size: int = 0) -> dict:
    return {"data": {f"uid-{number}": text(f"job-{number}", at(number), size=size) for number in numbers}}


def test_a_record_is_added_once():
    assert changes({}, [candidate("a", 5)], T0) == {"a": "record of a"}
    assert changes({"data": {"a": text("a", at(5))}}, [candidate("a", 5)], at(9)) == {}


def test_a_record_is_written_again_once_it_is_settled():
    open_one = {"data": {"a": text("a", at(5), settled=False)}}
    assert changes(open_one, [candidate("a", 5, settled=False)], at(9)) == {}
    assert changes(open_one, [candidate("a", 5)], at(9)) == {"a": f"after {open_one['data']['a']}"}


def test_the_oldest_record_makes_room():
    full = ring(*range(MOST_RECORDS))
    found = changes(full, [candidate("new", 1000)], at(1000))
    assert found == {"new": "record of new", "uid-0": None}


def test_a_record_that_is_older_than_a_full_ring_is_not_written():
    assert changes(ring(*range(1, MOST_RECORDS + 1)), [candidate("old", 0)], at(1000)) == {}


def test_many_candidates_are_made_only_as_far_as_they_fit():
    made: list[str] = []
    wanted = [
        Candidate(f"uid-{n}", at(n), settled=True, make=lambda _known, n=n: made.append(str(n)) or str(n))
        for n in range(5 * MOST_RECORDS)
    ]
    found = changes({}, wanted, at(10_000))
    assert len(found) == len(made) == MOST_RECORDS
    assert set(made) == {str(n) for n in range(4 * MOST_RECORDS, 5 * MOST_RECORDS)}


def test_all_records_together_are_bounded_by_their_bytes():
    large = ring(*range(10), size=60_000)
    found = changes(large, [candidate("new", 1000)], at(1000))
    kept = {**large["data"], **found}
    assert sum(len(value) for value in kept.values() if value) <= MOST_BYTES
    assert found["new"] == "record of new"
    assert found["uid-0"] is None
    assert "uid-9" not in found


def test_what_is_no_record_and_records_of_the_future_go_first():
    full = ring(*range(MOST_RECORDS - 1))
    full["data"] |= {"junk": "junk"}
    assert changes(full, [candidate("new", 1000)], at(1000)) == {"new": "record of new", "junk": None}
    full["data"]["junk"] = text("future", at(10_000))
    assert changes(full, [candidate("new", 1000)], at(1000)) == {"new": "record of new", "junk": None}


def test_a_uid_that_cannot_be_a_key_is_left_out():
    assert changes({}, [candidate("a/b", 5), candidate("", 5)], T0) == {}


def test_only_a_config_map_with_the_label_is_ours():
    assert is_ours(new_config_map({"a": "b"}))
    assert not is_ours({"metadata": {"name": "trainshed-finished-jobs"}})
    assert not is_ours({"metadata": {"labels": "x"}})


def test_records_are_read_without_what_is_none():
    mixed = {"data": {"a": text("a", T0), "b": "{", "c": 7, "d": None}}
    assert [found["metadata"] for found in records(mixed, "ml")] == [{"name": "a", "namespace": "ml"}]
    assert records({"data": ["x"]}, "ml") == []
