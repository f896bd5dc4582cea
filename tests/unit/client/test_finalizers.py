"""Pods with the finalizer, on a real API server, and `trainshed remove-finalizers`."""

from __future__ import annotations

import asyncio

import pytest
from click.testing import CliRunner

from support.builders import creation_of
from support.jobs import tfjob
from support.replace import replace
from support.user_client import MERGE, eventually
from trainshed.api import parse
from trainshed.api.framework import JobDefaults
from trainshed.api.job import Replica
from trainshed.api.objects import JOB_NAME_LABEL, JOB_TRACKING_FINALIZER
from trainshed.cli import cli
from trainshed.client import Conflict, Invalid, NameConflict
from trainshed.client.finalizers import release_finalizer, release_unselected
from trainshed.controller.orphans import owner_is_gone
from trainshed.frameworks.tensorflow import TENSORFLOW
from trainshed.plan import builders

SITE = JobDefaults(track_results=True)


async def a_held_pod(gateway, user, name="mnist", *others):
    """Create a job that keeps results, and delete its only pod, which has `others` as finalizers as well."""
    wanted = tfjob(name, Worker=1)
    wanted["metadata"]["annotations"] = {"trainshed.dev/track-results": "true"}
    user.create(wanted)
    job = parse.job(user.job("TFJob", name), TENSORFLOW, SITE)
    body = builders.pod_maker(TENSORFLOW, job, SITE)(Replica("Worker", 0), 0).body
    body["metadata"]["finalizers"] += others
    await gateway.create_pod(user.namespace, creation_of(body))
    user.set_pod_status(f"{name}-worker-0", {"phase": "Succeeded"})
    pod = (await gateway.read_pods(user.namespace, name))[0][0]
    return await gateway.delete_pod(user.namespace, pod.name, pod.uid, None, "")


async def run(*arguments: str):
    """Run the command in a thread: it starts an event loop of its own."""
    return await asyncio.to_thread(CliRunner().invoke, cli, arguments)


def finalizers(user, name="mnist-worker-0"):
    pod = user.pod(name)
    return pod and pod["metadata"].get("finalizers", [])


async def test_a_deleted_pod_remains_until_its_finalizer_is_removed(gateway, user):
    pod = await a_held_pod(gateway, user)
    assert (pod.has_finalizer, pod.deleting, pod.finalizers, finalizers(user)) == (
        True,
        True,
        (),
        [JOB_TRACKING_FINALIZER],
    )
    assert await release_finalizer(gateway, pod) is None
    assert user.pod(pod.name) is None
    assert await release_finalizer(gateway, pod) is None, "it is already gone"


async def test_a_name_conflict_with_an_unlabelled_pod_removes_its_finalizer(gateway, user):
    pod = await a_held_pod(gateway, user)
    user.call("PATCH", f"/api/v1/namespaces/{user.namespace}/pods/{pod.name}", {"metadata": {"labels": None}}, MERGE)
    job = parse.job(user.job("TFJob", "mnist"), TENSORFLOW, SITE)
    wanted = builders.pod_maker(TENSORFLOW, job, SITE)(Replica("Worker", 0), 1)
    with pytest.raises(NameConflict) as conflict:
        await gateway.create_pod(user.namespace, wanted)
    assert finalizers(user) == [JOB_TRACKING_FINALIZER], "a client that reports an error writes nothing"
    await release_unselected(gateway, conflict.value)
    made = await gateway.create_pod(user.namespace, wanted)
    assert made.uid != pod.uid


async def test_the_finalizers_of_others_stay(gateway, user):
    pod = await a_held_pod(gateway, user, "mnist", "example.com/other")
    left = await release_finalizer(gateway, pod)
    assert (left.has_finalizer, left.finalizers, finalizers(user)) == (
        False,
        ("example.com/other",),
        ["example.com/other"],
    )


async def test_the_finalizer_of_another_pod_of_that_name_is_not_removed_and_that_of_a_changed_one_is(gateway, user):
    pod = await a_held_pod(gateway, user, "mnist", "example.com/other")
    for version in ("1", pod.version):
        with pytest.raises((Conflict, Invalid)):
            await release_finalizer(gateway, replace(pod, uid="another", version=version))
    assert JOB_TRACKING_FINALIZER in finalizers(user)
    assert not (await release_finalizer(gateway, replace(pod, version="1", finalizers=()))).has_finalizer
    assert finalizers(user) == ["example.com/other"]
    assert not (await release_finalizer(gateway, replace(pod, version="1"))).has_finalizer
    user.call(
        "PATCH", f"/api/v1/namespaces/{user.namespace}/pods/{pod.name}", {"metadata": {"finalizers": None}}, MERGE
    )
    assert await release_finalizer(gateway, replace(pod, version="1")) is None


