"""An elastic job is scaled by the real controller of HorizontalPodAutoscalers, by the metrics of an aggregated API."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from support.fake_kubelet import FakeKubelet
from support.jobs import pod_spec, pytorchjob
from support.operator import Operator
from support.pod_statuses import timestamp
from support.user_client import UserClient, always, eventually

from .conftest import Bed
from .metrics_api import MetricsApi

CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}


class StartedPods(FakeKubelet):
    """A kubelet that writes when a pod was started: the autoscaler ignores pods that were not."""

    def status(self, pod: dict, *, ready: bool = True) -> dict:
        """A pod that runs has been started."""
        return {"startTime": timestamp(time.time())} | super().status(pod, ready=ready)


@pytest.fixture(scope="module")
def controller_flags() -> tuple[str, ...]:
    """The autoscaler looks every second, and waits for nothing."""
    prefix = "--horizontal-pod-autoscaler"
    return (
        f"{prefix}-sync-period=1s",
        f"{prefix}-downscale-stabilization=5s",
        f"{prefix}-cpu-initialization-period=0s",
        f"{prefix}-initial-readiness-delay=0s",
    )


@pytest.fixture(scope="module")
def metrics(bed: Bed) -> Iterator[MetricsApi]:
    """The metrics of the pods of this cluster."""
    api = MetricsApi(bed.plane)
    with api.serve(bed.services):
        yield api


@pytest.fixture
def user(bed: Bed, metrics: MetricsApi, operator: Operator) -> UserClient:
    """A user in a namespace of its own."""
    return UserClient.somewhere(bed.kubeconfig)


@pytest.fixture
def pods(user: UserClient) -> Iterator[FakeKubelet]:
    """The pods of the namespace run as soon as they are created."""
    with StartedPods(user) as kubelet:
        yield kubelet


def test_an_elastic_job_grows_with_its_load_to_its_maximum_and_shrinks_again(user, metrics, pods):
    body = pytorchjob("el", Worker=1)
    body["spec"]["elasticPolicy"] = {"minReplicas": 1, "maxReplicas": 3, "metrics": [CPU]}
    pod_spec(body, "Worker")["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    metrics.cpu = "400m"
    user.create(body)
    eventually(lambda: _conditions(user).get("ScalingActive") == "True", 120)
    always(lambda: _running(user) == ["el-worker-0"], 3)
    metrics.cpu = "900m"
    eventually(lambda: len(_running(user)) == 3, 60)
    always(lambda: len(_running(user)) == 3, 3)
    assert user.job("PyTorchJob", "el")["status"]["replicaStatuses"]["Worker"]["active"] == 3
    metrics.cpu = "100m"
    eventually(lambda: _running(user) == ["el-worker-0"], 60)
    assert user.state("PyTorchJob", "el") == "Running"
    assert user.job("PyTorchJob", "el")["status"]["totalRestarts"] == 0


def _running(user: UserClient) -> list[str]:
    return [pod["metadata"]["name"] for pod in user.pods("el") if pod["status"].get("phase") == "Running"]


def _conditions(user: UserClient) -> dict[str, str]:
    path = f"/apis/autoscaling/v2/namespaces/{user.namespace}/horizontalpodautoscalers"
    found = user.call("GET", path)["items"]
    return {one["type"]: one["status"] for item in found for one in item["status"].get("conditions") or ()}
