"""The protocol of NCCL's RAS and its answers; a hang is what cannot be a healthy job."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.ras_server import TEXT, answer, communicator, counts, rank
from trainshed.progress import nccl_ras
from trainshed.progress.nccl_ras import HangVerdict, Poll, Query, RasError, Stillness, TextOnly, parse

DIALOGUE = (
    (b"SERVER PROTOCOL 2\n", b"TIMEOUT 5\n"),
    (b"OK\n", b"SET FORMAT json\n"),
    (b"OK\n", b"VERBOSE STATUS\n"),
)


def asked(pods: int = 1) -> Query:
    """A query that awaits the answer itself, of a job with so many pods."""
    query = Query(pods)
    for received, sent in DIALOGUE:
        assert query.feed(received[:-1]) == b""
        assert query.feed(received[-1:]) == sent
    return query


def polls(*states, seconds: float = 60.0):
    """The answers with these communicators, a minute after each other."""
    found = (each if isinstance(each, tuple) else (each,) for each in states)
    return [parse(answer(*each), number * seconds) for number, each in enumerate(found)]


def verdict(every: list[Poll], least: int, seconds: float) -> HangVerdict:
    """What follows from these answers, the oldest first."""
    last, *others = reversed(every or [Poll(())])
    still = Stillness.of(others[-1] if others else last)
    for each in every[1:]:
        still = still.then(each)
    return nccl_ras.verdict(last, still, least, seconds)


def test_a_query_sends_line_by_line_and_ends_with_the_answer():
    query, content = asked(), answer(counts(4, 4))
    query.feed(content[:100])
    assert not query.done
    query.feed(content[100:])
    assert query.done
    found = query.answer(7.0)
    assert (found.time, found.nccl_version, len(found.communicators[0].ranks)) == (7.0, "2.30.7", 2)


@pytest.mark.parametrize("version", ["2.28.7", "2.28.9", "2.30.7"])
def test_answers_of_several_versions_are_read(version):
    content = answer(communicator("a1", [rank(0, {"AllReduce": 4})], missing=(1, 2)), version=version)
    found = parse(content).communicators[0]
    assert (found.size, len(found.ranks), [one.rank for one in found.missing_ranks]) == (3, 1, [1, 2])
    assert (b'"nvml_dev": 0\n' in content) == (version == "2.28.9")


def test_versions_that_answer_in_text_are_named():
    query = Query()
    for received, _ in DIALOGUE[:2]:
        query.feed(received)
    assert query.feed(b"ERROR: Unknown command set format json\n") == b"STATUS\n"
    query.feed(TEXT)
    with pytest.raises(TextOnly, match=r"NCCL 2\.26\.2 answers in text only, which is not supported"):
        query.answer(0.0)


@pytest.mark.parametrize(
    ("received", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\n", "is not NCCL's RAS"),
        (b"x" * 2000, "more than"),
        (b"", "closed the connection"),
    ],
)
def test_what_is_no_ras_is_refused(received, words):
    def ask() -> None:
        query = Query()
        query.feed(received)
        query.answer(0.0)

    with pytest.raises(RasError, match=words):
        ask()


def test_an_answer_is_bounded(monkeypatch):
    monkeypatch.setattr(nccl_ras, "MOST_BYTES", 1000)
    with pytest.raises(RasError, match="more than"):
        asked().feed(b" " * 2000)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b'{"communicators": [{"hash": 1}]}', b'{"nccl_version": "\xff"}', b"[" * 100_000]
)
def test_an_answer_of_another_shape_is_an_error(content):
    with pytest.raises(RasError, match="cannot be read"):
        parse(content)


HUNG = counts(42, 41, 42, 42)
PAIR = [rank(2, {}), rank(3, {})]


def test_operations_of_very_many_kinds_are_refused():
    """Each kind is compared over all ranks: many of them would take minutes."""
    kinds = [{f"{rank}-{number}": 1 for number in range(40)} for rank in range(2)]
    ranks = [{"rank": rank, "host": "h", "pid": 1, "cuda_dev": rank, "status": {}} for rank in range(2)]
    ranks = [rank | {"collective_counts": counts} for rank, counts in zip(ranks, kinds, strict=True)]
    with pytest.raises(RasError, match="more than 64 kinds"):
        parse(json.dumps({"communicators": [{"hash": "a", "size": 2, "ranks": ranks}]}).encode())


def test_a_hang_names_who_is_behind():
    found = verdict(polls(*[HUNG] * 11), least=4, seconds=600)
    (late,) = found.behind
    assert found.hang
    assert (late.rank, late.host, late.pid, late.operation, late.count, late.most) == (
        1, "10.0.0.1", 101, "AllReduce", 41, 42,
    )  # fmt: skip
    assert found.still_for == 600


def test_the_hang_of_a_subgroup_is_one_of_the_job():
    world = counts(5, 5, 5, 5)
    part = communicator("b2", [rank(2, {"AllGather": 7}), rank(3, {"AllGather": 5})])
    found = verdict(polls(*[(part, world)] * 11), least=4, seconds=600)
    assert (found.hang, [one.host for one in found.behind]) == (True, ["10.0.0.3"])


def flagged(**status):
    """A communicator in which rank 1 lags, in another state than the others."""
    return communicator("a1", [rank(0, {"AllReduce": 4}), rank(1, {"AllReduce": 3}, **status)])


@pytest.mark.parametrize(
    ("states", "reason"),
    [
        ([], "no communicator"),
        ([()] * 11, "no communicator"),
        ([counts(42, 42, 42)] * 11, "the same operations"),
        ([HUNG] * 10, "for 540 s only"),
        ([*[HUNG] * 10, counts(43, 41, 42, 42)], "for 0 s only"),
        ([flagged(init_state=7)] * 11, "state INIT"),
        ([flagged(finalize_called=True)] * 11, "state FINALIZE"),
        ([flagged(destroy_flag=True)] * 11, "state FINALIZE"),
        ([flagged(abort_flag=True, destroy_flag=True)] * 11, "state ABORT"),
        ([communicator("a1", [rank(0, {"AllReduce": 4}), rank(1, {})], missing=[2])] * 11, "1 ranks do not answer"),
        ([counts(5, 4)] * 11, "no communicator has all ranks"),
        (
            [(communicator("a", [rank(0, {"AllReduce": 4}), rank(1, {})]), communicator("b", PAIR))] * 11,
            "has all ranks",
        ),
    ],
)
def test_what_is_no_hang_says_why(states, reason):
    found = verdict(polls(*states), least=3 if states[:1] == [counts(5, 4)] else 2, seconds=600)
    assert not found.hang
    assert reason in found.reason


def test_a_few_answers_are_too_few_however_long_they_take():
    assert not verdict(polls(HUNG, HUNG, seconds=1000), least=4, seconds=600).hang
    assert verdict(polls(HUNG, HUNG, HUNG, seconds=1000), least=4, seconds=600).hang


@given(
    first=st.lists(st.integers(0, 9), min_size=2, max_size=5),
    steps=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), min_size=3, max_size=12),
)
def test_no_hang_while_any_count_moves(first, steps):
    now, states = list(first), [list(first)]
    for index, more in steps:
        now[index % len(now)] += more
        states.append(list(now))
    found = verdict(polls(*(counts(*each) for each in states)), least=2, seconds=120)
    still = next((age for age in range(len(states)) if states[-1 - age] != states[-1]), len(states))
    assert found.hang == (still >= 3 and len(set(states[-1])) > 1)


def test_numbers_that_nccl_never_has_are_refused():
    """They would become a part of the status, which has no room for them."""
    for wrong in ({"rank": 10**30}, {"pid": -(10**30)}, {"collective_counts": {"AllReduce": -1}}):
        with pytest.raises(RasError, match="cannot be read"):
            parse(answer(communicator("a1", [rank(0, {"AllReduce": 1}) | wrong])))


def test_an_answer_may_be_as_long_as_the_ranks_of_the_job_need():
    small, large = (asked(pods) for pods in (1, 4))
    content = b" " * (nccl_ras.BYTES_OF_POD + 1)
    large.feed(content)
    with pytest.raises(RasError, match="more than 524,288 bytes"):
        small.feed(content)