async def test_a_pod_is_orphaned_once_the_job_with_its_uid_is_gone(gateway, user):
    pod = await a_held_pod(gateway, user)
    assert await owner_is_gone(gateway, pod) is False
    user.delete_job("TFJob", "mnist")
    eventually(lambda: user.job("TFJob", "mnist") is None)
    assert await owner_is_gone(gateway, pod) is True
    user.create(tfjob("mnist", Worker=1))
    assert await owner_is_gone(gateway, pod) is True, "another job of the same name is not its owner"


async def test_a_pod_whose_controller_has_no_name_is_orphaned_and_one_without_a_label_is_not(gateway, user):
    pod = await a_held_pod(gateway, user)
    assert await owner_is_gone(gateway, replace(pod, job="")) is False
    assert await owner_is_gone(gateway, replace(pod, owner_name="")) is True, "the path is that of the list of jobs"


@pytest.mark.parametrize("labels", ["with", "without"])
async def test_remove_finalizers_changes_orphans_and_on_request_all_pods(gateway, user, server, labels):
    for name in ("gone", "there"):
        pod = await a_held_pod(gateway, user, name)
        path = f"/api/v1/namespaces/{user.namespace}/pods/{pod.name}"
        if labels == "without":
            user.call("PATCH", path, {"metadata": {"labels": {JOB_NAME_LABEL: None}}}, MERGE)
    user.delete_job("TFJob", "gone")
    eventually(lambda: user.job("TFJob", "gone") is None)
    arguments = ["remove-finalizers", "--kubeconfig", str(server.kubeconfig), "--namespace", user.namespace]
    first = await run(*arguments)
    assert (first.exit_code, first.stdout.splitlines()[-1]) == (0, "Removed the finalizer from 1 pod.")
    assert f"pod {user.namespace}/gone-worker-0: finalizer removed" in first.stdout
    assert (user.pod("gone-worker-0"), finalizers(user, "there-worker-0")) == (None, [JOB_TRACKING_FINALIZER])
    assert "Removed the finalizer from 0 pods." in (await run(*arguments)).stdout
    assert "Removed the finalizer from 1 pod." in (await run(*arguments, "--include-active-jobs")).stdout
    assert user.pod("there-worker-0") is None


async def test_remove_finalizers_says_which_pods_it_could_not_change_and_changes_the_others(gateway, user, server):
    await a_held_pod(gateway, user, "gone")
    path = f"/api/v1/namespaces/{user.namespace}/pods"
    body = user.pod("gone-worker-0")["metadata"]
    owner = {**body["ownerReferences"][0], "kind": "JAXJob", "name": "a"}
    labels = {**body["labels"], "training.kubeflow.org/job-name": "a"}
    other = {"name": "a-worker-0", "labels": labels, "ownerReferences": [owner], "finalizers": [JOB_TRACKING_FINALIZER]}
    user.call("POST", path, {"metadata": other, "spec": {"containers": [{"name": "c", "image": "x"}]}})
    user.delete_job("TFJob", "gone")
    eventually(lambda: user.job("TFJob", "gone") is None)
    kubeconfig = server.kubeconfig_for("tfjobs-only", ("system:authenticated",))
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "patch"]},
        {"apiGroups": ["kubeflow.org"], "resources": ["tfjobs"], "verbs": ["get"]},
    ]
    group = "rbac.authorization.k8s.io"
    roles = f"/apis/{group}/v1/namespaces/{user.namespace}"
    user.call("POST", f"{roles}/roles", {"metadata": {"name": "tfjobs-only"}, "rules": rules})
    binding = {
        "metadata": {"name": "tfjobs-only"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "tfjobs-only"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "tfjobs-only"}],
    }
    user.call("POST", f"{roles}/rolebindings", binding)
    found = await run("remove-finalizers", "--kubeconfig", str(kubeconfig), "--namespace", user.namespace)
    assert user.pod("gone-worker-0") is None
    assert found.exit_code == 1
    assert "Removed the finalizer from 1 pod." in found.output
    assert f"pod {user.namespace}/a-worker-0: jaxjobs.kubeflow.org" in found.output
