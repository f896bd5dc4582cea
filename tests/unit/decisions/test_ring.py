"""The ConfigMap of the decisions about a job: what others write into it is bounded, and what is none left out."""

from __future__ import annotations

import base64
import gzip
import json

import pytest

from support.decided import FAILED, JOB, RUNS
from support.harness import a_spec
from support.world import World
from trainshed import plan as planner
from trainshed.client.job_reader import JobReader, NoSuchJob
from trainshed.decisions import recording, ring
from trainshed.decisions.recording import Encoder
from trainshed.decisions.ring import LAST, Ring, decisions, is_of, new_config_map
from trainshed.decisions.ring_reader import read_recording

MINE = {"metadata": {"labels": ring.LABELS, "ownerReferences": [{"uid": JOB.uid}]}}


def packed(content: bytes) -> str:
    """Return lines as a part has them."""
    return base64.b64encode(gzip.compress(content)).decode()


def lines() -> list[bytes]:
    """Return the lines of two decisions."""
    encoder = Encoder("1.0")
    return [encoder.line(one, planner.plan(one)) for one in (RUNS, FAILED)]


def a_map(**parts: object) -> dict:
    """Return a ConfigMap with these parts."""
    return MINE | {"binaryData": {key.replace("_", "-"): text for key, text in parts.items()}}


def test_what_is_added_is_read_by_the_next_one():
    first = Ring()
    for line in lines():
        first.add(line)
    config_map = new_config_map(JOB, first.changes())
    assert [one.n for one in decisions(config_map)] == [1, 2]
    found = Ring(config_map)
    assert (found.n, found.begins, found.changes()) == (2, True, {})
    found.add(lines()[0])
    assert list(found.changes()) == ["part-00000002"]


@pytest.mark.parametrize(
    ("parts", "n", "changed"),
    [
        ({"part_00000001": "%%%"}, 0, []),
        ({"part_00000001": packed(b"[]")}, 0, []),
        ({"part_00000001": packed(b'{"n": 7}')}, 7, []),
        ({"part_00000001": packed(b'{"n": -7}')}, 0, []),
        ({"part_00000001": packed(b'{"n": %d}' % LAST)}, 0, ["part-00000001"]),
        ({f"part_{LAST}": packed(b'{"n": 7}')}, 0, [f"part-{LAST}"]),
        ({"other": "x", "part_00000001": packed(b'{"n": 7}')}, 7, ["other"]),
        ({"part_00000001": "x" * 70_000, "part_00000002": packed(b'{"n": 7}')}, 7, ["part-00000001"]),
    ],
)
def test_a_ring_goes_on_from_what_it_finds_and_removes_what_is_none(parts: dict, n: int, changed: list[str]):
    found = Ring(a_map(**parts))
    assert (found.n, list(found.changes())) == (n, changed)


def add(found: Ring, encoder: Encoder, count: int) -> None:
    """Add as many decisions as JobDecisions does."""
    for _ in range(count):
        encoder.n, one = found.n, (RUNS, FAILED)[found.n % 2]
        found.add(encoder.line(one, planner.plan(one), whole=found.begins))


@pytest.mark.parametrize("lost", [3, 12], ids=["the first part", "later parts"])
@pytest.mark.parametrize("more", [0, 3, 40])
def test_after_a_lost_answer_each_decision_is_there_once_although_the_first_parts_went(
    monkeypatch: pytest.MonkeyPatch, lost: int, more: int
):
    monkeypatch.setattr(ring, "PART_BYTES", 1200)
    monkeypatch.setattr(ring, "MOST_BYTES", 4800)
    found, encoder = Ring(), Encoder("1.0")
    add(found, encoder, lost)
    stored = new_config_map(JOB, found.changes())
    add(found, encoder, more)
    found.follow(stored)
    found.compare(stored)
    data = {key: text for key, text in (stored["binaryData"] | found.changes()).items() if text is not None}
    kept = decisions(stored | {"binaryData": data})
    assert [one.n for one in kept] == list(range(kept[0].n, lost + more + 1))
    assert not any(one.after_restart or one.unread for one in kept)


