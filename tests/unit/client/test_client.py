"""Each operation on a real API server, with its results and errors."""

from __future__ import annotations

import asyncio

import pytest

from support.builders import creation_of
from support.jobs import tfjob
from support.replace import replace
from support.user_client import MERGE, eventually
from trainshed.api import parse
from trainshed.api.framework import JobDefaults, PodNames
from trainshed.api.job import Replica
from trainshed.api.objects import AUTOSCALERS, CONFIG_MAPS, VOLCANO_GROUPS
from trainshed.client import Conflict, Forbidden, Invalid, LabelRemoved, NameConflict, NotFound, Unavailable
from trainshed.frameworks.tensorflow import TENSORFLOW
from trainshed.plan import builders, dependents


def a_job(user, name="mnist", workers=1):
    """Create a job on the server; return it and the parsed job."""
    user.create(tfjob(name, Worker=workers))
    return parse.job(user.job("TFJob", name), TENSORFLOW, JobDefaults())


def a_pod(job):
    """Return the creation of the job's first pod."""
    return builders.pod_maker(TENSORFLOW, job, JobDefaults())(Replica("Worker", 0), 3)


@pytest.mark.fault("B3")
async def test_a_pod_is_made_once_however_often_it_is_asked_for(gateway, user):
    wanted = a_pod(a_job(user))
    first = await gateway.create_pod(user.namespace, wanted)
    again = await gateway.create_pod(user.namespace, wanted)
    assert first.uid == again.uid
    assert (first.name, first.role, first.index, first.attempt) == ("mnist-worker-0", "worker", 0, 3)
    assert len(user.pods()) == 1


async def test_an_existing_secret_is_not_changed(gateway, user):
    job = a_job(user)
    for content in ("b25l", "dHdv"):
        head = {"name": "mnist-ssh", "ownerReferences": [builders.owner_reference(job)]}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": head, "data": {"key": content}}
        await gateway.create_secret(user.namespace, body)
    (secret,) = user.core("secrets")
    assert secret["data"] == {"key": "b25l"}


async def test_creating_and_deleting_a_service_is_idempotent(gateway, user):
    job = a_job(user)
    service = builders.service_maker(TENSORFLOW, job)(Replica("Worker", 0)).body
    first = await gateway.create_service(user.namespace, service)
    assert (await gateway.create_service(user.namespace, service)).uid == first.uid
    assert await gateway.delete_service(user.namespace, first.name, first.uid) is None
    assert await gateway.delete_service(user.namespace, first.name, first.uid) is None


async def test_dependents_are_created_once_updated_and_deleted(gateway, user):
    job = a_job(user, workers=65)
    (wish,) = TENSORFLOW.hooks.dependents(job, JobDefaults(), PodNames())
    wish = replace(wish, content={"data": wish.content["data"]})
    body = dependents.body(TENSORFLOW, job, wish)
    first = await gateway.create_dependent(CONFIG_MAPS, user.namespace, body)
    assert (await gateway.create_dependent(CONFIG_MAPS, user.namespace, body)).uid == first.uid
    assert (first.name, first.job, first.document["data"]) == (wish.name, "mnist", wish.content["data"])
    patch = {"metadata": {"uid": first.uid, "resourceVersion": first.version}, "data": {"other": "1"}}
    mended = await gateway.update_dependent(CONFIG_MAPS, user.namespace, wish.name, patch)
    assert mended.document["data"] == wish.content["data"] | {"other": "1"}
    with pytest.raises(Conflict):
        await gateway.update_dependent(CONFIG_MAPS, user.namespace, wish.name, patch)
    assert await gateway.delete_dependent(CONFIG_MAPS, user.namespace, wish.name, first.uid) is None
    assert await gateway.delete_dependent(CONFIG_MAPS, user.namespace, wish.name, first.uid) is None
    with pytest.raises(NotFound):
        await gateway.update_dependent(CONFIG_MAPS, user.namespace, wish.name, patch)


async def test_a_dependent_of_v1_is_returned_as_it_is(gateway, user):
    job = a_job(user, workers=65)
    (wish,) = TENSORFLOW.hooks.dependents(job, JobDefaults(), PodNames())
    body = dependents.body(TENSORFLOW, job, wish)
    theirs = {"name": wish.name, "ownerReferences": body["metadata"]["ownerReferences"], "labels": {"app": "mnist"}}
    made = user.make("configmaps", {"metadata": theirs, "data": {"hosts": "a"}})["metadata"]
    found = await gateway.create_dependent(CONFIG_MAPS, user.namespace, body)
    assert (found.uid, found.version, found.job) == (made["uid"], made["resourceVersion"], "")


