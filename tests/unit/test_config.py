"""Values that are derived from the settings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trainshed import config as module
from trainshed.api.framework import JobDefaults
from trainshed.api.job import CleanPodPolicy
from trainshed.config import Config, bind_address


def test_the_site_has_the_settings_of_jobs():
    assert Config().job_defaults == JobDefaults()
    settings = Config(cluster_domain="tf.test", clean_pods="All", init_image="alpine", init_tries=3)
    assert settings.job_defaults == JobDefaults("tf.test", CleanPodPolicy.ALL, init_image="alpine", init_tries=3)


def test_the_site_has_the_scheduler_and_the_kubectl_image():
    job_defaults = Config(gang_scheduler="volcano", mpi_kubectl_image="kubectl:1").job_defaults
    assert (job_defaults.gang_scheduler, job_defaults.mpi_kubectl_image) == ("volcano", "kubectl:1")


def test_a_template_of_init_containers_enables_them():
    assert Config(init_template="- name: a").job_defaults == JobDefaults(
        init_image="docker.io/library/alpine:3.22@sha256:14358309a308569c32bdc37e2e0e9694be33a9d99e68afb0f5ff33cc1f695dce",
        init_template="- name: a",
    )
    assert Config(init_template="- name: a", init_image="busybox").job_defaults.init_image == "busybox"


def test_two_operators_on_a_host_have_different_identities():
    assert Config().identity.endswith(f"_{os.getpid()}")
    assert Config(lease_identity="me").identity == "me"


@pytest.mark.parametrize(
    ("told", "file", "expected"), [("ml", "own", "ml"), ("", "own\n", "own"), ("", None, "default")]
)
def test_the_lease_namespace_is_the_configured_or_the_own_one(told, file, expected, tmp_path: Path, monkeypatch):
    path = tmp_path / "namespace"
    if file is not None:
        path.write_text(file)
    monkeypatch.setattr(module, "NAMESPACE_FILE", path)
    assert Config(lease_namespace=told).effective_lease_namespace == expected


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
