"""The proxy of the environment is the one that kubectl takes; the cases are those of Go's httpproxy."""

from __future__ import annotations

import pytest

from trainshed.client.proxies import proxy_of


@pytest.mark.parametrize(
    ("listed", "server"),
    [
        ("*", "https://example.com"),
        ("other, EXAMPLE.com", "https://sub.example.com"),
        ("example.com", "https://example.com."),
        (".example.com", "https://a.example.com"),
        ("*.example.com", "https://a.example.com"),
        ("example.com:443", "https://example.com"),
        ("10.0.0.0/8", "https://10.1.2.3:6443"),
        ("10.1.2.3", "https://10.1.2.3:6443"),
        ("10.1.2.3:6443", "https://10.1.2.3:6443"),
        ("fd00::/8", "https://[fd00::1]:6443"),
        ("fd00:0::1", "https://[fd00::1]:6443"),
        ("[fd00::1]", "https://[fd00::1]:6443"),
        ("[fd00::1]:6443", "https://[fd00::1]:6443"),
        ("", "https://localhost:6443"),
        ("", "https://127.8.9.1:6443"),
        ("", "https://[::1]:6443"),
    ],
)
def test_a_server_that_is_local_or_listed_has_no_proxy(listed, server):
    assert not proxy_of(server, {"HTTPS_PROXY": "http://p", "NO_PROXY": listed})


@pytest.mark.parametrize(
    ("listed", "server"),
    [
        ("", "https://example.com"),
        ("ample.com, ,:6443", "https://example.com"),
        (".example.com,*.example.com,a.example.com", "https://example.com"),
        ("example.com:6443", "https://example.com"),
        ("10.0.0.0/8", "https://11.1.2.3"),
        ("10.0.0.0/99", "https://10.1.2.3"),
        ("10.0.0.0/8", "https://name"),
        ("10.1.2.3:443", "https://10.1.2.3:6443"),
        ("fd00::/8", "https://10.1.2.3"),
    ],
)
def test_another_server_has_the_proxy(listed, server):
    assert proxy_of(server, {"HTTPS_PROXY": "http://p", "NO_PROXY": listed}) == "http://p"


def test_capitals_come_first_and_the_scheme_of_a_proxy_is_http_without_another():
    assert proxy_of("https://a", {"HTTPS_PROXY": "p:3128", "https_proxy": "q"}) == "http://p:3128"
    assert proxy_of("https://a", {"https_proxy": "socks5://q"}) == "socks5://q"
    assert proxy_of("http://a", {"http_proxy": "q"}) == "http://q"
    assert not proxy_of("http://a", {"HTTPS_PROXY": "p"})
    assert not proxy_of("https://a", {"HTTPS_PROXY": "p", "NO_PROXY": "a", "no_proxy": "b"})
