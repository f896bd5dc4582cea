"""Writes whose responses are lost are recognized, and a replica without leadership writes nothing."""

from __future__ import annotations

import pytest

from support.jobs import tfjob
from support.user_client import MERGE
from trainshed.api import parse
from trainshed.api.framework import JobDefaults
from trainshed.api.job import Replica
from trainshed.api.objects import CONFIG_MAPS
from trainshed.client import NotLeader, Unavailable, flow_control
from trainshed.client.client import ApiClient
from trainshed.client.flow_control import TokenBucket
from trainshed.frameworks.tensorflow import TENSORFLOW
from trainshed.plan import builders


def a_job(user):
    """Create a job on the server; return the parsed job."""
    user.create(tfjob("mnist", Worker=1))
    return parse.job(user.job("TFJob", "mnist"), TENSORFLOW, JobDefaults())


async def test_a_stored_status_is_recognized_after_a_lost_response(gateway, user, rest, monkeypatch):
    job = a_job(user)
    patch = {"metadata": {"uid": job.uid, "resourceVersion": job.version}}
    patch["status"] = {"restarts": 1, "replicaStatuses": {"Worker": {"active": 1, "ready": None}}, "startTime": None}
    lose_answers(rest, monkeypatch, "PATCH")
    stored = await gateway.store_status(TENSORFLOW, user.namespace, job.name, patch)
    assert stored["status"] == {"restarts": 1, "replicaStatuses": {"Worker": {"active": 1}}}


@pytest.mark.parametrize("touched", [False, True], ids=["nothing happens", "another client writes"])
async def test_a_status_that_was_not_stored_is_an_error(gateway, user, rest, monkeypatch, touched):
    job = a_job(user)
    lose_answers(rest, monkeypatch, "PATCH", before=True)
    if touched:
        user.patch_job("TFJob", "mnist", {"metadata": {"labels": {"a": "b"}}})
    patch = {"metadata": {"uid": job.uid, "resourceVersion": job.version}, "status": {"restarts": 1}}
    with pytest.raises(Unavailable, match="lost"):
        await gateway.store_status(TENSORFLOW, user.namespace, job.name, patch)
    assert "status" not in user.job("TFJob", "mnist")


async def test_a_job_of_the_same_name_does_not_count_as_stored(gateway, user, rest, monkeypatch):
    patch = {"metadata": {"uid": "another", "resourceVersion": "1"}, "status": {"restarts": 1}}
    stored = {"metadata": {"uid": a_job(user).uid, "resourceVersion": "1"}, "status": {"restarts": 1}}
    stored["metadata"].pop("resourceVersion")
    user.call("PATCH", user.path("TFJob", "mnist", "status"), stored, MERGE)
    lose_answers(rest, monkeypatch, "PATCH", before=True)
    with pytest.raises(Unavailable, match="lost"):
        await gateway.store_status(TENSORFLOW, user.namespace, "mnist", patch)


def lose_answers(rest, monkeypatch, verb: str, *, before: bool = False) -> None:
    """Drop the responses to requests of this verb, or with `before` the requests themselves."""
    write = rest.write

    async def calls(said, *others):
        if said != verb:
            return await write(said, *others)
        if not before:
            await write(said, *others)
        raise Unavailable("the answer was lost")

    monkeypatch.setattr(rest, "write", calls)


class Faltering:
    """A connection that drops the first response to each kind of write; `sent` are the verbs."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    async def write(self, verb: str, *_request: object) -> bytes:
        self.sent.append(verb)
        if self.sent.count(verb) == 1:
            raise Unavailable("no answer")
        return b"{}"


async def test_an_event_is_sent_again_when_nobody_answers(monkeypatch):
    monkeypatch.setattr(flow_control, "RETRY_DELAY", 0.0)
    gateway = ApiClient(rest := Faltering(), TokenBucket())
    await gateway.create_event("ml", {})
    await gateway.update_event("ml", "e", {"count": 2})
    assert rest.sent == ["POST", "POST", "PATCH", "PATCH"]


async def test_who_may_not_write_any_more_sends_nothing_but_about_the_lease(rest, user):
    gateway = ApiClient(rest, TokenBucket(), lambda: False)
    job = a_job(user)
    status = {"metadata": {"uid": job.uid, "resourceVersion": job.version}, "status": {"restarts": 1}}
    about = {"metadata": {"name": "e"}, "involvedObject": {"name": "mnist", "namespace": user.namespace}}
    for write in (
        gateway.create_pod(user.namespace, builders.pod_maker(TENSORFLOW, job, JobDefaults())(Replica("Worker", 0), 0)),
        gateway.create_secret(user.namespace, {"metadata": {"name": "s"}}),
        gateway.delete_job(TENSORFLOW, user.namespace, job.name, job.uid, job.version),
        gateway.store_status(TENSORFLOW, user.namespace, job.name, status),
        gateway.create_event(user.namespace, about),
        gateway.update_event(user.namespace, "e", {"count": 2}),
        gateway.update_dependent(CONFIG_MAPS, user.namespace, "c", {}),
    ):
        with pytest.raises(NotLeader, match="was not sent"):
            await write
    assert user.pods() == user.core("secrets") == user.core("events") == []
    assert "status" not in user.job("TFJob", "mnist")
    assert await gateway.write_lease(user.namespace, "l", {"metadata": {"name": "l"}, "spec": {}})
