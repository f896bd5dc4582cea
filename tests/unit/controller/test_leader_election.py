"""At most one replica holds the Lease, and after any failure one acquires it soon."""

from __future__ import annotations

import asyncio
import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.virtual_time import clock, in_virtual_time
from trainshed.client import Conflict, Forbidden, Unavailable
from trainshed.controller.leader_election import (
    ADDRESS,
    LEASE_DURATION,
    RENEW_DEADLINE,
    RETRY_PERIOD,
    LeaderElector,
    LeaseConfig,
)


class StoredLease:
    """The Lease as a server keeps it."""

    def __init__(self) -> None:
        self.lease: dict | None = None
        self.version = 0


class LeaseConnection:
    """A connection to the Lease that may be cut, hang or answer late; `renewed` is when the last write was sent."""

    def __init__(self, leases: StoredLease) -> None:
        self.leases = leases
        self.cut = self.hangs = False
        self.late = self.asked = self.renewed = 0.0
        self.requests = 0

    async def read_lease(self, _namespace: str, _name: str) -> dict | None:
        self.asked = clock()
        await self._carry()
        return self.leases.lease

    async def write_lease(self, _namespace: str, _name: str, body: dict) -> dict:
        await self._carry()
        there = self.leases.lease
        if (there or {"metadata": {}})["metadata"].get("resourceVersion") != body["metadata"].get("resourceVersion"):
            raise Conflict("another client was faster")
        self.leases.version += 1
        metadata = {**body["metadata"], "resourceVersion": str(self.leases.version)}
        self.leases.lease = {**body, "metadata": metadata}
        self.renewed = self.asked
        await asyncio.sleep(self.late)
        return self.leases.lease

    async def _carry(self) -> None:
        self.requests += 1
        await asyncio.sleep(3600 if self.hangs else 0.01)
        if self.cut:
            raise Unavailable("the line is cut")


