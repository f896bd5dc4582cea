"""What one process has seen, all have."""

from __future__ import annotations

import os

import pytest

from .seen import Seen


def test_a_number_is_new_once() -> None:
    seen = Seen(8)
    assert [seen.add(number) for number in (1, 9, 1, 9, 2)] == [True, True, False, False, True]
    assert len(seen) == 3


def test_children_add_to_the_same_set() -> None:
    seen = Seen(8)
    child = os.fork()
    if not child:
        seen.add(5)
        os._exit(0)
    os.waitpid(child, 0)
    assert not seen.add(5)


def test_more_than_there_is_room_for_is_an_error() -> None:
    seen = Seen(2)
    seen.add(1)
    seen.add(2)
    with pytest.raises(MemoryError):
        seen.add(3)
