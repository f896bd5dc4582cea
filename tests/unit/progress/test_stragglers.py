"""A rank that lets the others wait again and again is named; ranks of healthy jobs never are, however they behave."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from support.ras_server import answer, communicator, rank
from trainshed.progress.nccl_ras import parse
from trainshed.progress.stragglers import ENOUGH, MOST_SUSPECTS, Lags

RANKS, POLLS = 8, 400
#: What each rank has begun at each answer: (number of the answer, the rank that is asked, chance) to counts.
Ranks = Callable[[int, int, Random], list[int]]


def even(poll: int, _asked: int, _chance: Random) -> list[int]:
    return [poll * 100] * RANKS


def someone(share: float) -> Ranks:
    """In each of that many answers others wait for a rank, each time for another one."""
    return lambda poll, _, chance: lagging(poll, {chance.randrange(RANKS)} if chance.random() < share else set())


def always(*ranks: int, share: float = 1.0, until: int = POLLS) -> Ranks:
    """In each of that many answers others wait for these ranks."""
    return lambda poll, _, chance: lagging(poll, set(ranks) if chance.random() < share and poll < until else set())


def read_first(poll: int, asked: int, _chance: Random) -> list[int]:
    """The counts of the rank that is asked are older than those of the others."""
    return lagging(poll, {asked})


def jittery(poll: int, _asked: int, chance: Random) -> list[int]:
    """Ranks are never even: each has begun some of the operations of a step."""
    return [poll * 100 + chance.randrange(40) for _ in range(RANKS)]


def paused(poll: int, _asked: int, _chance: Random) -> list[int]:
    """In most answers nothing has moved, because all wait for a checkpoint of rank 0."""
    return lagging(1 + poll // 9 * 9, {0} if poll % 9 else set())


def hung(poll: int, _asked: int, _chance: Random) -> list[int]:
    return lagging(min(poll, 5), {3})


def lagging(poll: int, ranks: set[int]) -> list[int]:
    return [poll * 100 - (number in ranks) for number in range(RANKS)]


def found(ranks: Ranks, polls: int = POLLS, names: Callable[[int], str] = lambda _poll: "a1") -> list[list[int] | None]:
    """The ranks that are named after each answer; the next rank is asked while some are under suspicion."""
    chance, lags, asked, named = Random(1), None, 0, []
    for poll in range(1, polls):
        numbers = ranks(poll, asked, chance)
        each = [rank(number, {"AllReduce": count}) for number, count in enumerate(numbers)]
        next_answer = parse(answer(communicator(names(poll), each)), float(poll))
        lags = lags.then(next_answer, RANKS) if lags else Lags.of(next_answer)
        asked = (asked + bool(lags.points)) % RANKS
        named.append(None if lags.named is None else [one.rank for one in lags.named])
    return named


@pytest.mark.parametrize(
    "ranks",
    [even, someone(0.5), someone(1.0), always(0, share=0.3), read_first, jittery, paused, hung],
    ids=["even", "another", "each time", "rank 0 logs", "who is asked", "jitter", "pauses", "a hang"],
)
def test_ranks_of_a_healthy_job_are_not_named(ranks):
    assert [each for each in found(ranks) if each] == []


@pytest.mark.parametrize(
    ("ranks", "expected", "by"),
    [
        (always(3), [3], ENOUGH + 1),
        (always(3, share=0.9), [3], 60),
        (always(4, 5), [4, 5], ENOUGH + 1),
        (always(0, 1, 2, 3), [0, 1, 2], ENOUGH + 1),
    ],
    ids=["one", "most of the time", "two of a node", "many"],
)
def test_a_rank_for_which_the_others_wait_again_and_again_is_named(ranks, expected, by):
    named = found(ranks)
    assert named[: ENOUGH - 1] == [None] * (ENOUGH - 1)
    assert expected in named[:by]
    assert sum(each == expected for each in named[by:]) > 0.7 * len(named[by:])
    assert all(set(each) <= set(expected) for each in named if each)


def test_the_worst_are_named_first_and_those_that_catch_up_no_more():
    named = found(lambda poll, _, __: [poll * 100 - lag for lag in (0, 0, 0, 0, 0, 1, 2, 3)])
    assert named[-1] == [7, 6, 5]
    named = found(always(3, until=100))
    assert named[97] == [3]
    assert named[103] == []


@pytest.mark.parametrize("names", [lambda poll: f"a{poll}", lambda poll: f"a{poll // 5}"], ids=["each", "often"])
def test_with_new_communicators_it_begins_anew(names):
    assert set(map(str, found(always(3), names=names))) == {"None"}


def test_ranks_of_several_groups_are_compared_within_each_of_them():
    lags = None
    for poll in range(1, 20):
        whole = communicator("a1", [rank(number, {"AllReduce": poll}) for number in range(4)])
        pairs = [
            communicator(name, [rank(number, {"AllGather": poll * size, "Send": poll * number}) for number in numbers])
            for name, size, numbers in (("b1", 3, (0, 1)), ("b2", 7, (2, 3)))
        ]
        poll_of_all = parse(answer(whole, *pairs), float(poll))
        lags = lags.then(poll_of_all, 4) if lags else Lags.of(poll_of_all)
    assert lags.named == ()


def test_answers_in_which_not_all_ranks_run_do_not_count():
    first, starts = (
        parse(answer(communicator("a1", [rank(number, {"AllReduce": count}, init_state=state) for number in range(2)])))
        for count, state in ((1, 0), (2, 1))
    )
    lags = Lags.of(first)
    assert lags.then(starts, 2) is lags
    assert (
        lags.then(parse(answer(communicator("a1", [rank(0, {"AllReduce": 2}), rank(7, {"AllReduce": 2})]))), 2).answers
        == 1
    )


def test_of_a_large_answer_little_is_kept():
    """Who serves a job's port may answer anything, and what is kept stays as long as the job runs."""
    ranks = [rank(number, {"AllReduce": number % 2}, host=f"h{number}") for number in range(5_000)]
    first = Lags.of(parse(answer(communicator("a1", ranks))))
    second = first.then(parse(answer(communicator("a1", [rank(n, {"AllReduce": 3 + n % 2}) for n in range(5_000)]))), 1)
    assert len(first.last.begun.tobytes()) == 40_000
    assert second.answers == 1, "other hosts"
    third = second.then(parse(answer(communicator("a1", [rank(n, {"AllReduce": 5 + n % 2}) for n in range(5_000)]))), 1)
    assert (third.answers, len(third.points)) == (2, MOST_SUSPECTS)
