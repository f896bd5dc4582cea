"""Requests to a server: each response becomes its error."""

from __future__ import annotations

import asyncio
import contextlib
import json
import tracemalloc

import pytest
from aiohttp import web

from trainshed import client
from trainshed.client.credentials import Credentials
from trainshed.client.http import HttpTransport
from trainshed.client.transport import MAX_LINE_BYTES, AlreadyExists, LongLine, Path, RestClient

PODS = Path("/api/v1", "pods", "ml")


@contextlib.asynccontextmanager
async def answering(handler, observe=None, **who):
    """Yield a connection to a server that responds with `handler`."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]
    rest = RestClient(
        HttpTransport(Credentials(f"http://127.0.0.1:{port}", **(who or {"token": "t"}))), observe or (lambda *_: None)
    )
    yield rest
    await rest.close()
    await runner.cleanup()


def saying(status, reason="", message="m", headers=None):
    """Return a handler that gives this response."""

    async def handler(_request):
        return web.json_response({"reason": reason, "message": message}, status=status, headers=headers)

    return handler


@pytest.mark.parametrize(
    ("status", "reason", "message", "error", "name"),
    [
        (400, "BadRequest", "m", client.Invalid, "Invalid"),
        (401, "Unauthorized", "m", client.Unavailable, "Unauthorized"),
        (403, "Forbidden", "exceeded quota: few", client.Forbidden, "QuotaExceeded"),
        (403, "Forbidden", "x because it is being terminated", client.Forbidden, "NamespaceTerminating"),
        (403, "Forbidden", "no rights", client.Forbidden, "Forbidden"),
        (404, "NotFound", "m", client.NotFound, "NotFound"),
        (409, "AlreadyExists", "m", AlreadyExists, "AlreadyExists"),
        (409, "Conflict", "m", client.Conflict, "Conflict"),
        (410, "Expired", "m", client.Gone, "Expired"),
        (413, "", "m", client.Invalid, "Invalid"),
        (422, "Invalid", "m", client.Invalid, "Invalid"),
        (429, "TooManyRequests", "m", client.TooManyRequests, "TooManyRequests"),
        (500, "InternalError", "m", client.Unavailable, "Unavailable"),
        (503, "", "m", client.Unavailable, "Unavailable"),
    ],
)
async def test_each_status_code_becomes_its_error(status, reason, message, error, name):
    async with answering(saying(status, reason, message)) as rest:
        with pytest.raises(error) as raised:
            await rest.call("POST", PODS, {})
    assert type(raised.value) is error
    assert raised.value.reason == name
    assert message in str(raised.value)


WEBHOOK = 'admission webhook "w.example" denied the request'
POLICY = """pods "x" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: exceeded quota"""


@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 409, 410, 413, 418, 422, 500, 503, 504, 999])
@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (f"{WEBHOOK}: exceeded quota", "DeniedByWebhook"),
        (f"{WEBHOOK} without explanation", "DeniedByWebhook"),
        (POLICY, "DeniedByPolicy"),
    ],
)
async def test_a_refusal_by_a_webhook_or_a_policy_is_one_whatever_code_they_choose(tmp_path, status, message, reason):
    asked, token = [], tmp_path / "token"
    token.write_text("t")

    async def handler(request):
        asked.append(request.path)
        return await saying(status, "AlreadyExists", message)(request)

    async with answering(handler, token_file=str(token)) as rest:
        with pytest.raises(client.AdmissionDenied) as raised:
            await rest.call("POST", PODS, {})
    assert raised.value.reason == reason
    assert len(asked) == 1, "the token was not rejected"


@pytest.mark.parametrize(
    ("status", "message", "error"),
    [
        (500, 'Internal error occurred: failed calling webhook "w.example": no such host', client.Unavailable),
        (404, 'pods "admission webhook" not found', client.NotFound),
        (409, f"Operation cannot be fulfilled on pods: {WEBHOOK}", client.Conflict),
        (422, f'Pod "x" is invalid: spec: Invalid value: "{POLICY}"', client.Invalid),
        (429, f"{WEBHOOK}: later", client.TooManyRequests),
    ],
)
async def test_what_the_server_says_itself_is_no_refusal_by_a_webhook(status, message, error):
    async with answering(saying(status, "", message)) as rest:
        with pytest.raises(error) as raised:
            await rest.call("POST", PODS, {})
    assert type(raised.value) is error


@pytest.mark.parametrize(("header", "seconds"), [({"Retry-After": "7"}, 7), ({"Retry-After": "900"}, 60), ({}, 1)])
async def test_retry_after_is_parsed(header, seconds):
    async with answering(saying(429, headers=header)) as rest:
        with pytest.raises(client.TooManyRequests) as raised:
            await rest.call("GET", PODS)
    assert raised.value.wait == seconds


async def test_a_request_has_credentials_path_query_and_body():
    seen = {}

    async def handler(request):
        kind, token = request.headers["Content-Type"], request.headers["Authorization"]
        seen.update(path=request.path_qs, kind=kind, token=token, body=await request.json())
        return web.json_response({"ok": True})

    observed = []
    async with answering(handler, lambda *words: observed.append(words)) as rest:
        content = await rest.call("PATCH", Path("/api/v1", "pods", "ml", "x", "status"), {"a": 1}, {"q": "1"})
    assert json.loads(content) == {"ok": True}
    assert seen == {
        "path": "/api/v1/namespaces/ml/pods/x/status?q=1",
        "kind": "application/merge-patch+json",
        "token": "Bearer t",
        "body": {"a": 1},
    }
    assert observed == [("PATCH", "pods", 200)]


async def test_an_error_without_a_status_object_has_the_text_of_the_response():
    async def handler(_request):
        return web.Response(status=502, text="<html>bad gateway")

    async with answering(handler) as rest:
        with pytest.raises(client.Unavailable, match="bad gateway"):
            await rest.call("GET", PODS)


async def test_a_watch_yields_whole_lines():
    async def handler(request):
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in (b'{"a"', b': 1}\n{"b": 2}\n', b'{"c": 3}', b"\n" * 250):
            await response.write(piece)
            await asyncio.sleep(0)
        return response

    async with answering(handler) as rest:
        lines = [line async for line in rest.watch(PODS, {}) if line]
    assert lines == [b'{"a": 1}', b'{"b": 2}', b'{"c": 3}']


@pytest.mark.parametrize(
    "pieces", [[b"x" * 30 + b"\n"], [b"x" * 10, b"y" * 9, b"z" * 11 + b"\n"], [b"x"] * 30 + [b"\n"]]
)
async def test_of_a_line_that_is_too_long_only_the_beginning_is_kept(monkeypatch, pieces):
    """Also if only its last piece makes it too long."""
    monkeypatch.setattr("trainshed.client.transport.MAX_LINE_BYTES", 20)
    monkeypatch.setattr("trainshed.client.transport.HEAD_BYTES", 5)
    skipped = []

    async def handler(request):
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in (b"before\n", *pieces, b"after\n"):
            await response.write(piece)
            await asyncio.sleep(0.001)
        return response

    async with answering(handler) as rest:
        rest._skipped = skipped.append
        lines = [line async for line in rest.watch(PODS, {}) if line]
    assert lines == [b"before", LongLine(b"xxxxx", 30), b"after"]
    assert skipped == ["pods"]


async def test_a_line_without_end_takes_no_memory():
    piece = b"x" * 1024 * 1024

    async def handler(request):
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(100):
            await response.write(piece)
        await response.write(b"\nafter\n")
        return response

    async with answering(handler) as rest:
        tracemalloc.start()
        lines = [line async for line in rest.watch(PODS, {}) if line]
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert (lines[0].size, lines[1]) == (100 * len(piece), b"after")
    assert peak < 3 * MAX_LINE_BYTES


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_response_that_is_longer_than_allowed_is_not_read_to_its_end(chunked):
    async def handler(request):
        response = web.StreamResponse()
        if not chunked:
            response.content_length = 40 * 1024 * 1024
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            for _ in range(40):
                await response.write(b" " * 1024 * 1024)
        return response

    async with answering(handler) as rest:
        tracemalloc.start()
        with pytest.raises(client.TooLarge, match="more than 1,000,000 bytes"):
            await rest.read_page(PODS, {}, 1_000_000)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 20 * 1024 * 1024
        assert len(await rest.read_page(PODS, {}, 50 * 1024 * 1024)) == 40 * 1024 * 1024


async def test_a_rejected_watch_is_an_error():
    async with answering(saying(410, "Expired")) as rest:
        with pytest.raises(client.Gone):
            async for _ in rest.watch(PODS, {}):
                pass


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (Path("/api/v1", "pods"), "/api/v1/pods"),
        (Path("/apis/g/v1", "jobs", "ns", "x"), "/apis/g/v1/namespaces/ns/jobs/x"),
    ],
)
def test_a_path_is_formatted(path, text):
    assert str(path) == text


async def test_a_token_may_be_rotated_at_any_time_without_an_error(tmp_path):
    """The server accepts only the newest token, sometimes just before it is in the file."""
    file, now, asked = tmp_path / "token", ["0"], []

    async def handler(request):
        if len(asked) % 7 == 3:  # rotated after the file was read and before the server reads the request
            now[0] = str(len(asked))
            file.write_text(now[0])
        asked.append(request.method)
        known = request.headers["Authorization"] == f"Bearer {now[0]}"
        return web.json_response({"message": "who are you?"}, status=200 if known else 401)

    file.write_text("0")
    async with answering(handler, token_file=str(file)) as rest:
        for verb in ("GET", "PATCH", "POST", "DELETE") * 10:
            await rest.call(verb, PODS, {})
    assert asked.count("PATCH") > 10, "some requests were sent twice"


@pytest.mark.parametrize(("who", "times"), [({"token": "t"}, 1), ({"token_file": "token"}, 2)])
async def test_a_rejected_token_is_not_retried_in_a_loop(tmp_path, who, times):
    (tmp_path / "token").write_text("t")
    asked = []

    async def handler(request):
        asked.append(request)
        return web.json_response({"message": "go away"}, status=401)

    path = {key: str(tmp_path / value) if key == "token_file" else value for key, value in who.items()}
    async with answering(handler, **path) as rest:
        with pytest.raises(client.Unavailable) as raised:
            await rest.call("PATCH", PODS, {})
    assert raised.value.reason == "Unauthorized"
    assert len(asked) == times


async def test_requests_in_flight_are_counted():
    go_on = asyncio.Event()

    async def handler(_request):
        await go_on.wait()
        return web.json_response({}, status=500)

    async with answering(handler) as rest:
        asked = [asyncio.create_task(rest.call("GET", PODS)) for _ in range(2)]
        await asyncio.sleep(0.2)
        assert rest.under_way == 2
        go_on.set()
        await asyncio.gather(*asked, return_exceptions=True)
        assert rest.under_way == 0


async def test_an_error_quotes_nothing_of_the_request_and_is_truncated():
    secret = "s3cr3t-canary"
    body = {"metadata": {"name": "a"}, "spec": {"containers": [{"args": [secret]}]}}
    async with answering(saying(422, "Invalid", f"{'x' * 1990} {secret} {'y' * 100}")) as rest:
        for call in (rest.call("POST", PODS, body), rest.write("POST", PODS, body, lambda: True)):
            with pytest.raises(client.Invalid) as refused:
                await call
            assert "s3cr" not in str(refused.value)
            assert len(str(refused.value)) == 2000