async def test_a_strangers_pod_of_that_name_is_not_ours(gateway, user):
    container = {"name": "c", "image": "x"}
    user.make("pods", {"metadata": {"name": "mnist-worker-0"}, "spec": {"containers": [container]}})
    with pytest.raises(NameConflict, match="mnist-worker-0 already exists and is not controlled by this job"):
        await gateway.create_pod(user.namespace, a_pod(a_job(user)))


async def test_seek_pod_checks_the_name_and_the_controller(gateway, user):
    job = a_job(user)
    await gateway.seek_pod(user.namespace, "mnist-worker-0", job.uid)
    pod = await gateway.create_pod(user.namespace, a_pod(job))
    with pytest.raises(Unavailable, match="the watch has not delivered it yet"):
        await gateway.seek_pod(user.namespace, pod.name, job.uid)
    user.call("PATCH", f"/api/v1/namespaces/{user.namespace}/pods/{pod.name}", {"metadata": {"labels": None}}, MERGE)
    with pytest.raises(LabelRemoved, match="was removed"):
        await gateway.seek_pod(user.namespace, pod.name, job.uid)
    await gateway.seek_pod(user.namespace, pod.name, "another-uid")


async def test_a_quota_and_an_invalid_template_are_different_errors(gateway, user):
    wanted = a_pod(a_job(user))
    spoilt = {**wanted.body, "spec": {**wanted.body["spec"], "restartPolicy": "Sometimes"}}
    with pytest.raises(Invalid, match="restartPolicy"):
        await gateway.create_pod(user.namespace, creation_of(spoilt))
    user.make("resourcequotas", {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}})
    path = f"/api/v1/namespaces/{user.namespace}/resourcequotas/none"
    eventually(lambda: "hard" in user.call("GET", path).get("status", {}))
    with pytest.raises(Forbidden, match="exceeded quota") as denied:
        await gateway.create_pod(user.namespace, wanted)
    assert denied.value.reason == "QuotaExceeded"


async def test_only_the_pod_of_that_uid_is_deleted(gateway, user):
    pod = await gateway.create_pod(user.namespace, a_pod(a_job(user)))
    assert await gateway.delete_pod(user.namespace, pod.name, "another-uid", None, "") is None
    assert user.pod(pod.name)
    user.bind(pod.name, "node-0")
    user.set_pod_status(pod.name, {"phase": "Running"})
    remains = await gateway.delete_pod(user.namespace, pod.name, pod.uid, 3, "")
    assert remains.deleting
    assert user.pod(pod.name)["metadata"]["deletionGracePeriodSeconds"] == 3
    user.delete("pods", pod.name, grace=0)
    assert await gateway.delete_pod(user.namespace, pod.name, pod.uid, 3, "") is None


async def test_the_version_is_a_precondition_of_a_deletion_if_given(gateway, user):
    pod = await gateway.create_pod(user.namespace, a_pod(a_job(user)))
    user.set_pod_status(pod.name, {"phase": "Succeeded"})
    with pytest.raises(Conflict):
        await gateway.delete_pod(user.namespace, pod.name, pod.uid, None, pod.version)
    assert user.pod(pod.name)
    now = user.pod(pod.name)["metadata"]["resourceVersion"]
    await gateway.delete_pod(user.namespace, pod.name, pod.uid, None, now)
    assert user.pod(pod.name) is None


async def test_a_status_is_stored_only_at_the_version_that_was_read(gateway, user):
    job = a_job(user)
    patch = {"metadata": {"uid": job.uid, "resourceVersion": job.version}, "status": {"restarts": 1}}
    stored = await gateway.store_status(TENSORFLOW, user.namespace, job.name, patch)
    assert stored["status"] == {"restarts": 1}
    with pytest.raises(Conflict):
        await gateway.store_status(TENSORFLOW, user.namespace, job.name, patch)
    with pytest.raises(NotFound):
        await gateway.store_status(TENSORFLOW, user.namespace, "other", patch)


async def test_a_crd_that_drops_status_fields_is_logged_once(gateway, user, rest, monkeypatch, caplog):
    async def without_restarts(*_: object) -> bytes:
        return b'{"status": {"ready": "1/1"}}'

    patch = {"status": {"restarts": 1, "ready": "1/1", "failure": None}}
    monkeypatch.setattr(rest, "write", without_restarts)
    for _ in range(2):
        await gateway.store_status(TENSORFLOW, user.namespace, "mnist", patch)
    (line,) = caplog.messages
    assert line.startswith("the CRD of tfjobs drops status fields (restarts)")


