"""Who gets in: the link works once, other names of the server and other pages do not, and headers forbid the rest."""

from __future__ import annotations

import asyncio

import pytest

from support.pages import Jobs, opened


async def enter(site, browser) -> None:
    await enter_by(browser, site.access.new_link())


async def enter_by(browser, link: str) -> None:
    answer = await browser.get(link, allow_redirects=False)
    assert (answer.status, answer.headers["Location"]) == (303, "/")


async def test_the_link_opens_the_page_once_and_leaves_the_address():
    async with opened(Jobs()) as (site, browser):
        link = site.access.new_link("/jobs/ml/pytorchjob/mnist")
        first = await browser.get(link, allow_redirects=False)
        assert (first.status, first.headers["Location"]) == (303, "/jobs/ml/pytorchjob/mnist")
        cookie = first.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert (await browser.get("/")).status == 200
        assert (await browser.get(link, allow_redirects=False)).status == 303  # it has a session already
        browser.cookie_jar.clear()
        assert (await browser.get(link, allow_redirects=False)).status == 403


@pytest.mark.parametrize("query", ["", "?token=", "?token=x", "?token=%C3%A9"])
async def test_without_the_token_nothing_is_shown(query):
    async with opened(Jobs()) as (site, browser):
        site.access.new_link()
        for path in ("/", "/live", "/jobs/ml/pytorchjob/mnist", "/nothing"):
            answer = await browser.get(f"{path}{query}")
            assert answer.status == 403, path
            assert "mnist</h1>" not in await answer.text()
        assert (await browser.get("/static/style.css")).status == 200  # what all may see


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_requests_of_other_pages_have_no_session(headers):
    async with opened(Jobs()) as (site, browser):
        await enter(site, browser)
        assert (await browser.get("/", headers=headers)).status == 403


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "localhost", "127.0.0.1:1", "localhost.evil.example"])
async def test_another_name_of_the_server_is_refused(host):
    async with opened(Jobs()) as (site, browser):
        await enter(site, browser)
        assert (await browser.get("/", headers={"Host": host})).status == 421
        assert (await browser.get("/", headers={"Host": f"localhost:{site.access.port}"})).status == 200


async def test_each_answer_forbids_what_the_page_does_not_need():
    async with opened(Jobs()) as (site, browser):
        for path, status in (("/", 403), ("/static/page.js", 200), (site.access.new_link(), 200), ("/nothing", 404)):
            answer = await browser.get(path)
            assert answer.status == status, path
            policy = answer.headers["Content-Security-Policy"]
            assert policy.startswith("default-src 'none'; script-src 'self';")
            assert "unsafe" not in policy
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert answer.headers["X-Frame-Options"] == "DENY"
            assert answer.headers["Referrer-Policy"] == "same-origin"
            assert answer.headers["Cache-Control"] == "no-store"


async def test_a_page_that_changes_nothing_has_no_way_to_change():
    async with opened(Jobs()) as (site, browser):
        await enter(site, browser)
        origin = {"Origin": site.access.origins[0]}
        answer = await browser.post("/jobs/ml/pytorchjob/mnist/delete", data={"csrf": site.access.csrf}, headers=origin)
        assert answer.status == 404


async def test_the_server_is_reached_from_this_machine_only():
    async with opened(Jobs()) as (site, _):
        assert {origin.rpartition(":")[0] for origin in site.access.origins} == {"http://127.0.0.1", "http://localhost"}


@pytest.mark.parametrize(
    "path", ["//evil.test/", "///evil.test/", "/\\evil.test/", "/\\/evil.test/", "//evil.test/?text=a"]
)
async def test_a_link_never_leads_to_another_server(path):
    async with opened(Jobs()) as (site, _):
        token = site.access.new_link().partition("=")[2]
        joint = "&" if "?" in path else "?"
        wanted = "/evil.test/" + path.partition("?")[1] + path.partition("?")[2]
        refused = await sent(site, "GET", f"{path}{joint}token=wrong")
        assert f'<a href="{wanted}">Go on</a>' in refused
        entered = await sent(site, "GET", f"{path}{joint}token={token}")
        assert f"\r\nLocation: {wanted}\r\n" in entered


async def test_what_only_looks_at_a_link_does_not_use_it_up():
    async with opened(Jobs()) as (site, browser):
        link = site.access.new_link()
        assert (await browser.head(link, allow_redirects=False)).status == 403
        await enter_by(browser, link)


@pytest.mark.parametrize("kind", ["multipart/form-data; boundary=x", "multipart/form-data", "text/plain", "a/b/c"])
async def test_a_form_of_another_kind_is_refused(kind):
    async with opened(Jobs(), may_change=True) as (site, browser):
        await enter(site, browser)
        headers = {"Origin": site.access.origins[0], "Content-Type": kind}
        answer = await browser.post(
            "/jobs/ml/pytorchjob/mnist/delete", data=f"csrf={site.access.csrf}", headers=headers
        )
        assert answer.status == 403


async def sent(site, verb: str, path: str) -> str:
    """Return the answer to a request whose path is sent as it is."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site.access.port)
    writer.write(f"{verb} {path} HTTP/1.1\r\nHost: 127.0.0.1:{site.access.port}\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return answer.decode()
