"""Jobs with real containers in the queues of the real Kueue, which runs on the cluster as its Deployment.

A watch counts the pods that have not ended: never more than the quota, whatever a kubelet takes to start and stop them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from support import UserClient
from support.jobs import job, pod_spec
from support.kubectl import PATIENCE, Kubectl
from support.kueue import API, PRIORITY_LABEL, QUEUE_LABEL, Queues
from support.kueue_jobs import ROLES, over
from support.live_pods import LivePods
from support.user_client import eventually
from testbed.images import PYTHON

from .deployments import kueue as installed

pytestmark = pytest.mark.long

#: The MPIJobs that Kueue knows are v2beta1's, and the chart's default is v1.
KINDS = [kind for kind in ROLES if kind != "MPIJob"]
SHORT = ["sh", "-c", "sleep 2"]
ENDLESS = ["sleep", "3600"]


@pytest.fixture(scope="module")
def kueue(kubeconfig: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Kueue on the cluster, for the tests of this file."""
    with installed(Kubectl(kubeconfig), tmp_path_factory.mktemp("kueue")):
        yield


@pytest.fixture
def queues(kueue: None, user: UserClient) -> Iterator[Callable[..., Queues]]:
    """Create queues with a quota for a number of pods; at the end they are deleted after the jobs, while Kueue runs."""
    yield lambda quota, **spec: Queues(user, quota, resource="pods", **spec)
    user.delete_jobs()
    eventually(lambda: user.pods() == [], PATIENCE)
    user.call("DELETE", f"{API}/namespaces/{user.namespace}/localqueues/research")
    user.call("DELETE", f"{API}/clusterqueues/{user.namespace}")
    user.call("DELETE", f"{API}/resourceflavors/{user.namespace}")


def queued(kind: str, name: str, command: list[str] = SHORT, **fields: object) -> dict:
    """A job in the queue; `labels`, and fields of its pods."""
    body = job(kind, name, **ROLES[kind])
    body["metadata"]["labels"] = {QUEUE_LABEL: "research", **fields.pop("labels", {})}
    for role in ROLES[kind]:
        spec = pod_spec(body, role)
        spec["terminationGracePeriodSeconds"] = 1
        spec["containers"][0] |= {"image": PYTHON, "command": command, "imagePullPolicy": "IfNotPresent"}
        spec.update(fields)
    return body


def test_jobs_of_five_kinds_wait_run_and_give_their_quota_back(user: UserClient, queues: Callable[..., Queues]) -> None:
    queue = queues(4)
    bodies = [queued(kind, f"{kind.lower()}-{n}") for n in range(2) for kind in KINDS]
    with LivePods(user) as pods:
        for body in bodies:
            assert user.create(body)["spec"]["runPolicy"]["suspend"] is True
        eventually(lambda: over(user, bodies), PATIENCE, every=0.5)
        eventually(lambda: queue.usage() == 0, PATIENCE)
    print("most pods at one time:", pods.peak)
    assert pods.peak <= 4
    assert len(set(pods.created)) == 2 * len(bodies)


def test_a_job_that_is_preempted_in_its_init_containers_keeps_its_quota_until_its_pods_are_gone(
    user: UserClient, queues: Callable[..., Queues]
) -> None:
    queue = queues(2, preemption={"withinClusterQueue": "LowerPriority"})
    urgent = {"metadata": {"name": f"{user.namespace}-urgent"}, "value": 100}
    head = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass"}
    user.call("POST", f"{API}/workloadpriorityclasses", head | urgent)
    # Process 1 ignores SIGTERM without a handler, so its pod takes the whole grace period to stop.
    init = {"name": "prepare", "image": PYTHON, "command": ["sleep", "20"], "imagePullPolicy": "IfNotPresent"}
    low = queued("TFJob", "low", initContainers=[init], terminationGracePeriodSeconds=6)
    high = queued("PyTorchJob", "high", labels={PRIORITY_LABEL: urgent["metadata"]["name"]})
    with LivePods(user) as pods:
        user.create(low)
        eventually(lambda: all(_in_init_container(pod) for pod in user.pods("low")) and user.pods("low"), PATIENCE)
        first = {pod["metadata"]["uid"] for pod in user.pods("low")}
        user.create(high)
        eventually(lambda: user.state("TFJob", "low") == "Suspended", PATIENCE)
        eventually(lambda: over(user, [high]), PATIENCE)
        eventually(lambda: over(user, [low]), PATIENCE)
        eventually(lambda: queue.usage() == 0, PATIENCE)
    print("most pods at one time:", pods.peak)
    assert pods.peak == 2
    assert first.isdisjoint(pod["metadata"]["uid"] for pod in user.pods("low")), "its pods are made again"
    user.call("DELETE", f"{API}/workloadpriorityclasses/{urgent['metadata']['name']}")


def test_a_pod_whose_sidecar_runs_on_is_stopped_before_the_next_job_is_admitted(
    user: UserClient, queues: Callable[..., Queues]
) -> None:
    queue = queues(2)
    first, second = queued("PyTorchJob", "first"), queued("PyTorchJob", "second")
    sidecar = {"name": "sidecar", "image": PYTHON, "command": ENDLESS, "imagePullPolicy": "IfNotPresent"}
    for role in ROLES["PyTorchJob"]:
        pod_spec(first, role)["containers"].append(sidecar)
    with LivePods(user) as pods:
        user.create(first)
        user.create(second)
        eventually(lambda: over(user, [first, second]), PATIENCE, every=0.5)
        eventually(lambda: queue.usage() == 0, PATIENCE)
    print("most pods at one time:", pods.peak)
    assert pods.peak == 2


def _in_init_container(pod: dict) -> bool:
    states = pod["status"].get("initContainerStatuses", [])
    return any("running" in status["state"] for status in states)
