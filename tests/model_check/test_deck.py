"""Messages arrive when somebody says so; those of one watch in their order."""

from __future__ import annotations

import contextvars

from simulation.loop import PROCESS

from .deck import Deck


def test_what_the_world_does_soon_waits_until_it_is_chosen() -> None:
    deck, told = Deck(), []
    deck.call_later(0.1, told.append, "first")
    deck.call_later(0.2, told.append, "second")
    deck.run_for(5)
    assert told == []
    _, second = deck.channels()
    deck.deliver(second)
    assert told == ["second"]
    (first,) = deck.channels()
    deck.deliver(first)
    assert told == ["second", "first"]


def test_timers_of_a_process_and_those_far_away_are_timers() -> None:
    deck, told = Deck(), []
    context = contextvars.copy_context()
    context.run(PROCESS.set, "a")
    deck.call_later(0.1, told.append, "a process", context=context)
    deck.call_later(60, told.append, "far away")
    assert list(deck.channels()) == []
    assert deck.wait(deck.time() + 30)
    assert told == ["a process"]
    assert not deck.wait(deck.time() + 30)
    assert deck.wait(deck.time() + 300)
    assert told == ["a process", "far away"]


def test_a_message_that_is_taken_back_never_arrives() -> None:
    deck = Deck()
    deck.call_later(0.1, print).cancel()
    assert list(deck.channels()) == []
