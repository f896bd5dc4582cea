"""The feeds of a team: who reads one keeps it, and one that has failed is begun again."""

from __future__ import annotations

import asyncio

import pytest

from support.pages import Jobs
from support.virtual_time import in_virtual_time
from trainshed.ui.feed import Feed
from trainshed.ui.proxy_headers import ActingUser
from trainshed.ui.team import IDLE, POLL_SECONDS, Team

ANN, BOB = ActingUser("ann"), ActingUser("bob")


def team_of(jobs: Jobs) -> Team[Feed]:
    return Team(lambda _: jobs.reader.rest, lambda feed, _: feed, 10)


def test_a_feed_that_is_read_again_while_another_ends_goes_on():
    async def story() -> None:
        team = team_of(Jobs())
        for user in (ANN, BOB):
            async with team.read(user, "ml"):
                pass
        first, _ = team._feeds.values()
        close = first.close

        async def slowly() -> None:
            await asyncio.sleep(2 * POLL_SECONDS)
            await close()

        first.close = slowly
        keeping = asyncio.create_task(team.run())
        await asyncio.sleep(IDLE + POLL_SECONDS + 5)
        assert list(team._feeds) == [(BOB, "ml")]
        async with team.read(BOB, "ml") as feed:
            await asyncio.sleep(4 * POLL_SECONDS)
            assert not feed.is_over
        assert not keeping.done()
        keeping.cancel()
        await team.close()

    in_virtual_time(story())


def test_a_feed_that_fails_is_over_and_the_next_reader_has_another(monkeypatch: pytest.MonkeyPatch):
    async def failing(_: Feed) -> None:
        raise ValueError("a document that cannot be")

    async def story() -> None:
        team = team_of(Jobs())
        with monkeypatch.context() as patch:
            patch.setattr(Feed, "run", failing)
            async with team.read(ANN, "ml") as feed:
                assert feed.is_over
        async with team.read(ANN, "ml") as feed:
            assert feed.synced.is_set()
            assert not feed.is_over
        await team.close()

    in_virtual_time(story())
