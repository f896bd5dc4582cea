"""Withdraws requests that wait to be sent, because they are no longer wanted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")


class Withdrawn(Exception):
    """A request was not sent, or not sent again, because it was withdrawn."""


class Withdrawal:
    """Requests that can be withdrawn together while they wait; those under way end.

    These are the requests of a call that is `run` with it, and of the tasks that it starts.
    """

    def __init__(self) -> None:
        self.done = False
        self._waiting: dict[asyncio.Timeout, None] = {}
        self._turns: set[asyncio.Future[Any]] = set()

    def withdraw(self) -> None:
        """Withdraw what waits, and what would wait from now on."""
        if self.done:
            return
        self.done = True
        now = asyncio.get_running_loop().time()
        for limit in self._waiting:
            limit.reschedule(now)
        for turn in self._turns:
            if not turn.done():
                turn.set_exception(Withdrawn())

    async def run(self, call: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `call`."""
        before = WITHDRAWAL.set(self)
        try:
            return await call()
        finally:
            WITHDRAWAL.reset(before)

    def include(self, turn: asyncio.Future[Any]) -> None:
        """Let a future that a request waits for raise `Withdrawn` once it is withdrawn."""
        if self.done:
            turn.set_exception(Withdrawn())
            return
        self._turns.add(turn)
        turn.add_done_callback(self._turns.discard)

    async def wait(self, waiting: Awaitable[T]) -> T:
        """Return the result of `waiting`; raises `Withdrawn` if it is withdrawn before."""
        limit = asyncio.timeout(0 if self.done else None)
        try:
            async with limit:
                self._waiting[limit] = None
                try:
                    return await waiting
                finally:
                    del self._waiting[limit]
        except TimeoutError:
            if limit.expired():
                raise Withdrawn from None
            raise


#: The requests that those of the running task can be withdrawn with.
WITHDRAWAL: ContextVar[Withdrawal | None] = ContextVar("withdrawal", default=None)


async def unless_withdrawn(waiting: Awaitable[T]) -> T:
    """Return the result of `waiting`, for which a request waits; raises `Withdrawn` if it is withdrawn before."""
    withdrawal = WITHDRAWAL.get()
    return await (withdrawal.wait(waiting) if withdrawal else waiting)


def next_turn() -> asyncio.Future[Any]:
    """Return a future for which a request can wait at less cost; raises `Withdrawn` if it is withdrawn before."""
    turn: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    if withdrawal := WITHDRAWAL.get():
        withdrawal.include(turn)
    return turn


def is_withdrawn() -> bool:
    """Return whether the requests of the running task are withdrawn."""
    withdrawal = WITHDRAWAL.get()
    return withdrawal is not None and withdrawal.done
