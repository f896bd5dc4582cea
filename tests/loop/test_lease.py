"""One at a time holds the Lease, whatever happens to whom, and somebody does soon again."""

from __future__ import annotations

import asyncio
import logging

from hypothesis import given, settings
from hypothesis import strategies as st

from hasty import clock, hastily
from trainshed.cluster import Conflict, Unavailable
from trainshed.loop.lease import DURATION, RENEW_WITHIN, RETRY, Claim, Elector


class Leases:
    """The one Lease, as a server keeps it."""

    def __init__(self) -> None:
        self.lease: dict | None = None
        self.version = 0


class Line:
    """A connection to it, which may be cut, or hang."""

    def __init__(self, leases: Leases) -> None:
        self.leases = leases
        self.cut = self.hangs = False

    async def read_lease(self, _namespace: str, _name: str) -> dict | None:
        await self._carry()
        return self.leases.lease

    async def write_lease(self, _namespace: str, _name: str, body: dict) -> dict:
        await self._carry()
        there = self.leases.lease
        if (there or {"metadata": {}})["metadata"].get("resourceVersion") != body["metadata"].get("resourceVersion"):
            raise Conflict("somebody was faster")
        self.leases.version += 1
        metadata = {**body["metadata"], "resourceVersion": str(self.leases.version)}
        self.leases.lease = {**body, "metadata": metadata}
        return self.leases.lease

    async def _carry(self) -> None:
        await asyncio.sleep(3600 if self.hangs else 0.01)
        if self.cut:
            raise Unavailable("the line is cut")


class Replica:
    """An operator that wants to lead."""

    def __init__(self, leases: Leases, name: str) -> None:
        self.line = Line(leases)
        self.losses: list[float] = []
        self.elector = Elector(self.line, Claim("ml", "lease", name), lambda: self.losses.append(clock()))
        self.task = asyncio.create_task(self.elector.run())

    async def held(self, within: float) -> float:
        """After how many seconds it has the Lease."""
        began = clock()
        async with asyncio.timeout(within):
            while not self.elector.holds():
                await asyncio.sleep(0.1)
        return clock() - began

    async def die(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


def told(caplog, words: str) -> int:
    return sum(words in record.getMessage() for record in caplog.records)


def test_of_two_that_begin_together_one_holds_it():
    async def story():
        leases = Leases()
        both = Replica(leases, "a"), Replica(leases, "b")
        await asyncio.sleep(60)
        assert [replica.elector.holds() for replica in both].count(True) == 1
        assert leases.lease["spec"]["leaseTransitions"] == 1
        assert leases.lease["spec"]["leaseDurationSeconds"] == 15
        assert leases.lease["spec"]["acquireTime"] <= leases.lease["spec"]["renewTime"]

    hastily(story())


def test_when_the_leader_dies_another_leads_once_the_lease_has_run_out():
    async def story():
        leases = Leases()
        first, second = Replica(leases, "a"), Replica(leases, "b")
        while not (first.elector.holds() or second.elector.holds()):
            await asyncio.sleep(0.1)
        leader, other = (first, second) if first.elector.holds() else (second, first)
        await asyncio.sleep(30)
        await leader.die()
        assert DURATION - 3 * RETRY <= await other.held(60) <= DURATION + 2 * RETRY

    hastily(story())


def test_a_lease_that_is_given_back_is_taken_at_once():
    async def story():
        leases = Leases()
        first = Replica(leases, "a")
        await first.held(5)
        second = Replica(leases, "b")
        await asyncio.sleep(10)
        await first.die()
        await first.elector.release()
        assert leases.lease["spec"]["holderIdentity"] == ""
        assert not first.elector.holds()
        assert await second.held(60) <= RETRY * 1.3

    hastily(story())


def test_who_does_not_hold_it_gives_nothing_back():
    async def story():
        leases = Leases()
        first, second = Replica(leases, "a"), Replica(leases, "b")
        await asyncio.sleep(5)
        other = second if first.elector.holds() else first
        before = leases.lease
        await other.elector.release()
        assert leases.lease is before

    hastily(story())


def test_a_leader_that_cannot_renew_steps_down_in_time_and_leads_again_later(caplog):
    async def story(trouble):
        replica = Replica(Leases(), "a")
        await replica.held(5)
        await asyncio.sleep(20)
        began = clock()
        setattr(replica.line, trouble, True)
        while not replica.losses:
            await asyncio.sleep(0.1)
        assert not replica.elector.holds()
        assert clock() - began <= RENEW_WITHIN + 0.2
        await asyncio.sleep(60)
        setattr(replica.line, trouble, False)
        await replica.held(10)
        assert len(replica.losses) == 1

    with caplog.at_level(logging.INFO):
        hastily(story("cut"))
        assert told(caplog, "the line is cut") == 1, "one outage, one line"
        assert told(caplog, "lost") == 1
        hastily(story("hangs"))
        assert told(caplog, "no answer in time") == 1


def test_a_leader_whose_clock_leapt_does_not_act_before_it_has_asked():
    async def story():
        replica = Replica(Leases(), "a")
        await replica.held(5)
        asyncio.get_running_loop()._now += 60  # a machine that slept
        assert not replica.elector.holds()
        await asyncio.sleep(RETRY * 2)
        assert replica.elector.holds(), "nobody else has come"
        assert len(replica.losses) == 1

    hastily(story())


def test_a_lease_that_somebody_else_took_is_lost_at_the_next_try():
    async def story():
        leases = Leases()
        replica = Replica(leases, "a")
        await replica.held(5)
        metadata = {**leases.lease["metadata"], "resourceVersion": "99"}
        leases.lease = {**leases.lease, "metadata": metadata, "spec": {"holderIdentity": "thief"}}
        await asyncio.sleep(RETRY * 1.3)
        assert len(replica.losses) == 1
        assert not replica.elector.holds()

    hastily(story())


def test_a_lease_that_cannot_be_given_back_does_not_keep_us(caplog):
    async def story():
        replica = Replica(Leases(), "a")
        await replica.held(5)
        await replica.die()
        replica.line.hangs = True
        began = clock()
        await replica.elector.release()
        assert clock() - began <= 2.1

    hastily(story())
    assert told(caplog, "not released") == 1


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["cut", "hangs"]), st.booleans()), max_size=12))
@settings(max_examples=25, deadline=None)
def test_at_no_time_do_two_hold_it_and_in_the_end_one_does(troubles):
    async def story():
        leases = Leases()
        replicas = [Replica(leases, name) for name in "abc"]
        for who, trouble, on in troubles:
            setattr(replicas[who].line, trouble, on)
            for _ in range(70):
                await asyncio.sleep(0.1)
                assert sum(replica.elector.holds() for replica in replicas) <= 1
        for replica in replicas:
            replica.line.cut = replica.line.hangs = False
        await asyncio.sleep(DURATION + 4 * RETRY)
        assert sum(replica.elector.holds() for replica in replicas) == 1

    hastily(story())