class Replica:
    """A replica of the operator that takes part in the leader election."""

    def __init__(self, leases: StoredLease, name: str, address: str = "") -> None:
        self.line = LeaseConnection(leases)
        self.losses: list[float] = []
        self.elector = LeaderElector(
            self.line, LeaseConfig("ml", "lease", name, address), lambda: self.losses.append(clock()), clock
        )
        self.task = asyncio.create_task(self.elector.run())

    async def acquires(self, within: float) -> float:
        """Return after how many seconds it has the Lease."""
        began = clock()
        async with asyncio.timeout(within):
            while not self.elector.is_leader():
                await asyncio.sleep(0.1)
        return clock() - began

    async def die(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


def times_logged(caplog, words: str) -> int:
    return sum(words in record.getMessage() for record in caplog.records)


def test_one_of_two_concurrent_replicas_acquires_the_lease():
    async def story():
        leases = StoredLease()
        both = Replica(leases, "a"), Replica(leases, "b")
        await asyncio.sleep(60)
        assert [replica.elector.is_leader() for replica in both].count(True) == 1
        assert leases.lease["spec"]["leaseTransitions"] == 1
        assert leases.lease["spec"]["leaseDurationSeconds"] == 15
        assert leases.lease["spec"]["acquireTime"] <= leases.lease["spec"]["renewTime"]

    in_virtual_time(story())


def test_another_replica_leads_after_the_lease_of_a_dead_leader_expires():
    async def story():
        leases = StoredLease()
        first, second = Replica(leases, "a"), Replica(leases, "b")
        while not (first.elector.is_leader() or second.elector.is_leader()):
            await asyncio.sleep(0.1)
        leader, other = (first, second) if first.elector.is_leader() else (second, first)
        await asyncio.sleep(30)
        await leader.die()
        assert LEASE_DURATION - 3 * RETRY_PERIOD <= await other.acquires(60) <= LEASE_DURATION + 2, (
            "no other delay applies"
        )

    in_virtual_time(story())


def test_a_released_lease_is_acquired_at_once():
    async def story():
        leases = StoredLease()
        first = Replica(leases, "a")
        await first.acquires(5)
        second = Replica(leases, "b")
        await asyncio.sleep(10)
        await first.die()
        await first.elector.release(1)
        assert leases.lease["spec"]["holderIdentity"] == ""
        assert not first.elector.is_leader()
        assert await second.acquires(60) <= 1.5

    in_virtual_time(story())


def test_a_lease_is_released_during_an_acquisition_or_renewal_too():
    async def story(renewed):
        leases = StoredLease()
        replica = Replica(leases, "a")
        if renewed:
            await replica.acquires(5)
        replica.line.late, before = 0.3, leases.version
        while leases.version == before:
            await asyncio.sleep(0.05)
        await replica.elector.release(1)
        assert leases.lease["spec"]["holderIdentity"] == ""
        await asyncio.sleep(30)
        assert leases.lease["spec"]["holderIdentity"] == "", "a released Lease is not acquired again"
        assert replica.losses == []

    in_virtual_time(story(renewed=False))
    in_virtual_time(story(renewed=True))


def test_a_replica_without_the_lease_releases_nothing():
    async def story():
        leases = StoredLease()
        first, second = Replica(leases, "a"), Replica(leases, "b")
        await asyncio.sleep(5)
        other = second if first.elector.is_leader() else first
        before = leases.lease
        await other.elector.release(1)
        assert leases.lease is before

    in_virtual_time(story())


def test_a_leader_that_cannot_renew_steps_down_in_time_and_can_lead_again(caplog):
    async def story(trouble):
        replica = Replica(StoredLease(), "a")
        await replica.acquires(5)
        await asyncio.sleep(20)
        began = clock()
        setattr(replica.line, trouble, True)
        while not replica.losses:
            await asyncio.sleep(0.1)
        assert not replica.elector.is_leader()
        assert clock() - began <= RENEW_DEADLINE + 0.2
        await asyncio.sleep(60)
        setattr(replica.line, trouble, False)
        await replica.acquires(10)
        assert len(replica.losses) == 1

    with caplog.at_level(logging.INFO):
        in_virtual_time(story("cut"))
        assert times_logged(caplog, "the line is cut") == 1, "one line per outage"
        assert times_logged(caplog, "lost") == 1
        in_virtual_time(story("hangs"))
        assert times_logged(caplog, "request timed out") == 1


@pytest.mark.fault("F4")
def test_a_renewal_counts_from_its_request_not_from_its_response():
    async def story():
        leader = Replica(StoredLease(), "a")
        leader.line.late = 3.0
        await leader.acquires(10)
        await asyncio.sleep(20)
        leader.line.cut = True
        while leader.elector.is_leader():
            await asyncio.sleep(0.05)
        assert clock() - leader.line.renewed <= RENEW_DEADLINE + 0.1

    in_virtual_time(story())


def test_a_leader_that_was_suspended_does_not_act_before_a_renewal():
    async def story():
        replica = Replica(StoredLease(), "a")
        await replica.acquires(5)
        asyncio.get_running_loop().suspend(60)  # a machine that was suspended
        assert not replica.elector.is_leader()
        await asyncio.sleep(RETRY_PERIOD * 2)
        assert replica.elector.is_leader(), "no other replica has acquired it"
        assert len(replica.losses) == 1

    in_virtual_time(story())


def test_a_lease_that_another_replica_holds_is_lost_at_the_next_try():
    async def story():
        leases = StoredLease()
        replica = Replica(leases, "a")
        await replica.acquires(5)
        metadata = {**leases.lease["metadata"], "resourceVersion": "99"}
        leases.lease = {**leases.lease, "metadata": metadata, "spec": {"holderIdentity": "thief"}}
        await asyncio.sleep(RETRY_PERIOD * 1.3)
        assert len(replica.losses) == 1
        assert not replica.elector.is_leader()

    in_virtual_time(story())


def test_a_lease_that_cannot_be_released_does_not_delay_the_shutdown(caplog):
    async def story():
        replica = Replica(StoredLease(), "a")
        await replica.acquires(5)
        await replica.die()
        replica.line.hangs = True
        began = clock()
        await replica.elector.release(1)
        assert clock() - began <= 2.1

    in_virtual_time(story())
    assert times_logged(caplog, "not released") == 1


@pytest.mark.fault("F4")
@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["cut", "hangs"]), st.booleans()), max_size=12))
@settings(max_examples=25, deadline=None)
def test_at_most_one_replica_holds_the_lease_and_finally_one_does(troubles):
    async def story():
        leases = StoredLease()
        replicas = [Replica(leases, name) for name in "abc"]
        for who, trouble, on in troubles:
            setattr(replicas[who].line, trouble, on)
            for _ in range(70):
                await asyncio.sleep(0.1)
                assert sum(replica.elector.is_leader() for replica in replicas) <= 1
        for replica in replicas:
            replica.line.cut = replica.line.hangs = False
        await asyncio.sleep(LEASE_DURATION + 4 * RETRY_PERIOD)
        assert sum(replica.elector.is_leader() for replica in replicas) == 1

    in_virtual_time(story())


