"""Each fault of the network reaches the production client: requests, responses, and lines of a watch."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Iterator

import orjson
import pytest

from simulation.custom_resources import whole_server
from simulation.transport import (
    RESET,
    EventOutcome,
    RequestOutcome,
    SimulatedTransport,
    StreamEnd,
    error_event,
    error_response,
)
from support.virtual_time import PROCESS, VirtualTimeLoop
from trainshed import client
from trainshed.client.transport import Path, RestClient

MAPS = Path("/api/v1", "configmaps", "ml")
ONE = Path("/api/v1", "configmaps", "ml", "one")
BODY = {"metadata": {"name": "one"}, "data": {"key": "x"}}


class ScriptedNetwork:
    """Gives each request and each line the outcome that the test sets."""

    def __init__(self) -> None:
        self.requests: list[RequestOutcome] = []
        self.lines: list[EventOutcome] = []

    def exchange(self, _process, _request) -> RequestOutcome:
        return self.requests.pop(0) if self.requests else RequestOutcome()

    def line(self, _process, _path, _line) -> EventOutcome:
        return self.lines.pop(0) if self.lines else EventOutcome()


class Scene:
    """A server, and the production client."""

    def __init__(self) -> None:
        self.loop, self.network = VirtualTimeLoop(), ScriptedNetwork()
        self.server = whole_server(self.loop.time)
        self.server.make_namespace("ml")
        self.transport = SimulatedTransport(self.loop, self.server, self.network, "a", "operator")
        self.client = RestClient(self.transport)

    def run(self, story: Callable):
        return self.loop.run_until_complete(story())

    def make(self, name: str = "one") -> None:
        body = {"metadata": {"name": name}}
        self.server.request("user", "POST", "/api/v1/namespaces/ml/configmaps", body=body)

    def there(self) -> bool:
        return self.server.object(str(ONE)) is not None


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    yield scene
    scene.loop.close()


@pytest.mark.parametrize(
    ("outcome", "error", "executed"),
    [
        (RequestOutcome(instead=error_response(409, "Conflict")), client.Conflict, False),
        (
            RequestOutcome(instead=error_response(429, "TooManyRequests", retry_after="7")),
            client.TooManyRequests,
            False,
        ),
        (RequestOutcome(instead=error_response(503, "ServiceUnavailable")), client.Unavailable, False),
        (RequestOutcome(instead=RESET), client.Unavailable, False),
        (RequestOutcome(lost=error_response(504, "Timeout")), client.Unavailable, True),
        (RequestOutcome(lost=RESET), client.Unavailable, True),
        (RequestOutcome(before=None), client.Unavailable, False),
        (RequestOutcome(after=None), client.Unavailable, True),
        (RequestOutcome(before=31), client.Unavailable, True),
    ],
)
def test_a_request_may_fail_before_or_after_it_is_executed(scene, outcome, error, executed):
    scene.network.requests = [outcome]

    async def story():
        with pytest.raises(error) as raised:
            await scene.client.call("POST", MAPS, BODY)
        await asyncio.sleep(60)
        return raised.value

    found = scene.run(story)
    assert scene.there() is executed
    assert scene.loop.time() <= 1000 + 30 + 60 + 0.1, "the client gives up"
    if isinstance(found, client.TooManyRequests):
        assert found.wait == 7


def test_a_body_that_is_cut_is_no_document(scene):
    scene.network.requests = [RequestOutcome(cut=10)]

    async def story():
        return await scene.client.call("POST", MAPS, BODY)

    with pytest.raises(orjson.JSONDecodeError):
        orjson.loads(scene.run(story))


def test_a_list_may_be_an_old_one(scene):
    scene.make()
    then = scene.server.store.version
    scene.server.request("user", "DELETE", str(ONE))
    scene.network.requests = [RequestOutcome(behind=then)]

    async def story():
        return [len(orjson.loads(await scene.client.call("GET", MAPS))["items"]) for _ in range(2)]

    assert scene.run(story) == [1, 0]


def watched(scene: Scene, happens: Callable[[], None], seconds: float = 400) -> tuple[list, str, float]:
    """Return the events of a watch, how it ends, and after how many seconds."""
    events: list = []

    async def story():
        began = scene.loop.time()
        query = {"watch": "true", "resourceVersion": str(scene.server.store.version), "timeoutSeconds": "300"}
        scene.loop.call_later(1, happens)
        try:
            async with asyncio.timeout(seconds):
                async for line in scene.client.watch(MAPS, query | {"allowWatchBookmarks": "true"}):
                    if line:
                        found = orjson.loads(line)
                        events.append((found["type"], found["object"]["metadata"].get("name", "")))
        except client.Unavailable:
            return "broken", scene.loop.time() - began
        return "ended", scene.loop.time() - began

    how, when = scene.run(story)
    return events, how, when


def test_a_watch_sends_events_in_order_and_ends_at_its_timeout(scene):

    def happens() -> None:
        for name in ("one", "two"):
            scene.make(name)
        scene.server.request("user", "DELETE", str(ONE))

    events, how, when = watched(scene, happens)
    assert events == [("ADDED", "one"), ("ADDED", "two"), ("DELETED", "one"), *[("BOOKMARK", "")] * 4]
    assert how == "ended"
    assert when == pytest.approx(300, abs=0.1)


@pytest.mark.parametrize(
    ("outcome", "events", "how", "when"),
    [
        (EventOutcome(times=3), [("ADDED", "one")] * 3, "ended", 300),
        (EventOutcome(times=0, end=StreamEnd(error_event(410, "Expired"))), [("ERROR", "")], "ended", 1),
        (EventOutcome(end=StreamEnd(broken=True)), [("ADDED", "one")], "broken", 1),
        (EventOutcome(end=StreamEnd()), [("ADDED", "one")], "ended", 1),
        (EventOutcome(end=StreamEnd(silent=True)), [("ADDED", "one")], "broken", 91),
        (EventOutcome(delay=20), [("ADDED", "one")], "ended", 300),
    ],
)
def test_a_watch_may_duplicate_or_lose_events_break_be_silent_or_be_late(scene, outcome, events, how, when):
    scene.network.lines = [outcome]
    found, ended, after = watched(scene, scene.make)
    assert [line for line in found if line[0] != "BOOKMARK"] == events
    assert ended == how
    assert after == pytest.approx(when, abs=0.1)


def test_the_lines_of_a_paused_watch_arrive_later_and_in_order(scene):

    def happens() -> None:
        (stream,) = scene.transport.streams
        stream.pause()
        scene.make("one")
        scene.make("two")
        scene.loop.call_later(30, stream.resume)

    events, _, _ = watched(scene, happens)
    assert [line for line in events if line[0] != "BOOKMARK"] == [("ADDED", "one"), ("ADDED", "two")]


@pytest.mark.parametrize("arrives", [True, False])
def test_when_a_process_is_killed_its_requests_in_flight_may_arrive_and_nothing_else_does(scene, arrives):
    scene.network.requests = [RequestOutcome(before=5), RequestOutcome(before=5)]
    context = contextvars.copy_context()
    context.run(PROCESS.set, "a-1")

    async def process() -> None:
        try:
            await scene.client.call("POST", MAPS, BODY)
        finally:
            await scene.client.call("POST", MAPS, {"metadata": {"name": "too-late"}})

    context.run(scene.loop.create_task, process())
    scene.loop.run_for(1)
    scene.transport.disconnect(lambda _request: arrives)
    scene.loop.kill("a-1")
    scene.loop.run_for(60)
    assert scene.there() is arrives
    assert scene.server.object("/api/v1/namespaces/ml/configmaps/too-late") is None
