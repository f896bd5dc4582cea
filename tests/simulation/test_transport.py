"""Whatever happens to a request, an answer or a line of a watch on its way, happens to the production code as well."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Iterator

import orjson
import pytest

from simulation.faults import RESET, Ending, Fate, Passage, error_event, refusal
from simulation.loop import PROCESS, VirtualLoop
from simulation.server import Server
from simulation.transport import Line
from trainshed import client
from trainshed.client.transport import Path, RestClient

MAPS = Path("/api/v1", "configmaps", "ml")
ONE = Path("/api/v1", "configmaps", "ml", "one")
BODY = {"metadata": {"name": "one"}, "data": {"key": "x"}}


class Storm:
    """Gives each exchange and each line the fate that the test wants."""

    def __init__(self) -> None:
        self.fates: list[Fate] = []
        self.passages: list[Passage] = []

    def exchange(self, _process, _request) -> Fate:
        return self.fates.pop(0) if self.fates else Fate()

    def line(self, _process, _path, _line) -> Passage:
        return self.passages.pop(0) if self.passages else Passage()


class Scene:
    """A server, and the production's wire to it."""

    def __init__(self) -> None:
        self.loop, self.storm = VirtualLoop(), Storm()
        self.server = Server(self.loop.time)
        self.server.make_namespace("ml")
        self.line = Line(self.loop, self.server, self.storm, "a", "operator")
        self.wire = RestClient(self.line)

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
    ("fate", "error", "carried_out"),
    [
        (Fate(instead=refusal(409, "Conflict")), client.Conflict, False),
        (Fate(instead=refusal(429, "TooManyRequests", wait="7")), client.TooManyRequests, False),
        (Fate(instead=refusal(503, "ServiceUnavailable")), client.Unavailable, False),
        (Fate(instead=RESET), client.Unavailable, False),
        (Fate(lost=refusal(504, "Timeout")), client.Unavailable, True),
        (Fate(lost=RESET), client.Unavailable, True),
        (Fate(before=None), client.Unavailable, False),
        (Fate(after=None), client.Unavailable, True),
        (Fate(before=31), client.Unavailable, True),
    ],
)
def test_a_request_may_fail_before_or_after_it_is_carried_out(scene, fate, error, carried_out):
    scene.storm.fates = [fate]

    async def story():
        with pytest.raises(error) as raised:
            await scene.wire.call("POST", MAPS, BODY)
        await asyncio.sleep(60)
        return raised.value

    found = scene.run(story)
    assert scene.there() is carried_out
    assert scene.loop.time() <= 1000 + 30 + 60 + 0.1, "nobody waits for ever"
    if isinstance(found, client.TooManyRequests):
        assert found.wait == 7


def test_a_body_that_is_cut_is_no_document(scene):
    scene.storm.fates = [Fate(cut=10)]

    async def story():
        return await scene.wire.call("POST", MAPS, BODY)

    with pytest.raises(orjson.JSONDecodeError):
        orjson.loads(scene.run(story))


def test_a_list_may_be_an_old_one(scene):
    scene.make()
    then = scene.server.storage.version
    scene.server.request("user", "DELETE", str(ONE))
    scene.storm.fates = [Fate(behind=then)]

    async def story():
        return [len(orjson.loads(await scene.wire.call("GET", MAPS))["items"]) for _ in range(2)]

    assert scene.run(story) == [1, 0]


def watched(scene: Scene, happens: Callable[[], None], seconds: float = 400) -> tuple[list, str, float]:
    """What a watch tells, how it ends, and after how long."""
    told: list = []

    async def story():
        began = scene.loop.time()
        query = {"watch": "true", "resourceVersion": str(scene.server.storage.version), "timeoutSeconds": "300"}
        scene.loop.call_later(1, happens)
        try:
            async with asyncio.timeout(seconds):
                async for line in scene.wire.watch(MAPS, query | {"allowWatchBookmarks": "true"}):
                    if line:
                        found = orjson.loads(line)
                        told.append((found["type"], found["object"]["metadata"].get("name", "")))
        except client.Unavailable:
            return "broken", scene.loop.time() - began
        return "ended", scene.loop.time() - began

    how, when = scene.run(story)
    return told, how, when


def test_a_watch_tells_in_order_and_ends_when_it_was_asked_to(scene):

    def happens() -> None:
        for name in ("one", "two"):
            scene.make(name)
        scene.server.request("user", "DELETE", str(ONE))

    told, how, when = watched(scene, happens)
    assert told == [("ADDED", "one"), ("ADDED", "two"), ("DELETED", "one"), *[("BOOKMARK", "")] * 4]
    assert how == "ended"
    assert when == pytest.approx(300, abs=0.1)


@pytest.mark.parametrize(
    ("passage", "told", "how", "when"),
    [
        (Passage(times=3), [("ADDED", "one")] * 3, "ended", 300),
        (Passage(times=0, end=Ending(error_event(410, "Expired"))), [("ERROR", "")], "ended", 1),
        (Passage(end=Ending(broken=True)), [("ADDED", "one")], "broken", 1),
        (Passage(end=Ending()), [("ADDED", "one")], "ended", 1),
        (Passage(end=Ending(silent=True)), [("ADDED", "one")], "broken", 91),
        (Passage(delay=20), [("ADDED", "one")], "ended", 300),
    ],
)
def test_a_watch_may_stutter_skip_break_fall_silent_or_be_late(scene, passage, told, how, when):
    scene.storm.passages = [passage]
    found, ended, after = watched(scene, scene.make)
    assert [line for line in found if line[0] != "BOOKMARK"] == told
    assert ended == how
    assert after == pytest.approx(when, abs=0.1)


def test_what_is_kept_back_comes_later_and_in_order(scene):

    def happens() -> None:
        (feed,) = scene.line.feeds
        feed.hold()
        scene.make("one")
        scene.make("two")
        scene.loop.call_later(30, feed.release)

    told, _, _ = watched(scene, happens)
    assert [line for line in told if line[0] != "BOOKMARK"] == [("ADDED", "one"), ("ADDED", "two")]


@pytest.mark.parametrize("arrives", [True, False])
def test_when_a_process_vanishes_what_is_on_its_way_may_arrive_or_not_and_nothing_else_does(scene, arrives):
    scene.storm.fates = [Fate(before=5), Fate(before=5)]
    context = contextvars.copy_context()
    context.run(PROCESS.set, "a-1")

    async def process() -> None:
        try:
            await scene.wire.call("POST", MAPS, BODY)
        finally:
            await scene.wire.call("POST", MAPS, {"metadata": {"name": "too-late"}})

    context.run(scene.loop.create_task, process())
    scene.loop.run_for(1)
    scene.line.fall(lambda _request: arrives)
    scene.loop.vanish("a-1")
    scene.loop.run_for(60)
    assert scene.there() is arrives
    assert scene.server.object("/api/v1/namespaces/ml/configmaps/too-late") is None