async def test_only_the_controller_reference_decides_whose_a_pod_is(gateway, user):
    body = a_pod(a_job(user)).body
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "not-the-controller"}
    body["metadata"]["ownerReferences"].insert(0, other)
    first = await gateway.create_pod(user.namespace, creation_of(body))
    assert (await gateway.create_pod(user.namespace, creation_of(body))).uid == first.uid


async def test_the_pods_of_a_job_are_read_uncached(gateway, user):
    job = a_job(user)
    assert (await gateway.read_pods(user.namespace, job.name))[0] == []
    made = await gateway.create_pod(user.namespace, a_pod(job))
    user.make("pods", {"metadata": {"name": "other"}, "spec": {"containers": [{"name": "c", "image": "x"}]}})
    found, version = await gateway.read_pods(user.namespace, job.name)
    assert [pod.uid for pod in found] == [made.uid]
    assert int(version) >= int(made.version)


async def test_a_job_is_read_uncached_and_deleted_at_its_version(gateway, user):
    job = a_job(user)
    where = (TENSORFLOW, user.namespace, job.name)
    assert (await gateway.read_job(*where))["metadata"]["uid"] == job.uid
    user.patch_job("TFJob", job.name, {"spec": {"runPolicy": {"ttlSecondsAfterFinished": 3600}}})
    version = (await gateway.read_job(*where))["metadata"]["resourceVersion"]
    for uid, known in ((job.uid, job.version), ("another-uid", version)):
        with pytest.raises(Conflict):
            await gateway.delete_job(*where, uid, known)
    assert await gateway.read_job(*where)
    await gateway.delete_job(*where, job.uid, version)
    assert await gateway.read_job(*where) is None
    with pytest.raises(NotFound):
        await gateway.delete_job(*where, job.uid, version)


async def test_only_the_events_about_objects_of_a_kind_that_are_not_scheduled_are_read(gateway, user):
    for name, reason, uid in (("e1", "Unschedulable", "u1"), ("e2", "Scheduled", "u1"), ("e3", "Unschedulable", "u2")):
        about = {"kind": "PodGroup", "name": "mnist", "namespace": user.namespace, "uid": uid}
        event = {"metadata": {"name": name}, "involvedObject": about, "reason": reason, "message": name}
        await gateway.create_event(user.namespace, event)
    found = []
    await gateway.read_events(user.namespace, "PodGroup", found.append)
    assert [(event["message"], event["involvedObject"]["uid"]) for event in found] == [("e1", "u1"), ("e3", "u2")]


async def test_events_are_created_and_updated(gateway, user):
    about = {"kind": "TFJob", "name": "mnist", "namespace": user.namespace}
    event = {"metadata": {"name": "e1"}, "involvedObject": about, "reason": "R", "message": "m", "count": 1}
    await gateway.create_event(user.namespace, event)
    await gateway.update_event(user.namespace, "e1", {"count": 2})
    assert [item["count"] for item in user.core("events") if item["metadata"]["name"] == "e1"] == [2]
    with pytest.raises(NotFound):
        await gateway.update_event(user.namespace, "e2", {"count": 2})


async def test_the_version_is_a_precondition_of_writing_a_lease(gateway, user):
    assert await gateway.read_lease(user.namespace, "l") is None
    lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}}
    made = await gateway.write_lease(user.namespace, "l", lease)
    with pytest.raises(Conflict):
        await gateway.write_lease(user.namespace, "l", lease)
    renewed = await gateway.write_lease(user.namespace, "l", {**made, "spec": {"holderIdentity": "b"}})
    with pytest.raises(Conflict):
        await gateway.write_lease(user.namespace, "l", made)
    assert (await gateway.read_lease(user.namespace, "l"))["spec"] == renewed["spec"]


async def test_many_pods_are_created_concurrently(gateway, user):
    job = a_job(user, workers=40)
    make = builders.pod_maker(TENSORFLOW, job, JobDefaults())
    wanted = [make(Replica("Worker", index), 0) for index in range(40)]
    pods = await asyncio.gather(*(gateway.create_pod(user.namespace, pod) for pod in wanted))
    assert len({pod.uid for pod in pods}) == 40


async def test_serves_reports_installed_crds(gateway):
    assert await gateway.serves(AUTOSCALERS)
    assert not await gateway.serves(replace(AUTOSCALERS, plural="podgroups"))
    assert not await gateway.serves(VOLCANO_GROUPS)
