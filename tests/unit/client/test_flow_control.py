"""Bounds on requests in flight."""

from __future__ import annotations

import asyncio
from itertools import count

import pytest

from support.virtual_time import clock, in_virtual_time
from trainshed.client import ApiError, Forbidden, NotLeader, TooManyRequests, Unavailable
from trainshed.client.flow_control import CREATES, RECONCILE_NUMBER, Limiter, Limiters, TokenBucket


async def test_the_width_limits_concurrent_requests():
    limiter, most, now = Limiter(4, TokenBucket()), 0, 0

    async def call():
        nonlocal most, now
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.001)
        now -= 1

    await asyncio.gather(*(limiter.run("ml", call) for _ in range(20)))
    assert most == 3, "one namespace may not use the whole limiter"
    await asyncio.gather(*(limiter.run(f"ml-{number}", call) for number in range(20)))
    assert most == 4


async def test_a_429_halves_the_width_and_successes_widen_it_again():
    limiter = Limiter(16, TokenBucket())

    async def groan():
        raise TooManyRequests("too much")

    async def fine():
        return 1

    with pytest.raises(TooManyRequests):
        await limiter.run("ml", groan)
    assert limiter.width == 8
    for _ in range(8):
        assert await limiter.run("ml", fine) == 1
    assert limiter.width in {8, 9}
    for _ in range(200):
        await limiter.run("ml", fine)
    assert limiter.width == 16


async def test_the_width_is_at_least_one():
    limiter = Limiter(2, TokenBucket())

    async def groan():
        raise TooManyRequests("too much")

    for _ in range(10):
        with pytest.raises(TooManyRequests):
            await limiter.run("ml", groan)
    assert limiter.width == 1


@pytest.mark.fault("J12")
async def test_who_asks_for_much_lets_others_through():
    limiter, order = Limiter(1, TokenBucket()), []

    async def one(whose: str) -> None:
        async def call() -> None:
            order.append(whose)
            await asyncio.sleep(0)

        await limiter.run(whose, call)

    many = [asyncio.create_task(one("many")) for _ in range(50)]
    await asyncio.sleep(0)
    few = [asyncio.create_task(one("few")) for _ in range(2)]
    await asyncio.gather(*few, *many)
    assert len(order) == 52
    assert order[:8].count("few") == 2, "in turn, after the request in flight"


async def test_the_requests_of_the_earliest_reconcile_are_admitted_first():
    limiter, order = Limiter(1, TokenBucket()), []

    async def reconcile(number: int) -> None:
        RECONCILE_NUMBER.set(number)
        await asyncio.gather(*(request(number) for _ in range(3)))

    async def request(number: int) -> None:
        async def call() -> None:
            order.append(number)
            await asyncio.sleep(0)

        await limiter.run("ml", call)

    await asyncio.gather(*(asyncio.create_task(reconcile(number)) for number in (1, 3, 2)))
    assert order == [1, 1, 1, 2, 2, 2, 3, 3, 3]


@pytest.mark.fault("K2")
def test_a_namespace_whose_answers_are_slow_is_asked_less_and_others_are_not():
    async def scenario() -> tuple[list[int], float]:
        limiter, clock = Limiter(16, TokenBucket()), asyncio.get_running_loop().time
        shares = [limiter.share("slow")]
        crowd = [asyncio.create_task(limiter.run("slow", lambda: asyncio.sleep(10))) for _ in range(40)]
        await asyncio.sleep(1)
        began = clock()
        await asyncio.gather(*(limiter.run("quick", lambda: asyncio.sleep(0.1)) for _ in range(8)))
        waited = clock() - began
        await asyncio.sleep(10)
        shares += [limiter.share("slow"), limiter.share("quick"), limiter.width]
        await asyncio.gather(*crowd)
        for _ in range(400):
            await limiter.run("slow", lambda: asyncio.sleep(0))
        return [*shares, limiter.share("slow")], waited

    shares, waited = in_virtual_time(scenario())
    assert shares == [12, 1, 12, 16, 12]
    assert waited < 1


@pytest.mark.parametrize(
    ("seconds", "error", "share"),
    [
        (0.5, Unavailable("500: a webhook has failed"), 12),
        (10, Unavailable("500: a webhook has failed"), 4),
        (10, Forbidden("a policy says no"), 4),
        (0, TooManyRequests("admission webhook denied the request", from_webhook=True), 4),
    ],
)
def test_slow_errors_and_a_webhooks_429_narrow_their_flow_only(seconds, error, share):
    async def scenario() -> tuple[int, int, int]:
        limiter = Limiter(16, TokenBucket())

        async def call() -> None:
            await asyncio.sleep(seconds)
            raise error

        for _ in range(2):
            with pytest.raises(ApiError):
                await limiter.run("bad", call)
        return limiter.share("bad"), limiter.share("good"), limiter.width

    assert in_virtual_time(scenario()) == (share, 12, 16)


