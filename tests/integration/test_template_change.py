"""The pod template of a running job is changed."""

from __future__ import annotations

import copy

import pytest

from support import FakeKubelet, UserClient
from support.jobs import tfjob
from support.user_client import eventually

pytestmark = pytest.mark.usefixtures("shared_operator")

OLD = "The pod template was changed; until their next restart these pods have the old one: worker-{}."


def running_message(user: UserClient) -> str:
    """The message of the condition Running."""
    return user.conditions("TFJob", "t").get("Running", {}).get("message", "")


def uids(user: UserClient) -> dict[str, str]:
    """The uid of each pod."""
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in user.pods()}


@pytest.mark.fault("I4")
def test_the_status_names_pods_with_the_old_template_until_they_are_restarted(user: UserClient, kubelet: FakeKubelet):
    job = tfjob("t", Worker=2, restart="ExitCode")
    job["metadata"]["annotations"] = {"trainshed.dev/restart-scope": "Replica"}
    user.create(job)
    eventually(lambda: user.state("TFJob", "t") == "Running")
    before = uids(user)
    template = copy.deepcopy(job["spec"]["tfReplicaSpecs"]["Worker"]["template"])
    template["spec"]["containers"][0]["image"] = "localhost/other:1"
    user.patch_job("TFJob", "t", {"spec": {"tfReplicaSpecs": {"Worker": {"template": template}}}})
    eventually(lambda: running_message(user).endswith(OLD.format("0-1")))
    eventually(lambda: any(reason == "PodTemplateChanged" for _, reason, _ in user.events("t")))
    assert uids(user) == before
    kubelet.end("t-worker-1", 137)
    eventually(lambda: running_message(user).endswith(OLD.format("0")), 20)
    renewed = eventually(lambda: user.pod("t-worker-1"), 20)
    assert renewed["spec"]["containers"][0]["image"] == "localhost/other:1"
    user.delete("pods", "t-worker-0", 0)
    eventually(lambda: running_message(user).endswith(" is running."), 20)
