"""The feeds of a team: one for each user and namespace, a limited number of them, and none outlives its rights."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from http import HTTPStatus

import pytest

from support.pages import Jobs
from support.virtual_time import in_virtual_time
from trainshed.client import Forbidden
from trainshed.client.transport import Path, RestClient
from trainshed.memory.in_process import MemoryTransport
from trainshed.ui import team as team_module
from trainshed.ui.feed import Feed
from trainshed.ui.proxy_headers import ActingUser, RequestRefused
from trainshed.ui.team import Team

#: Where all may see which kinds there are.
DISCOVERY = "/apis/kubeflow.org"
ALICE, BOB = ActingUser("alice"), ActingUser("bob")


class LimitedRest(RestClient):
    """The client of a user who may read some namespaces alone; an open watch ends on request."""

    def __init__(self, cluster: Cluster, user: ActingUser) -> None:
        super().__init__(MemoryTransport(cluster.jobs.server))
        self._cluster, self._user = cluster, user
        self.is_closed = False

    async def close(self) -> None:
        self.is_closed = True

    def call(self, verb, path, *words, **more):
        self._check(path)
        return super().call(verb, path, *words, **more)

    def read_page(self, path, *words):
        self._check(path)
        return super().read_page(path, *words)

    async def watch(self, path, query):
        self._check(path)
        async for line in super().watch(path, query):
            yield line

    def _check(self, path: Path) -> None:
        allowed = self._cluster.rights.get(self._user, ())
        if path.prefix != DISCOVERY and path.namespace not in allowed:
            raise Forbidden(f"{path.plural} is forbidden in {path.namespace or 'all namespaces'}")


class Cluster:
    """A job in namespace `ml`, and who may read which namespaces; `made` are the clients of users in their order."""

    def __init__(self, most: int = 50, **limits: int) -> None:
        self.jobs = Jobs()
        self.jobs.create("PyTorchJob", "secret")
        self.rights: dict[ActingUser, tuple[str, ...]] = {}
        self.made: list[tuple[ActingUser, LimitedRest]] = []
        self.team: Team[Feed] = Team(self._connect, lambda feed, _: feed, most, **limits)

    def _connect(self, user: ActingUser) -> RestClient:
        self.made.append((user, LimitedRest(self, user)))
        return self.made[-1][1]

    async def names(self, user: ActingUser, namespace: str) -> list[str]:
        """Return the jobs that a user is shown."""
        async with self.team.read(user, namespace) as feed:
            return [file.address.name for file in feed.files()]


def played(cluster: Cluster, test: Callable[[], Awaitable[None]]) -> None:
    async def story() -> None:
        keeping = asyncio.create_task(cluster.team.run())
        try:
            await test()
        finally:
            keeping.cancel()
            await cluster.team.close()
        assert all(rest.is_closed for _, rest in cluster.made)

    in_virtual_time(story())


def test_nobody_is_shown_the_feed_of_another():
    cluster = Cluster()
    cluster.rights[ALICE] = ("ml", "")
    others = (BOB, ActingUser("alice", ("people",)), ActingUser("Alice"), ActingUser())

    async def test() -> None:
        for namespace in ("ml", ""):
            assert await cluster.names(ALICE, namespace) == ["secret"]
            for other in others:
                assert await cluster.names(other, namespace) == [], (other, namespace)
        assert {user for user, _ in cluster.made} == {ALICE, *others}

    played(cluster, test)


def test_who_may_read_all_namespaces_has_one_feed_for_them_and_others_have_one_each():
    cluster = Cluster()
    cluster.rights = {ALICE: ("ml", ""), BOB: ("ml",)}

    async def test() -> None:
        for namespace in ("", "ml", "other"):
            await cluster.names(ALICE, namespace)
            await cluster.names(BOB, namespace)
        assert [user for user, _ in cluster.made] == [ALICE, BOB, BOB, BOB]

    played(cluster, test)


def test_a_user_has_a_limited_number_of_feeds_and_takes_none_of_others():
    cluster = Cluster()

    async def test() -> None:
        await cluster.names(BOB, "ml")
        for number in range(team_module.MOST_OF_USER + 2):
            await cluster.names(ALICE, f"n{number}")
            await asyncio.sleep(1)
        closed = [user for user, rest in cluster.made if rest.is_closed]
        assert closed == [ALICE, ALICE], "those that were read least recently"
        async with AsyncExitStack() as open_pages:
            for number in range(team_module.MOST_OF_USER):
                await open_pages.enter_async_context(cluster.team.read(ALICE, f"n{number}"))
            with pytest.raises(RequestRefused) as refused:
                await cluster.names(ALICE, "one-more")
            assert refused.value.status == HTTPStatus.SERVICE_UNAVAILABLE
            assert "pages of 6 namespaces open" in str(refused.value)
            await cluster.names(BOB, "other")

    played(cluster, test)


def test_all_who_read_with_the_rights_of_the_server_have_more_than_one_user():
    cluster = Cluster(most=team_module.MOST_OF_USER + 1)

    async def test() -> None:
        async with AsyncExitStack() as open_pages:
            for number in range(team_module.MOST_OF_USER + 1):
                await open_pages.enter_async_context(cluster.team.read(ActingUser(), f"n{number}"))
            with pytest.raises(RequestRefused, match="no room for one more"):
                await cluster.names(ActingUser(), "one-more")

    played(cluster, test)


def test_all_feeds_together_know_a_limited_number_of_objects():
    """Who is the only one is shown all jobs, however many there are."""
    cluster, carol = Cluster(most_objects=5), ActingUser("carol")
    cluster.rights = dict.fromkeys((ALICE, BOB, carol), ("ml", "other"))
    for number in range(2):
        cluster.jobs.create("PyTorchJob", f"more-{number}")

    async def test() -> None:
        async with cluster.team.read(ALICE, "ml") as feed:
            assert feed.size == 3
            await cluster.names(BOB, "other")
            with pytest.raises(RequestRefused, match="no room for one more"):
                await cluster.names(carol, "ml")  # which is expected to have three more
            assert [rest.is_closed for _, rest in cluster.made] == [False, True]
            await cluster.names(BOB, "other")
            for number in range(3):
                cluster.jobs.create("PyTorchJob", f"late-{number}")
            await asyncio.sleep(team_module.POLL_SECONDS + 1)
            assert [rest.is_closed for _, rest in cluster.made] == [False, True, True], "no user reads it"
        assert len(await cluster.names(carol, "ml")) == 6
        assert [user for user, rest in cluster.made if not rest.is_closed] == [carol]

    played(cluster, test)


def test_all_users_together_have_a_limited_number_of_feeds():
    cluster = Cluster(most=2)

    async def test() -> None:
        async with cluster.team.read(ALICE, "a"), cluster.team.read(BOB, "b"):
            with pytest.raises(RequestRefused, match="no room for one more"):
                await cluster.names(ActingUser("carol"), "c")
        await cluster.names(ActingUser("carol"), "c")
        assert [rest.is_closed for _, rest in cluster.made].count(True) == 1

    played(cluster, test)


def test_a_feed_answers_a_limited_number_of_requests_at_a_time():
    cluster = Cluster()

    async def test() -> None:
        async with AsyncExitStack() as open_pages:
            for _ in range(team_module.MOST_REQUESTS):
                await open_pages.enter_async_context(cluster.team.read(ALICE, "ml"))
            with pytest.raises(RequestRefused) as refused:
                await cluster.names(ALICE, "ml")
            assert refused.value.status == HTTPStatus.TOO_MANY_REQUESTS
            await cluster.names(BOB, "ml")
        await cluster.names(ALICE, "ml")
        assert len(cluster.made) == 2

    played(cluster, test)


@pytest.mark.parametrize("namespace", ["../x", "a/b", "A", "a" * 64, "-a", "a\n", "é"])
def test_what_is_no_name_of_a_namespace_asks_nobody(namespace: str):
    cluster = Cluster()

    async def test() -> None:
        with pytest.raises(RequestRefused):
            await cluster.names(ALICE, namespace)
        assert cluster.made == []

    played(cluster, test)


def test_a_feed_that_nobody_reads_ends_after_a_while_and_one_that_is_read_stays():
    cluster = Cluster()

    async def test() -> None:
        await cluster.names(ALICE, "ml")
        async with cluster.team.read(BOB, "ml"):
            await asyncio.sleep(team_module.IDLE + team_module.POLL_SECONDS + 1)
            assert [user for user, rest in cluster.made if rest.is_closed] == [ALICE]

    played(cluster, test)


def test_what_was_read_is_forgotten_within_the_time_of_a_watch_after_the_right_to_it():
    cluster = Cluster()
    cluster.rights[ALICE] = ("ml",)

    async def test() -> None:
        async with cluster.team.read(ALICE, "ml") as feed:
            assert [file.address.name for file in feed.files()] == ["secret"]
            cluster.rights.clear()
            async with asyncio.timeout(90):
                while not feed.is_over:
                    await feed.newer(feed.revision)
        assert await cluster.names(ALICE, "ml") == []

    played(cluster, test)