def test_a_call_that_is_given_up_after_a_long_time_was_slow():
    async def scenario() -> int:
        limiter = Limiter(16, TokenBucket())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await limiter.run("bad", lambda: asyncio.sleep(100))
        return limiter.share("bad")

    assert in_virtual_time(scenario()) == 8


@pytest.mark.parametrize("dead", [40, 400])
def test_more_namespaces_without_answers_than_the_width_do_not_hold_up_others(dead):
    async def scenario() -> list[float]:
        limiter, waited = Limiter(16, TokenBucket()), []
        tasks = [asyncio.create_task(asking(limiter, f"dead-{number}", 10)) for number in range(dead)]
        await asyncio.sleep(3 * dead / 16)
        for _ in range(40):
            began = clock()
            await asyncio.gather(*(limiter.run("ml", lambda: asyncio.sleep(0.1)) for _ in range(12)))
            waited.append(clock() - began)
        await end(tasks)
        assert (limiter._total, limiter._aside, limiter._under_way) == (0, 0, {})
        return waited

    assert max(in_virtual_time(scenario())) < 0.5


@pytest.mark.parametrize(("width", "dead"), [(4, 100), (4, 1000), (CREATES, 1000)])
def test_many_namespaces_that_stop_to_answer_at_once_hold_up_a_new_one_for_a_moment_only(width, dead):
    async def scenario() -> list[float]:
        limiter, waited = Limiter(width, TokenBucket()), []
        tasks = [asyncio.create_task(asking(limiter, f"dead-{number % dead}", 10)) for number in range(3 * dead)]
        tasks += [asyncio.create_task(asking(limiter, f"busy-{number % 4}", 0.01)) for number in range(40)]
        for number in range(10):
            await asyncio.sleep(1.7)
            began = clock()
            await asyncio.gather(*(limiter.run(f"new-{number}", lambda: asyncio.sleep(0.01)) for _ in range(5)))
            waited.append(clock() - began)
        await end(tasks)
        assert (limiter._total, limiter._aside, limiter._under_way, limiter._out_of_turn) == (0, 0, {}, None)
        return waited

    assert max(in_virtual_time(scenario())) <= 2.5


async def asking(limiter: Limiter, flow: str, seconds: float) -> None:
    while True:
        await limiter.run(flow, lambda: asyncio.sleep(seconds))


async def end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_a_namespace_with_one_slow_response_waits_neither_for_busy_ones_nor_for_those_without_answers():
    async def scenario() -> float:
        limiter = Limiter(16, TokenBucket())
        tasks = [asyncio.create_task(asking(limiter, f"busy-{number % 4}", 0.05)) for number in range(40)]
        tasks += [asyncio.create_task(asking(limiter, f"dead-{number}", 10)) for number in range(40)]
        await asyncio.sleep(120)
        await limiter.run("ml", lambda: asyncio.sleep(3))
        began = clock()
        await limiter.run("ml", lambda: asyncio.sleep(0))
        waited = clock() - began
        await end(tasks)
        return waited

    assert in_virtual_time(scenario()) < 10, "one of those without answers ends, and its turn is next"


def test_slow_namespaces_stay_known_while_they_wait_and_their_requests_are_bounded():
    async def scenario() -> tuple[float, int, bool, int]:
        limiter, most = Limiter(4, TokenBucket()), 0
        tasks = [asyncio.create_task(asking(limiter, f"dead-{number}", 30)) for number in range(1000)]
        for _ in range(1000):
            await asyncio.sleep(1)
            most = max(most, limiter._total)
        began = clock()
        await limiter.run("ml", lambda: asyncio.sleep(0.01))
        found = clock() - began, most, limiter.is_busy, limiter.waiting
        await end(tasks)
        return found

    waited, most, is_busy, waiting = in_virtual_time(scenario())
    assert waited < 0.1
    assert most <= 4 + 128
    assert (is_busy, waiting) == (False, 998), "two are in flight"


def test_one_slow_response_does_not_hold_up_a_namespace_for_long():
    async def scenario() -> float:
        limiter = Limiter(16, TokenBucket())
        await limiter.run("ml", lambda: asyncio.sleep(3))
        tasks = [asyncio.create_task(limiter.run(f"dead-{number}", lambda: asyncio.sleep(10))) for number in range(40)]
        await asyncio.sleep(9)
        await limiter.run("ml", lambda: asyncio.sleep(0))
        began = clock()
        await limiter.run("ml", lambda: asyncio.sleep(0))
        waited = clock() - began
        await asyncio.gather(*tasks)
        return waited

    assert in_virtual_time(scenario()) < 0.1