def test_only_what_is_labelled_and_belongs_to_the_job_is_the_operators():
    assert is_of(MINE, JOB.uid)
    assert not is_of(MINE, "other")
    assert not is_of({"metadata": {"ownerReferences": [{"uid": JOB.uid}]}}, JOB.uid)
    assert not is_of({"metadata": {"labels": 1, "ownerReferences": 1}}, JOB.uid)


def test_what_others_have_written_is_bounded(monkeypatch: pytest.MonkeyPatch):
    first, second = lines()
    good = packed(first + second)
    torn = base64.b64encode(gzip.compress(first)[:-9]).decode()
    assert [one.unread for one in decisions(a_map(part_00000001=torn, part_00000002=packed(second)))] == [
        "a line before it is missing"
    ]
    bomb = packed(b" " * (8 << 20))
    assert [one.n for one in decisions(a_map(part_00000001=bomb, part_00000002=good))] == [1, 2]
    many = {f"part_{n:08d}": good for n in range(100)}
    assert len(decisions(a_map(**many))) == 2 * ring.MOST_PARTS
    monkeypatch.setattr(ring, "MOST_READ", len(first) + 1)
    assert [one.unread for one in decisions(a_map(part_00000001=good))] == ["", "there is too much to read"]
    monkeypatch.setattr(ring, "MOST_DECISIONS", 1)
    assert [one.n for one in decisions(a_map(part_00000001=good))] == [2]
    for nonsense in ({}, {"binaryData": 1}, a_map(part_00000001=packed(b"\xff\n[]\n{}")), a_map(x=good)):
        assert decisions(nonsense) == []


def test_of_very_many_parts_that_others_have_written_the_last_ones_count(monkeypatch: pytest.MonkeyPatch):
    found = Ring(a_map(**{f"part_{n:08d}": "" for n in range(3000)}))
    assert sum(text is None for text in found.changes().values()) == 3000 - ring.MOST_PARTS
    found.add(lines()[0])
    assert "part-00003000" in found.changes()
    monkeypatch.setattr(ring, "MOST_COUNT", 3)
    good = packed(b"".join(lines()))
    assert [one.n for one in decisions(a_map(part_00000001=good, part_00000002=good))] == [1, 1, 2]
    blank = packed(b"\n" * 5 + lines()[0])
    assert decisions(a_map(part_00000001=good, part_00000002=blank)) == []


def test_what_is_too_much_to_read_is_not_applied_to_what_was_seen(monkeypatch: pytest.MonkeyPatch):
    """Each line may be small and change much: the pods of a snapshot are taken again for each."""
    monkeypatch.setattr(ring, "MOST_READ", 1)
    monkeypatch.setattr(recording, "_next", None)
    assert [one.saw for one in decisions(a_map(part_00000001=packed(b"".join(lines()))))] == [None, None]


def test_a_line_of_what_cannot_be_packed_is_too_large():
    assert not ring.is_too_large(lines()[0])
    assert ring.is_too_large(b"x" * (ring.LINE + 1))
    assert not ring.is_too_large(b"x" * ring.LINE)
    noise = json.dumps([n * 7919**9 for n in range(4000)]).encode()
    assert ring.is_too_large(noise)


async def test_why_there_is_nothing_to_read_is_said():
    world = World()
    for asks in ({}, {"trainshed.dev/record": "Decisions"}):
        name = f"mnist-{len(asks)}"
        world.submit("TFJob", name, a_spec(Worker=1), asks)
        job = world.get("tfjobs", name)
        with pytest.raises(NoSuchJob) as found:
            await read_recording(JobReader(world.rest), job)
        assert ("has no annotation" in str(found.value)) != bool(asks)
        assert f"no decisions about tfjob/{name} are recorded" in str(found.value)
    body = {"metadata": {"name": ring.name_of(job["metadata"]["uid"])}}
    world.create("configmaps", body)
    with pytest.raises(NoSuchJob, match="others have changed it"):
        await read_recording(JobReader(world.rest), job)
    content = {"binaryData": {"part-00000001": packed(lines()[0])}}
    world.replace("configmaps", body["metadata"]["name"], lambda one: one.update(content))
    found = await read_recording(JobReader(world.rest), job)
    assert (found.kind, found.namespace, found.name, len(found.decisions)) == ("TFJob", "ml", "mnist-1", 1)