def test_a_waiting_replica_sends_few_requests_to_a_failing_server():
    async def story():
        replica = Replica(StoredLease(), "a")
        replica.line.cut = True
        await asyncio.sleep(60)
        assert 45 <= replica.line.requests <= 80

    in_virtual_time(story())


def test_a_leader_frozen_within_a_loop_iteration_does_not_act_in_it():
    frozen = 0.0

    async def story():
        nonlocal frozen
        line = LeaseConnection(StoredLease())
        elector = LeaderElector(line, LeaseConfig("ml", "lease", "a"), lambda: None, lambda: clock() + frozen)
        task = asyncio.create_task(elector.run())
        await asyncio.sleep(5)
        assert elector.is_leader()
        before = clock()
        frozen = 20.0
        assert clock() == before
        assert not elector.is_leader()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    in_virtual_time(story())


def test_a_forbidden_lease_is_reported_until_it_is_allowed():
    async def story():
        replica = Replica(StoredLease(), "a")
        read = replica.line.read_lease

        async def refuse(_namespace: str, _name: str) -> None:
            raise Forbidden("leases is forbidden")

        replica.line.read_lease = refuse
        await asyncio.sleep(5)
        assert replica.elector.refused == "cannot acquire the Lease ml/lease: leases is forbidden"
        replica.line.read_lease = read
        replica.line.cut = True
        await asyncio.sleep(5)
        assert replica.elector.refused == "", "an outage does not mean missing rights"
        replica.line.cut = False
        await replica.acquires(5)
        await replica.die()

    in_virtual_time(story())


@pytest.mark.parametrize("before", [{}, {"other": "stays"}, {ADDRESS: "192.0.2.9:10443", "other": "stays"}])
@pytest.mark.parametrize("address", ["", "192.0.2.1:10443"])
def test_the_lease_names_the_address_of_its_holder_and_of_no_other(before, address):
    async def story():
        leases = StoredLease()
        leases.lease = {"metadata": {"name": "lease", "annotations": before}, "spec": {}}
        holder, other = Replica(leases, "a", address), Replica(leases, "b", "192.0.2.2:10443")
        await holder.acquires(5)
        await asyncio.sleep(5)
        kept = {key: text for key, text in before.items() if key != ADDRESS}
        assert leases.lease["metadata"]["annotations"] == kept | ({ADDRESS: address} if address else {})
        assert other.elector.address_of_leader() == address
        await holder.die()
        await holder.elector.release(1)
        await other.acquires(60)
        assert leases.lease["metadata"]["annotations"] == kept | {ADDRESS: "192.0.2.2:10443"}

    in_virtual_time(story())
