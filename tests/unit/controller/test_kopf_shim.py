"""kopf handles events of the jobs and nothing else, and stores nothing."""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
from collections.abc import Callable

import aiohttp
import kopf
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from trainshed.api.job import JobKey
from trainshed.client import lists
from trainshed.client.credentials import Credentials
from trainshed.controller import kopf_shim
from trainshed.frameworks import FRAMEWORKS, served

CREDENTIALS = Credentials(server="https://example.test", token="secret")


@pytest.fixture
def woken() -> list[tuple[JobKey, str]]:
    return []


@pytest.fixture
def found(woken) -> kopf.OperatorRegistry:
    return kopf_shim.registry(FRAMEWORKS, CREDENTIALS, lambda key, version: woken.append((key, version)))


def test_kopf_has_one_event_handler_per_kind_and_no_others(found):
    events = found._watching.get_all_handlers()
    assert sorted(str(handler.selector.any_name or handler.selector.plural) for handler in events) == sorted(
        framework.plural for framework in FRAMEWORKS
    )
    for others in (found._changing, found._spawning, found._indexing, found._webhooks):
        assert list(others.get_all_handlers()) == [], "such handlers would write to users' jobs or keep stale copies"


def test_kopf_watches_the_served_version():
    found = kopf_shim.registry(served("v2beta1"), CREDENTIALS, lambda _key, _version: None)
    selectors = [handler.selector for handler in found._watching.get_all_handlers()]
    versions = {str(selector.any_name or selector.plural): selector.version for selector in selectors}
    assert versions["mpijobs"] == "v2beta1"
    assert {version for plural, version in versions.items() if plural != "mpijobs"} == {"v1"}


async def test_an_event_enqueues_the_job_and_returns_nothing(found, woken):
    (handler,) = [found for found in found._watching.get_all_handlers() if "tfjobs" in str(found.selector)]
    result = await handler.fn(namespace="ml", name="mnist", meta={"resourceVersion": "7"})
    assert result is None, "kopf would write it into the status"
    assert woken == [(JobKey("ml", "TFJob", "mnist"), "7")]


async def test_kopf_is_configured_not_to_write_and_not_to_kill_the_process(found):
    settings = kopf.OperatorSettings()
    (startup,) = [handler for handler in found._activities.get_all_handlers() if "configure" in str(handler.id)]
    await startup.fn(settings=settings)
    assert isinstance(settings.persistence.diffbase_storage, kopf_shim.NoDiffs)
    assert isinstance(settings.persistence.progress_storage, kopf_shim.NoProgress)
    assert settings.peering.standalone
    assert settings.scanning.disabled
    assert not settings.posting.enabled
    assert settings.process.ultimate_exiting_timeout is None
    for _ in range(2):
        waits = list(itertools.islice(settings.networking.error_backoffs, 100))
        assert len(waits) == 100, "outages may be long and frequent"
    assert not logging.getLogger("kopf.objects").isEnabledFor(logging.ERROR)


async def test_kopf_watches_only_metadata_with_the_operators_token_and_follows_no_redirect():
    asked = []

    async def answer(request: web.Request) -> web.Response:
        asked.append((request.query_string, request.headers["Accept"], request.headers["Authorization"]))
        if request.path == "/elsewhere":
            raise web.HTTPFound("/")
        return web.json_response({})

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    async with TestServer(app) as server:
        credentials = Credentials(server=str(server.make_url("")), token="secret")
        registry = kopf_shim.registry(FRAMEWORKS, credentials, lambda _key, _version: None)
        (login,) = [handler for handler in registry._activities.get_all_handlers() if "login" in str(handler.id)]
        known = await login.fn()
        async with known.aiohttp_session as session:
            for query in ("", "?watch=true"):
                await session.get(server.make_url(f"/apis{query}"))
            with pytest.raises(aiohttp.ClientConnectionError, match="redirect"):
                await session.get(server.make_url("/elsewhere"))
    assert known.server == credentials.server
    assert [(query, "PartialObjectMetadata" in accept, token) for query, accept, token in asked] == [
        ("", False, "Bearer secret"),
        ("watch=true", True, "Bearer secret"),
        ("", False, "Bearer secret"),
    ]


