"""Requests that wait can be withdrawn; those under way end, and what was withdrawn leaves no trace."""

from __future__ import annotations

import asyncio

import pytest

from support.virtual_time import clock, in_virtual_time
from trainshed.client import TooManyRequests, Unavailable
from trainshed.client.flow_control import Limiter, TokenBucket, retry, run_with_slow_start
from trainshed.client.withdrawal import Withdrawal, Withdrawn, is_withdrawn, unless_withdrawn


async def ends(withdrawal: Withdrawal, at: float, *calls) -> tuple[list[object], float]:
    """Run calls, withdraw them after some seconds; return the type of how each ends, and the seconds until then."""
    began = clock()
    asyncio.get_running_loop().call_later(at, withdrawal.withdraw)
    found = await asyncio.gather(*(withdrawal.run(call) for call in calls), return_exceptions=True)
    return [type(one) for one in found], clock() - began


@pytest.mark.parametrize(("rate", "seconds"), [(0, 1), (0.1, 0.5)])
def test_what_waits_for_a_turn_or_a_token_is_withdrawn_and_what_is_sent_ends(rate, seconds):
    async def story() -> None:
        limiter, sent = Limiter(1 if not rate else 4, TokenBucket(rate)), []

        async def call() -> None:
            sent.append(clock())
            await asyncio.sleep(1)

        calls = [lambda: limiter.run("ml", call)] * 3
        assert await ends(Withdrawal(), 0.5, *calls) == ([type(None), Withdrawn, Withdrawn], 1)
        assert len(sent) == 1
        await limiter.run("ml", call)
        assert sent[1] == pytest.approx(1010 if rate else 1001), "those that were withdrawn have used up nothing"
        assert not limiter._under_way

    in_virtual_time(story())


@pytest.mark.parametrize(
    ("error", "first", "last"), [(Unavailable("?"), 0.1, 0.1), (TooManyRequests("wait", wait=30), 30, 45)]
)
def test_a_request_that_is_to_be_sent_again_is_withdrawn_but_no_sooner_than_the_server_permits(error, first, last):
    sent = []

    async def call() -> None:
        sent.append(clock())
        raise error

    found, seconds = in_virtual_time(ends(Withdrawal(), 0.1, lambda: retry(call)))
    assert (found, len(sent)) == ([Withdrawn], 1)
    assert first <= seconds <= last + 0.01


def test_a_request_that_gets_its_turn_while_it_is_withdrawn_leaves_no_trace():
    async def story() -> None:
        limiter, withdrawal = Limiter(1, TokenBucket()), Withdrawal()

        async def call() -> None:
            await asyncio.sleep(1)
            withdrawal.withdraw()

        first = asyncio.create_task(limiter.run("ml", call))
        await asyncio.sleep(0)
        found, _ = await ends(withdrawal, 9, lambda: limiter.run("ml", call))
        assert found in ([Withdrawn], [type(None)])
        await first
        assert not limiter._under_way

    in_virtual_time(story())


async def test_nothing_begins_once_it_is_withdrawn():
    withdrawal, done = Withdrawal(), []

    async def task() -> None:
        done.append(1)
        if len(done) == 3:
            withdrawal.withdraw()
        await asyncio.sleep(0)

    assert await withdrawal.run(lambda: run_with_slow_start([task] * 50)) == []
    assert await withdrawal.run(lambda: run_with_slow_start([task])) == []
    assert len(done) == 3
    with pytest.raises(Withdrawn):
        await withdrawal.run(lambda: unless_withdrawn(asyncio.sleep(1)))
    assert not is_withdrawn(), "other requests of the task are not withdrawn"


async def test_a_timeout_of_its_own_is_none_of_the_withdrawal():
    async def late() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        await Withdrawal().run(lambda: unless_withdrawn(late()))
