"""Values that are derived from the settings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trainshed import config as module
from trainshed.config import INIT_IMAGE, Config, bind_address, from_settings


def test_a_template_of_init_containers_enables_them():
    def image(**settings: str) -> str:
        return from_settings(settings).job_defaults.init_image

    assert image(init_template="- name: a") == INIT_IMAGE
    assert image(init_template="- name: a", init_image="busybox") == "busybox"
    assert image() == ""


def test_two_operators_on_a_host_have_different_identities():
    assert Config().identity.endswith(f"_{os.getpid()}")
    assert Config(lease_identity="me").identity == "me"


@pytest.mark.parametrize(
    ("configured", "file", "expected"), [("ml", "own", "ml"), ("", "own\n", "own"), ("", None, "default")]
)
def test_the_lease_namespace_is_the_configured_or_the_own_one(configured, file, expected, tmp_path: Path, monkeypatch):
    path = tmp_path / "namespace"
    if file is not None:
        path.write_text(file)
    monkeypatch.setattr(module, "NAMESPACE_FILE", path)
    assert Config(lease_namespace=configured).effective_lease_namespace == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        ("0", None),
        (":8080", (None, 8080)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("localhost:8080", ("localhost", 8080)),
        ("metrics.example.com:65535", ("metrics.example.com", 65535)),
        ("[::1]:8080", ("::1", 8080)),
        ("[::]:8080", ("::", 8080)),
        ("[fe80::1%eth0]:8080", ("fe80::1%eth0", 8080)),
    ],
)
def test_a_bind_address_is_a_host_and_a_port_or_disabled(text, expected):
    assert bind_address(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "8080",
        ":http",
        ":",
        "::1:8080",
        "[::1]",
        "[::1]8080",
        "[x]:1",
        "[]:1",
        ":65536",
        ":-1",
        "a..b:1",
        "a b:1",
        ":8080 ",
    ],
)
def test_other_texts_are_rejected_as_bind_addresses(text):
    with pytest.raises(ValueError, match=r"."):
        bind_address(text)