async def test_kopf_reads_a_rejected_token_again(tmp_path):
    file = tmp_path / "token"
    file.write_text("old")

    async def reject(_request: web.Request) -> web.Response:
        file.write_text("new")
        return web.json_response({}, status=401)

    app = web.Application()
    app.router.add_get("/apis", reject)
    async with TestServer(app) as server:
        made = kopf_shim._session(Credentials(server=str(server.make_url("")), token_file=str(file)))
        async with made.aiohttp_session as session:
            answers = [await session.get(server.make_url("/apis")) for _ in range(2)]
    assert [answer.request_info.headers["Authorization"] for answer in answers] == ["Bearer old", "Bearer new"]


async def test_kopf_lists_only_metadata_in_small_pages():
    """Its parsed copy of ten thousand large jobs would not fit into memory."""
    asked = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.headers["Accept"])
        return web.Response(body=b'{"kind":"PartialObjectMetadataList","items":null}')

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    settings = kopf.OperatorSettings()
    kopf_shim._configure(settings)
    assert settings.watching.chunk_size <= 100
    async with TestServer(app) as server:
        made = kopf_shim._session(Credentials(server=str(server.make_url(""))))
        async with made.aiohttp_session as session:
            response = await session.get(server.make_url(f"/jobs?limit={settings.watching.chunk_size}"))
            assert (await response.json(content_type=None))["items"] == []
    assert ["PartialObjectMetadataList" in accept for accept in asked] == [True]


@pytest.mark.parametrize(("sizes", "requests"), [([1] * 120, 3), ([15_000] * 40, 25), ([90_000] * 3, 7)])
async def test_the_pages_of_kopfs_lists_have_few_bytes_however_large_the_jobs_are(monkeypatch, sizes, requests):
    monkeypatch.setattr(lists, "PAGE_BYTES", 80_000)
    asked, read, pages = [], [], {}

    async def answer(request: web.Request) -> web.Response:
        start, limit = int(request.query.get("continue", "0")), int(request.query["limit"])
        asked.append(limit)
        page = [
            {"metadata": {"name": f"j{start + n}", "labels": {"a": "x" * size}}}
            for n, size in enumerate(sizes[start : start + limit])
        ]
        rest = {"continue": str(start + limit)} if start + limit < len(sizes) else {}
        pages[start] = json.dumps({"metadata": rest, "items": page})
        return web.json_response(text=pages[start])

    app = web.Application()
    app.router.add_get("/jobs", answer)
    async with TestServer(app) as server:
        made = kopf_shim._session(Credentials(server=str(server.make_url(""))))
        async with made.aiohttp_session as session:
            query = {"limit": str(kopf_shim.PAGE_SIZE)}
            while not read or "continue" in query:
                response = await session.get(server.make_url("/jobs").with_query(query))
                found = await response.json()
                assert len(response._body) < 20_000
                read += [item["metadata"]["name"] for item in found["items"]]
                query = {"limit": str(kopf_shim.PAGE_SIZE)} | found["metadata"]
    assert read == [f"j{n}" for n in range(len(sizes))]
    assert len(asked) <= requests
    assert max(map(len, pages.values())) <= max(lists.PAGE_BYTES, max(sizes) + 1000)


async def test_more_than_a_page_is_not_read():
    sent = []

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        if int(request.query["limit"]) > 1:
            with contextlib.suppress(ConnectionError):
                for _ in range(200):
                    await response.write(b" " * 1_000_000)
                    sent.append(1_000_000)
        await response.write(b'{"items":[]}')
        return response

    app = web.Application()
    app.router.add_get("/jobs", answer)
    async with TestServer(app) as server:
        made = kopf_shim._session(Credentials(server=str(server.make_url(""))))
        async with made.aiohttp_session as session:
            assert await (await session.get(server.make_url("/jobs?limit=50"))).json(content_type=None) == {"items": []}
    assert sum(sent) < 4 * lists.PAGE_BYTES


def test_the_storages_store_nothing():
    body, patch = kopf.Body({"metadata": {"annotations": {"a": "b"}}, "spec": {"c": 1}}), kopf.Patch({})
    diffs, progress = kopf_shim.NoDiffs(), kopf_shim.NoProgress()
    assert diffs.build(body=body) == diffs.fetch(body=body) == {}
    diffs.store(body=body, patch=patch, essence=kopf.BodyEssence({}))
    progress.store(key="k", record={}, body=body, patch=patch)
    progress.touch(body=body, patch=patch, value="now")
    progress.purge(key="k", body=body, patch=patch)
    assert progress.fetch(key="k", body=body) is None
    assert progress.clear(essence=kopf.BodyEssence({"spec": {}})) == {"spec": {}}
    assert patch == {}


