"""kopf handles events of the jobs and nothing else, and stores nothing."""

from __future__ import annotations

import base64
import itertools
import logging

import kopf
import pytest

from trainshed.api.job import JobKey
from trainshed.client.credentials import Credentials
from trainshed.controller import kopf_shim
from trainshed.frameworks import FRAMEWORKS, served

CREDENTIALS = Credentials(server="https://example.test", token="secret")


@pytest.fixture
def woken() -> list[JobKey]:
    return []


@pytest.fixture
def found(woken) -> kopf.OperatorRegistry:
    return kopf_shim.registry(FRAMEWORKS, CREDENTIALS, woken.append)


def test_kopf_has_one_event_handler_per_kind_and_no_others(found):
    events = found._watching.get_all_handlers()
    assert sorted(str(handler.selector.any_name or handler.selector.plural) for handler in events) == sorted(
        framework.plural for framework in FRAMEWORKS
    )
    for others in (found._changing, found._spawning, found._indexing, found._webhooks):
        assert list(others.get_all_handlers()) == [], "such handlers would write to users' jobs or keep stale copies"


def test_kopf_watches_the_served_version():
    found = kopf_shim.registry(served("v2beta1"), CREDENTIALS, lambda _key: None)
    selectors = [handler.selector for handler in found._watching.get_all_handlers()]
    versions = {str(selector.any_name or selector.plural): selector.version for selector in selectors}
    assert versions["mpijobs"] == "v2beta1"
    assert {version for plural, version in versions.items() if plural != "mpijobs"} == {"v1"}


async def test_an_event_enqueues_the_job_and_returns_nothing(found, woken):
    (handler,) = [found for found in found._watching.get_all_handlers() if "tfjobs" in str(found.selector)]
    assert await handler.fn(namespace="ml", name="mnist", body={}) is None, "kopf would write it into the status"
    assert woken == [JobKey("ml", "TFJob", "mnist")]


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


async def test_kopf_uses_the_operators_credentials(found):
    (login,) = [handler for handler in found._activities.get_all_handlers() if "login" in str(handler.id)]
    known = await login.fn()
    assert (known.server, known.scheme, known.token) == ("https://example.test", "Bearer", "secret")


async def test_kopf_gets_inline_certificates_and_keys():
    credentials = Credentials(server="https://example.test", ca_data=b"a", certificate_data=b"c", key_data=b"k")
    known = kopf_shim._connection(credentials)
    assert (known.ca_path, known.certificate_path, known.private_key_path) == (None, None, None)
    data = (known.ca_data, known.certificate_data, known.private_key_data)
    assert [base64.b64decode(text) for text in data] == [b"a", b"c", b"k"]


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