def test_namespaces_that_are_slow_now_and_then_hold_up_others_for_a_moment_only():
    async def ask(limiter: Limiter, flow: str) -> None:
        for number in count():
            await limiter.run(flow, lambda: asyncio.sleep(0.05 if number % 5 else 5))  # noqa: B023 - it is called at once

    async def scenario() -> list[float]:
        limiter, waited = Limiter(16, TokenBucket()), []
        tasks = [asyncio.create_task(ask(limiter, f"flapping-{number % 20}")) for number in range(240)]
        await asyncio.sleep(30)
        for _ in range(20):
            began = clock()
            await asyncio.gather(*(limiter.run("ml", lambda: asyncio.sleep(0.1)) for _ in range(12)))
            waited.append(clock() - began)
            await asyncio.sleep(1)
        await end(tasks)
        return waited

    assert max(in_virtual_time(scenario())) < 2


def test_a_reduced_share_is_kept_for_some_minutes():
    async def scenario() -> tuple[int, int, int]:
        limiter, most = Limiter(16, TokenBucket()), 0
        await limiter.run("slow", lambda: asyncio.sleep(10))
        soon = limiter.share("slow")
        for number in range(500):
            await limiter.run(f"slow-{number}", lambda: asyncio.sleep(10))
            most = max(most, len(limiter._shares))
        return soon, limiter.share("slow"), most

    soon, later, most = in_virtual_time(scenario())
    assert (soon, later) == (8, 12)
    assert most <= 300 / 10 + 2


@pytest.mark.parametrize("turns", range(4))
async def test_a_cancelled_request_frees_its_place(turns: int):
    limiter, over = Limiter(2, TokenBucket()), asyncio.Event()

    async def fine() -> int:
        return 1

    tasks = [asyncio.create_task(limiter.run("ml", over.wait)) for _ in range(4)]
    for _ in range(turns):
        await asyncio.sleep(0)
    for task in tasks[1:]:
        task.cancel()
    over.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert await asyncio.gather(*(limiter.run("ml", fine) for _ in range(3))) == [1, 1, 1]
    assert not limiter._under_way
    assert not any(limiter._rings)


async def test_the_rate_is_limited_after_a_burst():
    pace, clock = TokenBucket(100, 5), asyncio.get_running_loop().time
    began = clock()
    for _ in range(5):
        await pace.wait()
    assert clock() - began < 0.04
    for _ in range(10):
        await pace.wait()
    assert clock() - began >= 0.09


async def test_a_rate_of_zero_is_no_limit():
    clock = asyncio.get_running_loop().time
    began = clock()
    for _ in range(1000):
        await TokenBucket().wait()
    assert clock() - began < 0.5


def test_a_closed_lane_admits_no_request_and_those_in_flight_continue():
    async def story():
        limiter, done = Limiter(1, TokenBucket()), []

        async def call():
            await asyncio.sleep(1)
            done.append(clock())

        tasks = [asyncio.create_task(limiter.run("ml", call)) for _ in range(3)]
        await asyncio.sleep(0.5)
        assert limiter.waiting == 2
        limiter.close()
        assert limiter.waiting == 0
        ends = await asyncio.gather(*tasks, limiter.run("ml", call), return_exceptions=True)
        assert [type(end) for end in ends] == [type(None), NotLeader, NotLeader, NotLeader]
        assert len(done) == 1

    in_virtual_time(story())


def test_a_request_waiting_for_the_rate_limit_is_refused_by_a_closed_lane():
    async def story():
        limiter, done = Limiter(4, TokenBucket(rate=0.1)), []

        async def call():
            done.append(clock())

        tasks = [asyncio.create_task(limiter.run("ml", call)) for _ in range(2)]
        await asyncio.sleep(1)
        limiter.close()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(end) for end in ends] == [type(None), NotLeader]
        assert len(done) == 1

    in_virtual_time(story())


def test_a_request_cancelled_while_the_lane_is_closed_leaves_no_trace():
    async def story():
        limiter = Limiter(1, TokenBucket())
        first, second = (asyncio.create_task(limiter.run("ml", lambda: asyncio.sleep(1))) for _ in range(2))
        await asyncio.sleep(0.5)
        limiter.close()
        second.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        assert not limiter._under_way

    in_virtual_time(story())


def test_closed_lanes_admit_only_events_and_config_maps():
    async def story():
        lanes, done = Limiters(TokenBucket()), []

        async def call():
            await asyncio.sleep(1)
            done.append(clock())

        tasks = [asyncio.create_task(lanes.creates.run(f"ml-{number}", call)) for number in range(CREATES + 2)]
        await asyncio.sleep(0.5)
        assert lanes.waiting() == {"creates": 2, "deletes": 0, "statuses": 0, "events": 0, "config_maps": 0}
        lanes.close()
        for limiter in (lanes.events, lanes.config_maps):
            await limiter.run("ml", call)
        for limiter in (lanes.creates, lanes.deletes, lanes.statuses):
            with pytest.raises(NotLeader):
                await limiter.run("ml", call)
        await asyncio.gather(*tasks, return_exceptions=True)
        assert len(done) == CREATES + 2

    in_virtual_time(story())
