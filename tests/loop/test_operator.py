"""The whole of it starts, says how it is, and ends in good order, even where there is no API server."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from dataclasses import replace

import aiohttp
import pytest

from trainshed.api.site import Site
from trainshed.cluster.credentials import Credentials
from trainshed.frameworks import FRAMEWORKS
from trainshed.frameworks.tensorflow import TENSORFLOW
from trainshed.loop.operator import Documents, Operator
from trainshed.loop.store import Store
from trainshed.loop.view import Key, Record, View
from trainshed.settings import Settings


def free_address() -> str:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{door.getsockname()[1]}"


NOWHERE = Credentials(server="http://127.0.0.1:1")


@pytest.fixture
def settings() -> Settings:
    return Settings(health=free_address(), metrics=free_address())


@pytest.fixture
async def alone(settings) -> AsyncIterator[Operator]:
    """An operator whose API server does not answer."""
    operator = Operator(settings, NOWHERE, FRAMEWORKS)
    await operator.start()
    await asyncio.sleep(0.3)
    yield operator
    await operator.stop()


async def ask(address: str, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"http://{address}{path}") as answer:
        return answer.status, await answer.text()


async def test_without_an_api_server_it_is_alive_and_not_ready_and_says_so_once(alone, settings, caplog):
    assert await ask(settings.health, "/healthz") == (200, "ok\n")
    assert await ask(settings.health, "/readyz") == (503, "tfjobs have not been listed yet\n")
    await asyncio.sleep(1.5)
    assert not alone.over.is_set()
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(told) <= len({message.partition(": ")[0] for message in told})


async def test_the_meters_count_what_was_asked_of_the_api_server(alone, settings):
    status, text = await ask(settings.metrics, "/metrics")
    assert status == 200
    assert 'trainshed_api_requests_total{code="none",resource="pods",verb="GET"}' in text
    assert 'trainshed_watch_age_seconds{resource="tfjobs"}' in text
    assert 'trainshed_jobs{framework="pytorch",state="Running"} 0.0' in text
    assert "trainshed_leader 0.0" in text, "without an API server nobody holds the Lease"
    assert "trainshed_loop_lag_seconds" in text


async def test_events_of_jobs_that_nobody_knows_do_no_harm(alone):
    alone.wake(Key("ml", "TFJob", "unknown"))
    await asyncio.sleep(0.1)
    assert not alone.over.is_set()


async def test_at_the_end_nothing_goes_on(settings):
    before = asyncio.all_tasks()
    operator = Operator(settings, NOWHERE, FRAMEWORKS)
    await operator.start()
    await asyncio.sleep(0.1)
    assert len(asyncio.all_tasks() - before) >= 8
    await operator.stop()
    await asyncio.sleep(0.05)
    assert asyncio.all_tasks() == before
    assert not operator.broken, "to be told to end is no misfortune"
    with pytest.raises(aiohttp.ClientConnectionError):
        await ask(settings.health, "/healthz")


async def test_it_is_over_when_a_part_of_it_ends_that_never_should(settings, caplog):
    operator = Operator(settings, NOWHERE, FRAMEWORKS)

    async def falls() -> None:
        raise ZeroDivisionError

    operator._recorder.run = falls
    await operator.start()
    async with asyncio.timeout(5):
        await operator.over.wait()
    assert operator.broken
    assert any("falls has ended" in record.getMessage() for record in caplog.records)
    await operator.stop()


async def test_an_address_that_is_in_use_is_an_error_with_a_name(settings):
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        door.listen()
        port = door.getsockname()[1]
        operator = Operator(Settings(health=f"127.0.0.1:{port}"), NOWHERE, FRAMEWORKS)
        with pytest.raises(OSError, match=str(port)):
            await operator.start()
        await operator.stop()


async def test_with_a_gang_scheduler_nothing_begins_before_the_api_server_has_answered(settings, caplog):
    operator = Operator(replace(settings, gang_scheduler="volcano"), NOWHERE, FRAMEWORKS)
    beginning = asyncio.create_task(operator.start())
    await asyncio.sleep(0.3)
    assert await ask(settings.health, "/healthz") == (200, "ok\n")
    assert (await ask(settings.health, "/readyz"))[0] == 503
    assert not beginning.done()
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert [line.partition(": ")[0] for line in told] == ["asking for scheduling.volcano.sh/v1beta1"]
    beginning.cancel()
    await operator.stop()


def test_documents_of_jobs_are_read_on_their_way_into_the_store():
    view = View((TENSORFLOW,), Site(), lambda _key: None)
    store: Store[Record] = view.jobs["TFJob"]
    documents = Documents(store, lambda document: view.record(document, TENSORFLOW))

    def a_document(version: str) -> dict:
        return {"metadata": {"namespace": "ml", "name": "mnist", "uid": "u", "resourceVersion": version}, "spec": {}}

    documents.replaced([a_document("1")], "2")
    assert [record.job.name for record in store.items.values()] == ["mnist"]
    documents.changed(a_document("3"))
    assert [record.version for record in store.items.values()] == ["3"]
    documents.removed(a_document("4"))
    assert store.items == {}
