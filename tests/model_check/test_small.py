"""What may happen next in a small world: all of it, but of orders that nobody can tell apart only one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from .scenarios import PAIR, Scenario, scenario
from .small import DIES, SmallWorld
from .tree import Search

MINUTES = 5 * 60
Begin = Callable[..., SmallWorld]


@pytest.fixture
def begin() -> Iterator[Begin]:
    """Makes small worlds of a master and a worker, in which so much may go wrong."""
    worlds: list[SmallWorld] = []

    def make(*wrong: int) -> SmallWorld:
        worlds.append(SmallWorld(scenario(PAIR, *wrong)))
        return worlds[-1]

    yield make
    for world in worlds:
        world.close()


def walk(world: SmallWorld, *prefixes: str) -> None:
    """Let happen what begins like this, one after the other, and between them only what must come first."""
    for prefix in prefixes:
        found = next((name for name in world.moves() if name.startswith(prefix)), None)
        assert found, f"no {prefix!r} among {list(world.moves())}"
        world.take(found, world.moves()[found])


def until(world: SmallWorld, done: Callable[[list[str]], bool]) -> list[str]:
    """Take the first move that there is until the moves are as wanted."""
    for _ in range(100):
        names = list(world.moves())
        if done(names):
            return names
        world.take(names[0], world.moves()[names[0]])
    raise AssertionError("it never came to that")


def test_whoever_starts_lists_one_kind_after_the_other_and_need_not_die_before_it_has(begin: Begin) -> None:
    world = begin(1, 1)
    assert len(world.moves()) == 1
    assert DIES not in world.moves()


def test_while_a_look_is_under_way_only_its_requests_arrive_and_it_may_die(begin: Begin) -> None:
    world = begin(1, 1)
    names = until(world, lambda names: any("POST pods" in name for name in names))
    assert all("POST pods" in name or name == DIES for name in names)


def test_what_one_look_asks_for_is_done_in_one_order_if_nobody_may_die(begin: Begin) -> None:
    world = begin(1, 0)
    until(world, lambda names: any("POST pods" in name for name in names))
    assert len({name.rpartition(";")[2] for name in world.moves()}) == 1


def test_kubelets_are_asked_what_they_have_done_when_somebody_looks(begin: Begin) -> None:
    world = begin(1, 0)
    names = until(world, lambda names: "time passes" in names)
    assert "job-master-0 runs; watch tells of pods" in names
    assert "job-master-0 runs, job-master-0 fails; watch tells of pods" in names
    both = [name for name in names if "job-master-0" in name and "job-worker-0" in name]
    assert both, "a watch may tell of both at once"
    assert not any(name.count("fails") > 1 for name in names), "there is one failure only"


def test_lists_may_be_old_for_whoever_was_started_again(begin: Begin) -> None:
    def old(world: SmallWorld) -> list[str]:
        return [name for name in world.moves() if "changes ago" in name]

    world = begin(0, 1, 1)
    assert old(world) == []
    until(world, lambda names: "time passes" in names)
    walk(world, DIES)
    seen = old(world)
    walk(world, "server hears GET")
    assert len(seen + old(world)) == 2, "one of jobs and one of pods"
    walk(world, "server hears GET pods, 1 changes ago" if old(world) else "server hears GET")
    assert old(world) == [], "there is one old list only"


def test_two_states_are_told_apart_by_what_the_operator_knows(begin: Begin) -> None:
    first, second = begin(1, 0), begin(1, 0)
    for world in (first, second):
        until(world, lambda names: "time passes" in names)
    assert first.fingerprint() == second.fingerprint()
    walk(first, "job-master-0 runs; watch")
    walk(second, "job-worker-0 runs; watch")
    assert first.fingerprint() != second.fingerprint()


def test_two_states_are_told_apart_by_what_a_look_has_decided_and_how_far_it_has_got(begin: Begin) -> None:
    def mind(world: SmallWorld) -> list[str]:
        return list(world._mind(world._machine.operator))

    world = begin(1, 0)
    assert not any("CreatePod" in words for words in mind(world))
    until(world, lambda names: any("POST pods" in name for name in names))
    assert any("CreatePod" in words and "job-master-0" in words for words in mind(world))
    assert any(words.startswith("_execute ") for words in mind(world))


@pytest.mark.parametrize("small", [scenario(PAIR, 0, 0), scenario(PAIR, 0, 1)], ids=lambda small: small.name)
def test_all_orders_end_as_the_ones_that_are_tried(small: Scenario) -> None:
    tried, everything = (Search(small, 2, MINUTES, every_order=whole).run() for whole in (False, True))
    assert tried.whole
    assert everything.whole
    assert tried.outcomes == everything.outcomes
    assert len(tried.outcomes) > 2
    assert tried.states < everything.states / 3
