"""Pods with the finalizer, on a real API server, and `trainshed remove-finalizers`."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from click.testing import CliRunner

from rig.hand import MERGE, eventually
from rig.jobs import tfjob
from trainshed.api import read
from trainshed.api.job import Member
from trainshed.api.pod import RESULT
from trainshed.api.site import Site
from trainshed.cli import cli
from trainshed.cluster import Conflict, NameTaken
from trainshed.cluster.holds import bereaved, let_go
from trainshed.frameworks.tensorflow import TENSORFLOW
from trainshed.plan import build

SITE = Site(keep_results=True)


async def a_held_pod(gateway, hand, name="mnist", *others):
    """The only pod of a job that asks for it, which somebody has deleted; `others` hold it as well."""
    wanted = tfjob(name, Worker=1)
    wanted["metadata"]["annotations"] = {"trainshed.dev/keep-results": "true"}
    hand.create(wanted)
    job = read.job(hand.job("TFJob", name), TENSORFLOW, SITE)
    body = build.pods(TENSORFLOW, job, SITE)(Member("Worker", 0), 0).body
    body["metadata"]["finalizers"] += others
    await gateway.create_pod(hand.namespace, body)
    hand.set_pod_status(f"{name}-worker-0", {"phase": "Succeeded"})
    pod = (await gateway.read_pods(hand.namespace, name))[0][0]
    return await gateway.delete_pod(hand.namespace, pod.name, pod.uid, None, "")


async def run(*arguments: str):
    """The command runs a loop of its own."""
    return await asyncio.to_thread(CliRunner().invoke, cli, arguments)


def finalizers(hand, name="mnist-worker-0"):
    pod = hand.pod(name)
    return pod and pod["metadata"].get("finalizers", [])


async def test_a_held_pod_outlives_its_deletion_until_it_is_let_go(gateway, hand):
    pod = await a_held_pod(gateway, hand)
    assert (pod.held, pod.deleting, pod.finalizers, finalizers(hand)) == (True, True, (), [RESULT])
    assert await let_go(gateway, pod) is None
    assert hand.pod(pod.name) is None
    assert await let_go(gateway, pod) is None, "it is gone already"


async def test_one_that_has_lost_its_label_is_let_go_by_whoever_wants_its_name(gateway, hand):
    pod = await a_held_pod(gateway, hand)
    hand.call("PATCH", f"/api/v1/namespaces/{hand.namespace}/pods/{pod.name}", {"metadata": {"labels": None}}, MERGE)
    job = read.job(hand.job("TFJob", "mnist"), TENSORFLOW, SITE)
    body = build.pods(TENSORFLOW, job, SITE)(Member("Worker", 0), 1).body
    with pytest.raises(NameTaken):
        await gateway.create_pod(hand.namespace, body)
    made = await gateway.create_pod(hand.namespace, body)
    assert made.uid != pod.uid


async def test_the_finalizers_of_others_stay(gateway, hand):
    pod = await a_held_pod(gateway, hand, "mnist", "example.com/other")
    left = await let_go(gateway, pod)
    assert (left.held, left.finalizers, finalizers(hand)) == (False, ("example.com/other",), ["example.com/other"])


async def test_a_pod_that_has_changed_or_is_another_is_not_let_go(gateway, hand):
    pod = await a_held_pod(gateway, hand)
    for other in (replace(pod, version="1"), replace(pod, version="1", uid="another")):
        with pytest.raises(Conflict):
            await let_go(gateway, other)
    assert finalizers(hand) == [RESULT]


async def test_a_pod_is_bereaved_once_its_very_job_is_gone(gateway, hand):
    pod = await a_held_pod(gateway, hand)
    assert await bereaved(gateway, pod) is False
    hand.delete_job("TFJob", "mnist")
    eventually(lambda: hand.job("TFJob", "mnist") is None)
    assert await bereaved(gateway, pod) is True
    hand.create(tfjob("mnist", Worker=1))
    assert await bereaved(gateway, pod) is True, "another of its name is not its job"


async def test_release_lets_go_of_whom_nobody_waits_for_and_of_all_if_it_is_told_to(gateway, hand, server):
    await a_held_pod(gateway, hand, "gone")
    await a_held_pod(gateway, hand, "there")
    hand.delete_job("TFJob", "gone")
    eventually(lambda: hand.job("TFJob", "gone") is None)
    arguments = ["remove-finalizers", "--kubeconfig", str(server.kubeconfig), "--namespace", hand.namespace]
    first = await run(*arguments)
    assert (first.exit_code, first.stdout.splitlines()[-1]) == (0, "Removed the finalizer from 1 pod.")
    assert f"pod {hand.namespace}/gone-worker-0: finalizer removed" in first.stdout
    assert (hand.pod("gone-worker-0"), finalizers(hand, "there-worker-0")) == (None, [RESULT])
    assert "Removed the finalizer from 0 pods." in (await run(*arguments)).stdout
    assert "Removed the finalizer from 1 pod." in (await run(*arguments, "--include-active-jobs")).stdout
    assert hand.pod("there-worker-0") is None
