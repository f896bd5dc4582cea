"""Objects that are larger than a line of a watch or a page of a list neither stop a watch nor fill the memory."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Mapping

import msgspec
import pytest

from support.virtual_time import clock, in_virtual_time
from trainshed.api import digest
from trainshed.api.objects import (
    AUTOSCALERS,
    CONFIG_MAPS,
    COSCHEDULING_GROUPS,
    JOB_TRACKING_FINALIZER,
    KUBERNETES_GROUPS,
    ROLE_BINDINGS,
    ROLES,
    VOLCANO_GROUPS,
)
from trainshed.api.quantities import parse_quantity
from trainshed.client import TooLarge
from trainshed.client.client import ApiClient
from trainshed.client.flow_control import TokenBucket
from trainshed.client.informer import Informer
from trainshed.client.lists import PAGE_BYTES, PAGE_SIZE, PODS, Decoder, dependent_decoder, event_head, list_pages
from trainshed.client.transport import Path
from trainshed.plan.dependents import covers

from .scripted_server import Listener, ScriptedServer, a_list, a_pod, after, event, listening, refused

RULE = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
META = {"name": "fat", "namespace": "ml", "uid": "u", "resourceVersion": "1"}
PADDING = {"spec": {"x": "<" * 5000}}


def a_large_event(what: str, version: int, *, head: bool) -> dict:
    """Return an event that is too long, with the metadata first, as for pods, or last, as they may be for jobs."""
    metadata = {"name": "fat", "namespace": "ml", "uid": "fat-uid", "resourceVersion": str(version)}
    return {"type": what, "object": {"metadata": metadata} | PADDING if head else PADDING | {"metadata": metadata}}


def a_large_pod(version: int) -> dict:
    pod = a_pod("fat", version)
    return {**pod, "metadata": pod["metadata"] | {"namespace": "ml"}}


#: What the server says of the object if it is asked for it alone.
READS = {
    "newer": (200, a_large_pod(13)),
    "equal": (200, a_large_pod(12)),
    "gone": refused(404),
    "older": (200, a_large_pod(7)),
}
READS |= {
    "another": (200, {"metadata": {"name": "fat", "uid": "other", "resourceVersion": "13"}}),
    "error": refused(500),
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("head", [True, False], ids=["head", "no head"])
@pytest.mark.parametrize("what", ["ADDED", "MODIFIED", "DELETED"])
def test_an_event_that_is_too_long_does_not_stop_the_watch(monkeypatch, what, head, read):
    monkeypatch.setattr("trainshed.client.transport.MAX_LINE_BYTES", 4000)
    there = read in ("newer", "equal", "older", "error") and what != "DELETED"
    at_the_end = a_list(20, "a", **({"fat": 13} if there else {}))
    first = [event("ADDED", "b", 11), a_large_event(what, 12, head=head), event("ADDED", "c", 15)]
    before = a_list(10, "a", **({} if what == "ADDED" else {"fat": 9}))
    server = ScriptedServer([before, at_the_end], [(None, first), (None, [event("ADDED", "c", 21)])])
    server.objects["fat"] = READS[read]
    listener, _ = after(server, 10)
    assert "c" in listener.known
    assert ("fat" in listener.known) is there
    assert len({query["resourceVersion"] for asked, _, query in server.asked if asked == "watch"}) == len(
        server.times("watch")
    ), "no watch begins again at the version whose event is too long"
    by_itself = head and (what == "DELETED" or read in ("newer", "equal", "gone", "another"))
    assert len(server.times("list")) == (1 if by_itself else 2)


def test_an_event_that_is_too_long_again_and_again_is_logged_once(monkeypatch, caplog):
    monkeypatch.setattr("trainshed.client.transport.MAX_LINE_BYTES", 4000)
    events = [a_large_event("MODIFIED", version, head=True) for version in range(11, 40)]
    server = ScriptedServer([a_list(10, "fat")], [(None, events)])
    server.objects["fat"] = (200, a_large_pod(50))
    listener, _ = after(server, 5)
    assert listener.known == {"fat": "50"}
    assert [record.levelname for record in caplog.records if "about ml/fat" in record.message] == ["WARNING"]
    assert len(server.times("list")) == len(server.times("watch")) == 1


def test_a_version_from_which_the_watch_fails_again_and_again_is_dropped():
    """Whatever the reason is: an event that a proxy or the server itself cannot send."""
    trouble = (0.1, [{"type": "ERROR", "object": {"code": 500, "message": "cannot encode"}}])
    server = ScriptedServer([a_list(10, "a")], [trouble])
    server.lists = [a_list(10, "a"), *[a_list(10, "a")] * 5, a_list(30, "a", "b")]
    listener, informer = after(server, 60)
    assert listener.known == {"a": "30", "b": "30"}
    assert "cannot encode" in informer.error
    assert failing_after(server, 60) < 30, "lists show what the watch does not"


def test_a_watch_and_lists_that_fail_are_seen_soon():
    server = ScriptedServer(
        [a_list(10, "a"), refused(500)], [(1, []), (0, [{"type": "ERROR", "object": {"code": 500}}])]
    )
    assert 30 < failing_after(server, 40) < 40
    assert failing_after(ScriptedServer([a_list(10, "a")], [(None, [])]), 40) == 0


def failing_after(server: ScriptedServer, seconds: float) -> float:
    """Return for how long the informer says that it fails, this number of seconds after its start."""

    async def story():
        async with listening(server) as (_, informer):
            await asyncio.sleep(seconds)
            return informer.failing(clock())

    return in_virtual_time(story())


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (
            b'{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"n","uid":"u","resourceVersion":"7","labels":{',
            "n/p",
        ),
        (
            b'{"type":"MODIFIED","object":{"kind":"Role","apiVersion":"rbac.authorization.k8s.io/v1","metadata":{"name":"p","generateName":"x-","namespace":"n","uid":"u","resourceVersion":"7"',
            "n/p",
        ),
        (
            b'{"type":"ADDED","object":{"apiVersion":"kubeflow.org/v1","kind":"TFJob","metadata":{"annotations":{"name":"x"',
            None,
        ),
        (b'{"type":"ADDED","object":{"metadata":{"name":"p\\","namespace":"n"', None),
        (b'{"type":"ADDED","object":{"spec":{"metadata":{"name":"p","uid":"u","resourceVersion":"7"}}', None),
        (b"", None),
    ],
    ids=range(6),
)
def test_the_beginning_of_an_event_says_which_object_it_is_about(line, name):
    head = event_head(line)
    assert (f"{head.namespace}/{head.name}" if head else None) == name


class Server:
    """Has objects of these sizes, in bytes, and answers with pages of them; `read` are the sizes of the pages sent."""

    def __init__(self, sizes: list[int]) -> None:
        self.sizes, self.sent, self.asked = sizes, [], []

    async def read_page(self, _path: Path, query: Mapping[str, str], most: int) -> bytes:
        start, limit = int(query.get("continue", "0")), int(query["limit"])
        items = [
            {"n": start + number, "x": "x" * size} for number, size in enumerate(self.sizes[start : start + limit])
        ]
        rest = start + limit < len(self.sizes)
        page = {"metadata": {"resourceVersion": "7", "continue": str(start + limit) if rest else ""}, "items": items}
        content = json.dumps(page).encode()
        self.asked.append(limit)
        if len(content) > most:
            raise TooLarge("too large")
        self.sent.append(len(content))
        return content


LARGE, SMALL = 9 * 1024 * 1024, 100


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "requests"),
    [
        ([SMALL] * 1200, 3),
        ([LARGE] * 6, 9),
        ([SMALL] * 700 + [LARGE] * 3 + [SMALL] * 700, 30),
        ([1_500_000] * 40, 25),
        ([], 1),
    ],
    ids=["small", "large", "some large", "jobs", "none"],
)
async def test_pages_have_few_bytes_however_large_the_objects_are(sizes, requests):
    server = Server(sizes)
    found = []
    async for page in list_pages(server, Path("/api/v1", "pods"), {}):
        found += [json.loads(bytes(item))["n"] for item in page.items]
    assert found == list(range(len(sizes)))
    assert max(server.sent) <= max(PAGE_BYTES, LARGE + 1000)
    assert len(server.asked) <= requests
    assert server.asked[0] == PAGE_SIZE


async def test_other_tasks_run_while_a_list_of_large_objects_is_decoded():
    def slow(found: dict, _content: object) -> dict:
        time.sleep(0.02)
        return found

    kind, turns = Decoder(msgspec.json.Decoder(dict), slow), []
    informer = Informer(Server([SMALL] * 20), Path("/api/v1", "pods"), kind, Listener())

    async def others() -> None:
        while True:
            turns.append(None)
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    items, _ = await informer._read(whole=False)
    task.cancel()
    assert len(items) == 20
    assert len(turns) >= 20


def written(document: dict) -> bytes:
    """Return a document as an API server writes it."""
    text = json.dumps(document, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    return text.replace("<", r"\u003c").encode()


MANY = {f"a{number}": "<" for number in range(50_000)}
NAMES = [f"mnist-worker-{number}" for number in range(30_000)]
#: Large parts of dependents, by the section that has them.
SECTIONS = {
    "a text": {"data": {"hosts": "<" * 500_000}},
    "keys": {"data": MANY},
    "bytes": {"binaryData": {"a": "A" * 500_000}},
    "rules": {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}] * 10_000},
    "names": {"rules": [RULE | {"resources": [what], "resourceNames": NAMES} for what in ("pods", "pods/exec")]},
    "nesting": {"spec": {"a": [json.loads("[" * 300 + "]" * 300)] * 50}},
    "other fields": {"secrets": [{"name": "a"}] * 50_000},
}


def size(found: object) -> int:
    """Return the bytes that a value of JSON takes in memory, without counting a part twice."""
    parts = [*found, *found.values()] if isinstance(found, dict) else found if isinstance(found, list) else ()
    return sys.getsizeof(found) + sum(map(size, parts))


@pytest.mark.parametrize("what", SECTIONS)
def test_little_is_kept_of_a_large_dependent(what):
    found = dependent_decoder(CONFIG_MAPS).item(json.dumps({"metadata": META, **SECTIONS[what]}).encode())
    assert found.name == "fat"
    assert size(found.document) < 20_000


@pytest.mark.parametrize("field", ["labels", "annotations"])
def test_little_is_kept_of_large_metadata(field):
    for texts in (MANY, {f"a{number}": "<" * 5000 for number in range(50)}):
        found = dependent_decoder(CONFIG_MAPS).item(written({"metadata": META | {field: texts}}))
        assert size(found.document) < 20_000
        assert covers(found.document["metadata"][field], texts)
        assert not covers(found.document["metadata"][field], {"a1": "other"})


@pytest.mark.parametrize("what", ["a text", "keys", "rules", "names"])
def test_a_large_dependent_is_compared_with_what_is_wanted(what):
    wanted = SECTIONS[what]
    actual = {"metadata": META, **json.loads(json.dumps(wanted))}
    (section,) = wanted
    assert covers(dependent_decoder(CONFIG_MAPS).item(written(actual)).document, wanted)
    changed = actual[section][1:] if section == "rules" else actual[section] | {next(iter(wanted[section])): "x"}
    assert not covers(dependent_decoder(CONFIG_MAPS).item(written(actual | {section: changed})).document, wanted)
    if what == "names":
        changed = [*actual["rules"][:1], actual["rules"][1] | {"resourceNames": NAMES[1:]}]
        assert not covers(dependent_decoder(CONFIG_MAPS).item(written(actual | {section: changed})).document, wanted)


def metric(amount: str, **empty: object) -> dict:
    target = {"type": "AverageValue", "averageValue": amount} | empty
    return {"type": "External", "external": {"metric": {"name": "queue"} | empty, "target": target}}


def amounts(amount: str) -> dict:
    return {f"example.com/{number}-{'x' * 40}": amount for number in range(300)}


#: Large dependents of each kind, as they are written, and as a server returns them.
REWRITTEN = {
    CONFIG_MAPS: ({"data": {"hosts": "hh\n" * 9000, "note": ""}}, {"data": {"hosts": "hh\n" * 9000, "note": ""}}),
    ROLES: ({"rules": [RULE | {"resourceNames": []}] * 300}, {"rules": [RULE] * 300}),
    ROLE_BINDINGS: ({"subjects": [{"name": "a" * 99, "apiGroup": ""}] * 99}, {"subjects": [{"name": "a" * 99}] * 99}),
    AUTOSCALERS: (
        {"spec": {"maxReplicas": 3, "metrics": [metric("1000m", selector={}), metric("0.5"), metric("1e3")] * 60}},
        {"spec": {"minReplicas": 1, "maxReplicas": 3, "metrics": [metric("1"), metric("500m"), metric("1k")] * 60}},
    ),
}
REWRITTEN |= dict.fromkeys(
    (VOLCANO_GROUPS, COSCHEDULING_GROUPS, KUBERNETES_GROUPS),
    (
        {"spec": {"minMember": 4, "minResources": amounts("1000m")}},
        {"spec": {"minMember": 4, "minResources": amounts("1"), "priority": 0}, "status": {"phase": "Running"}},
    ),
)


@pytest.mark.parametrize("resource", REWRITTEN, ids=lambda resource: resource.api_version + resource.plural)
def test_a_large_dependent_that_the_server_writes_otherwise_does_not_differ(resource):
    wanted, actual = REWRITTEN[resource]
    padded = {"metadata": META | {"annotations": {"note": "n" * 16_384}}, **actual}
    found = dependent_decoder(resource).item(json.dumps(padded).encode())
    assert covers(found.document, wanted) is True
    text = json.dumps(wanted)
    for changed in ("1000m", "1001m"), ("get", "list"), ("aa", "ab"), ("hh", "hi"):
        text = text.replace(*changed)
    assert covers(found.document, json.loads(text)) is False


@pytest.mark.parametrize("fields", [["resourceNames"], ["verbs", "apiGroups", "resources"]], ids=["one", "three"])
def test_few_of_many_lists_of_numbers_are_rewritten_and_all_are_compared(fields, monkeypatch):
    """The bound of the values that are rewritten holds for all parts of an object together."""
    rewritten = []

    def parsed(value: object) -> object:
        rewritten.append(value)
        return parse_quantity(value)

    monkeypatch.setattr(digest, "parse_quantity", parsed)
    rules = [dict.fromkeys(fields, ["1"] * 1000)] * 80
    kind, content = dependent_decoder(ROLES), written({"metadata": META, "rules": rules})
    found = kind.item(content).document
    assert len(rewritten) <= 2 * digest.MOST_AMOUNTS
    assert covers(found, {"rules": rules})
    assert not covers(found, {"rules": [*rules[1:], rules[0] | {fields[0]: ["2", *["1"] * 999]}]})


def test_what_others_add_to_a_large_config_map_is_not_a_difference():
    wanted = SECTIONS["a text"]
    actual = {"metadata": META, "data": wanted["data"] | {"other": "y" * 5000}}
    assert covers(dependent_decoder(CONFIG_MAPS).item(json.dumps(actual).encode()).document, wanted)


@pytest.mark.parametrize(
    ("others", "kept", "has"), [(0, 0, True), (64, 64, True), (65, 64, False), (50_000, 64, False)]
)
def test_few_finalizers_of_a_pod_are_kept_and_none_is_cut(others, kept, has):
    names = [f"{'a' * 250}.b/{'c' * 58}{number}" for number in range(others)]
    found = PODS.item(json.dumps({"metadata": META | {"finalizers": [*names, JOB_TRACKING_FINALIZER]}}).encode())
    assert (list(found.finalizers), found.has_finalizer) == (names[:kept], has)


class Events:
    """A server with Events without end, each of them as large as it can be."""

    def __init__(self) -> None:
        self.pages = 0

    async def read_page(self, _path: Path, query: Mapping[str, str], _most: int) -> bytes:
        self.pages += 1
        event = {"metadata": META | {"annotations": {"a": "<" * 5000}}, "message": "m", "lastTimestamp": "t", "x": "y"}
        items = [event] * int(query["limit"])
        return json.dumps({"metadata": {"resourceVersion": "1", "continue": f"c{self.pages}"}, "items": items}).encode()


@pytest.mark.slow
async def test_not_all_events_are_read_and_only_what_is_needed_of_them():
    server = Events()
    found = []
    await ApiClient(server, TokenBucket()).read_events("ml", "PodGroup", found.append)
    assert len(found) <= 21_000
    assert found[0] == {"message": "m", "lastTimestamp": "t"}
