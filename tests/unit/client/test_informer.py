"""An informer on a real API server: its objects are complete after pages, gaps and outages."""

from __future__ import annotations

import asyncio
import contextlib

import msgspec
import pytest

from support import UserClient
from support.jobs import tfjob
from testbed.control_plane import ControlPlane
from trainshed.client import Gone
from trainshed.client.http import HttpTransport
from trainshed.client.informer import Informer
from trainshed.client.kubeconfig import find_credentials
from trainshed.client.lists import DOCUMENTS, PODS
from trainshed.client.transport import Path, RestClient

LABEL = "training.kubeflow.org/job-name"


class Listener:
    """Keeps the delivered objects by name."""

    def __init__(self) -> None:
        self.known: dict[str, object] = {}
        self.lists = 0

    def replaced(self, items, _version):
        self.lists += 1
        self.known = {item.name: item for item in items}

    def changed(self, item):
        self.known[item.name] = item

    def removed(self, item):
        self.known.pop(item.name, None)

    def has(self, _uid, _version):
        return False

    def on_bookmark(self, _version):
        """Ignore the event: these tests do not need it."""

    def count(self):
        return len(self.known)


def make_pod(user: UserClient, name: str) -> None:
    container = {"name": "c", "image": "x"}
    user.make("pods", {"metadata": {"name": name, "labels": {LABEL: "j"}}, "spec": {"containers": [container]}})


async def until(question, within=20.0):
    """Wait until the question is answered with yes."""
    async with asyncio.timeout(within):
        while not question():
            await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def listening(rest, user):
    """Run an informer of the pods of a namespace; yield its listener."""
    listener = Listener()
    informer = Informer(rest, Path("/api/v1", "pods", user.namespace), PODS, listener, LABEL)
    async with running(informer):
        await asyncio.wait_for(informer.synced.wait(), 20)
        yield listener, informer


@contextlib.asynccontextmanager
async def running(informer):
    """Run an informer during the block."""
    task = asyncio.create_task(informer.run())
    yield
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_what_comes_changes_and_goes_is_heard(rest, user):
    make_pod(user, "before")
    async with listening(rest, user) as (listener, informer):
        assert set(listener.known) == {"before"}
        make_pod(user, "after")
        await until(lambda: "after" in listener.known)
        user.bind("after", "node-0")
        user.set_pod_status("after", {"phase": "Running"})
        await until(lambda: listener.known["after"].phase == "Running")
        user.delete("pods", "after", grace=0)
        await until(lambda: "after" not in listener.known)
        assert informer.heard > 0
        assert informer.plural == "pods"


@pytest.mark.fault("C11")
async def test_pods_without_our_label_are_never_sent(rest, user):
    user.make("pods", {"metadata": {"name": "other"}, "spec": {"containers": [{"name": "c", "image": "x"}]}})
    async with listening(rest, user) as (listener, _):
        make_pod(user, "own")
        await until(lambda: "own" in listener.known)
        assert set(listener.known) == {"own"}


@pytest.mark.fault("A16")
async def test_a_list_of_several_pages_is_whole(rest, user, monkeypatch):
    monkeypatch.setattr("trainshed.client.lists.PAGE_SIZE", 3)
    for number in range(8):
        make_pod(user, f"p-{number}")
    async with listening(rest, user) as (listener, _):
        assert len(listener.known) == 8
        assert listener.lists == 1


@pytest.mark.apiserver
async def test_the_api_server_may_restart(tmp_path):
    with ControlPlane(tmp_path / "plane") as plane:
        user = UserClient(plane.kubeconfig, "default")
        rest = RestClient(HttpTransport(find_credentials(str(plane.kubeconfig))))
        async with listening(rest, user) as (listener, _):
            make_pod(user, "a")
            await until(lambda: "a" in listener.known)
            await asyncio.to_thread(plane.kill_apiserver)
            await asyncio.sleep(1)
            await asyncio.to_thread(plane.start_apiserver)
            user = UserClient(plane.kubeconfig, "default")  # the old one's connections lead to a server that is gone
            make_pod(user, "b")
            user.delete("pods", "a", grace=0)
            await until(lambda: set(listener.known) == {"b"}, 40)
        await rest.close()


@pytest.mark.parametrize("how", ["in the stream", "as the answer"])
async def test_an_expired_version_leads_to_a_new_list(rest, user, monkeypatch, how):
    watch, forgetful = rest.watch, [True]

    async def forgets(path, query):
        if forgetful and forgetful.pop():
            if how == "as the answer":
                raise Gone("too old")
            yield b'{"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}}'
        async for line in watch(path, query):
            yield line

    monkeypatch.setattr(rest, "watch", forgets)
    make_pod(user, "a")
    async with listening(rest, user) as (listener, _):
        listener.known["ghost"] = None
        await until(lambda: listener.lists == 2)
        assert set(listener.known) == {"a"}
        make_pod(user, "b")
        await until(lambda: set(listener.known) == {"a", "b"})
        assert listener.lists == 2


async def test_a_kind_that_is_not_served_counts_as_synced(rest, user, caplog):
    informer = Informer(rest, Path("/apis/kubeflow.org/v1", "nojobs", user.namespace), DOCUMENTS, Listener())
    async with running(informer):
        await asyncio.wait_for(informer.synced.wait(), 20)
        await asyncio.sleep(1)
    records = [(record.levelname, record.message) for record in caplog.records if "watch nojobs" in record.message]
    assert [level for level, _ in records] == ["WARNING"]
    assert "the API server does not serve this kind" in records[0][1]
    assert (informer.missing, informer.heard) == (True, 0.0)


async def test_jobs_are_delivered_unchanged(rest, user):
    class Documents(Listener):
        def replaced(self, items, _version):
            self.known = {item["metadata"]["name"]: item for item in items}

    user.create(tfjob("mnist", Worker=1))
    listener = Documents()
    path = Path("/apis/kubeflow.org/v1", "tfjobs", user.namespace)
    informer = Informer(rest, path, DOCUMENTS, listener)
    async with running(informer):
        await asyncio.wait_for(informer.synced.wait(), 20)
    assert listener.known["mnist"]["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] == 1


@pytest.mark.parametrize("line", [b"not json", b'{"type": "ADDED"}', b'{"type": "ADDED", "object": {"metadata": 5}}'])
def test_an_undecodable_line_is_skipped(line):
    informer = Informer(None, Path("/api/v1", "pods"), PODS, Listener())
    with pytest.raises(msgspec.DecodeError):
        informer._handle(line)
