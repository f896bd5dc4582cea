"""Jobs are followed: each deletion is reported, also of a job that went while no watch was there."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest
from aiohttp import web

from support.virtual_time import in_virtual_time
from trainshed.client import UNAUTHORIZED, ApiError, Forbidden, Unavailable
from trainshed.client.job_watch import Followed, changes
from trainshed.client.lists import PARTS, Decoder, job_document
from trainshed.client.transport import Path, RestClient

from .scripted_server import GONE, ScriptedServer, a_list, connected, event, refused

NAMES: Decoder[tuple[str, str]] = Decoder(
    PARTS, lambda found, _: ((meta := job_document(found)["metadata"])["uid"], meta["name"])
)
PODS = Followed(Path("/api/v1", "pods"), NAMES, {"a-uid": "a"})
ENDLESS = (None, [])


def followed(server: ScriptedServer, *kinds: Followed[str], seconds: float = 60) -> tuple[list, list[str]]:
    """What changes within some seconds, with the error at the end, and what is said."""
    found: list = []
    said: list[str] = []

    async def read(rest: RestClient) -> None:
        async with asyncio.timeout(seconds), aclosing(changes(rest, kinds or [PODS], {}, said.append)) as all_changes:
            async for change in all_changes:
                job, deleted = change.item, change.deleted
                found.append((job, deleted))

    async def story() -> None:
        async with connected(server) as rest:
            try:
                await read(rest)
            except ApiError as error:
                found.append(error)
            except TimeoutError:
                pass

    in_virtual_time(story())
    return found, said


@pytest.mark.parametrize(
    ("lists", "watches", "found"),
    [
        ([a_list(5, "a")], [(None, [event("DELETED", "a", 7)])], [("a", False), ("a", True)]),
        ([a_list(5)], [ENDLESS], [("a", True)]),
        ([a_list(5, "b")], [ENDLESS], [("a", True), ("b", False)]),
        ([a_list(5, "a")], [(2, []), (None, [event("DELETED", "a", 7)])], [("a", False), ("a", True)]),
        ([a_list(5, "a"), a_list(9)], [(2, [GONE]), ENDLESS], [("a", False), ("a", True)]),
        ([refused(503), refused(429), a_list(5)], [ENDLESS], [("a", True)]),
        ([refused(404)], [ENDLESS], [("a", True)]),
    ],
    ids=["in a watch", "before the list", "another one", "between watches", "expired", "outage", "without its CRD"],
)
def test_each_deletion_is_reported(lists, watches, found):
    server = ScriptedServer(lists, watches)
    assert followed(server)[0] == found
    for what, _, query in server.asked:
        assert what != "watch" or (query["allowWatchBookmarks"], query["resourceVersion"] != "") == ("true", True)


@pytest.mark.parametrize(
    ("answer", "error", "reason", "seconds"),
    [(refused(403), Forbidden, "Forbidden", 0), (refused(401), Unavailable, UNAUTHORIZED, 10)],
)
def test_an_error_that_waiting_does_not_mend_ends_it(answer, error, reason, seconds):
    server = ScriptedServer([answer], [ENDLESS])
    (found,), said = followed(server)
    assert (type(found), found.reason, said) == (error, reason, [])
    assert server.asked[-1][1] - server.asked[0][1] <= seconds


def test_a_kind_that_may_not_be_read_is_left_out():
    class TwoKinds(ScriptedServer):
        async def answer(self, request):
            return web.json_response({}, status=403) if "secrets" in request.path else await super().answer(request)

    other = Followed(Path("/api/v1", "secrets"), NAMES, {})
    found, (said,) = followed(TwoKinds([a_list(5, "a")], [ENDLESS]), other, PODS)
    assert found == [("a", False)]
    assert said.startswith("Not watched:")


def test_a_long_outage_is_reported_once_and_a_short_one_never():
    short = ScriptedServer([refused(503), a_list(5, "a")], [(0.5, []), (1, []), ENDLESS])
    assert followed(short, seconds=200) == ([("a", False)], [])
    found, (said,) = followed(ScriptedServer([refused(503)], [ENDLESS]), seconds=200)
    assert found == []
    assert said == "The API server does not answer as it should: 503: 503 by mood. Trying again."


PAGES_WITHOUT_END = [a_list(5, continue_token="a")] * 2
BROKEN = (0, [{"type": "ERROR", "object": {"kind": "Status", "code": 500, "message": "etcd is full"}}])


@pytest.mark.parametrize(
    ("lists", "watches", "why"),
    [
        (PAGES_WITHOUT_END, [ENDLESS], "the list of pods has no end: a page is followed by itself"),
        ([a_list(5, "a")], [BROKEN], "etcd is full"),
        ([a_list(5, "a")], [(0, [{"type": "ERROR", "object": {}}])], "error 0"),
    ],
)
def test_a_server_that_answers_to_no_use_is_reported_once(lists, watches, why):
    _, said = followed(ScriptedServer(lists, watches), seconds=200)
    assert said == [f"The API server does not answer as it should: {why}. Trying again."]


def test_an_outage_after_a_calm_time_is_reported_again():
    late = [*([(0.5, [])] * 2), (100, [event("ADDED", "a", 7)]), BROKEN]
    outage = [refused(503)] * 8
    server = ScriptedServer([*outage, a_list(5, "a")], late)
    _, said = followed(server, seconds=400)
    assert [text.partition("should: ")[2] for text in said] == [
        "503: 503 by mood. Trying again.",
        "etcd is full. Trying again.",
    ]