def line(kind: str, version: str, **metadata: object) -> bytes:
    event = {"type": kind, "object": {"metadata": {"uid": "a", "resourceVersion": version} | metadata}}
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"


def bookmarks(versions: str) -> list[bytes]:
    return [line("BOOKMARK", version) for version in versions]


async def shown(lines: list[bytes], is_known: Callable[[str, str], bool]) -> list[bytes]:
    """Return what kopf gets of a watch with these lines."""

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=b"".join(lines))

    app = web.Application()
    app.router.add_get("/jobs", answer)
    async with TestServer(app) as server:
        made = kopf_shim._session(Credentials(str(server.make_url(""))), is_known)
        async with made.aiohttp_session as session, session.get(server.make_url("/jobs?watch=true")) as response:
            return b"".join([chunk async for chunk in response.content.iter_chunked(1024)]).splitlines(keepends=True)


async def test_of_the_events_that_the_cache_has_kopf_sees_one_bookmark_a_second(monkeypatch):
    lines = [line("ADDED", version) for version in "345"]
    others = [line("MODIFIED", "6"), line("DELETED", "5"), b'{"type": 1}\n', b"cut"]
    for interval, versions in ((1.0, "3"), (0.0, "345")):
        monkeypatch.setattr(kopf_shim, "BOOKMARK_INTERVAL", interval)
        found = await shown([*lines, *others], lambda _uid, version: version <= "5")
        assert found == [*bookmarks(versions), *others]


async def test_of_a_line_without_bound_kopf_gets_the_identity_and_then_the_next_lines(monkeypatch):
    monkeypatch.setattr(kopf_shim, "MAX_LINE_BYTES", 8000)
    known = {"name": "mnist", "namespace": "ml", "uid": "u", "resourceVersion": "6"}
    event = json.dumps({"type": "ADDED", "object": {"metadata": known}}, separators=(",", ":")).encode()
    long = event[:-3] + b',"labels":{"a":"%s"}}}}\n' % (b"b" * 100_000)
    unknown = line("ADDED", "6", labels={"a": "b" * 100_000})  # does not begin as the API server writes it
    found = await shown([long, unknown, line("ADDED", "7")], lambda _uid, _version: False)
    assert found == [event + b"\n", b"\n", line("ADDED", "7")]


async def test_no_more_of_a_line_without_bound_is_kept_than_its_beginning():
    current, piece = kopf_shim.Line(), b"a" * (1 << 20)
    for _ in range(40):
        current.add(piece)
    assert sum(map(len, current._pieces)) == kopf_shim.HEAD_BYTES
    assert current.ended(b"") == b""
    assert current.ended(b"next") == b"next"


#: What users write into the metadata of jobs: kopf removes this finalizer, for which the operator has no right.
FOREIGN = {"finalizers": ["kopf.zalando.org/KopfFinalizerMarker"], "labels": {f"a{n}": "" for n in range(10_000)}}


async def test_kopf_gets_only_the_identity_of_jobs():
    for kind in ("ADDED", "MODIFIED", "DELETED"):
        found = await shown([line(kind, "6", **FOREIGN)], lambda _uid, version: version != "6")
        assert found == [line(kind, "6")]
    item = {"metadata": {"name": "mnist", "namespace": "ml", "uid": "u", "resourceVersion": "6"}}
    page = {"kind": "TFJobList", "apiVersion": "kubeflow.org/v1", "metadata": {"continue": "c", "resourceVersion": "9"}}
    sent = {**page, "items": [{"metadata": item["metadata"] | FOREIGN}]}
    assert json.loads(kopf_shim._identities(json.dumps(sent).encode())) == {**page, "items": [item]}
    assert kopf_shim._identities(b"no list") == b"no list"


async def test_kopf_does_not_see_the_events_that_the_informer_gets_soon():
    asked = []

    def is_known(_uid: str, version: str) -> bool:
        asked.append(version)
        return version == "6" and len(asked) > 1

    assert await shown([line("MODIFIED", "6"), line("MODIFIED", "7")], is_known) == [
        *bookmarks("6"),
        line("MODIFIED", "7"),
    ]


async def test_what_is_nested_too_deeply_to_be_decoded_is_passed_on():
    deep = b'{"metadata":{"managedFields":' + b"[" * 100_000 + b"]" * 100_000 + b"}}"
    page, event = b'{"items":[' + deep + b"]}", b'{"type":"ADDED","object":' + deep + b"}\n"
    assert kopf_shim._identities(page) == page
    assert await shown([event], lambda _uid, _version: False) == [event]
