"""An elastic job is scaled by the CPU that its containers really use, as metrics-server reads it from the kubelets."""

from __future__ import annotations

import time
from collections.abc import Iterator
from http import HTTPStatus

import pytest

from support import UserClient
from support.jobs import pod_spec, pytorchjob
from support.kubectl import PATIENCE, Kubectl
from support.pods import names
from support.user_client import Refused, always, eventually
from testbed.images import PYTHON

from .deployments import metrics_server as installed

pytestmark = pytest.mark.long

NAME = "elastic"
TARGET = {"type": "Utilization", "averageUtilization": 50}
METRICS = [{"type": "Resource", "resource": {"name": "cpu", "target": TARGET}}]
#: Under load a container uses all that its limit allows: 150 % of its request.
CPU = {"requests": {"cpu": "100m"}, "limits": {"cpu": "150m"}}
#: Uses a CPU until a file exists.
LOAD = "while [ ! -e /tmp/idle ]; do :; done; sleep 3600"
#: The autoscaler of the test bed removes pods after 30 s of less load; Kubernetes' own default is 300 s.
SLOW = 600


@pytest.fixture(scope="module", autouse=True)
def metrics(kubeconfig: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """metrics-server on the cluster."""
    with installed(Kubectl(kubeconfig), tmp_path_factory.mktemp("metrics-server")):
        yield


def test_an_elastic_job_grows_with_its_real_load_and_shrinks_again(user: UserClient, kubectl: Kubectl) -> None:
    body = pytorchjob(NAME, Worker=1)
    body["spec"]["elasticPolicy"] = {"minReplicas": 1, "maxReplicas": 3, "metrics": METRICS}
    command = ["sh", "-c", LOAD]
    container = pod_spec(body, "Worker")["containers"][0]
    container |= {"image": PYTHON, "command": command, "imagePullPolicy": "IfNotPresent", "resources": CPU}
    began = time.monotonic()
    user.create(body)
    eventually(lambda: usage(user).get(f"{NAME}-worker-0", 0) > 50, PATIENCE, every=1)
    print(f"after {time.monotonic() - began:.0f} s:", kubectl("top", "pods"))
    eventually(lambda: len(running(user)) == 3, SLOW, every=1)
    print(f"three workers after {time.monotonic() - began:.0f} s")
    assert user.job("PyTorchJob", NAME)["status"]["replicaStatuses"]["Worker"]["active"] == 3
    for pod in running(user):
        kubectl("exec", pod, "--", "touch", "/tmp/idle")
    idle = time.monotonic()
    eventually(lambda: names(user.pods(NAME)) == [f"{NAME}-worker-0"], SLOW, every=1)
    print(f"one worker {time.monotonic() - idle:.0f} s after the load has ended:", kubectl("top", "pods"))
    always(lambda: user.state("PyTorchJob", NAME) == "Running", 3)
    assert user.job("PyTorchJob", NAME)["status"].get("totalRestarts", 0) == 0


def usage(user: UserClient) -> dict[str, int]:
    """The CPU that each pod uses, in thousandths, as metrics-server says; empty before it knows any."""
    try:
        items = user.call("GET", f"/apis/metrics.k8s.io/v1beta1/namespaces/{user.namespace}/pods")["items"]
    except Refused as refused:
        if refused.code != HTTPStatus.SERVICE_UNAVAILABLE:
            raise
        return {}
    found = {item["metadata"]["name"]: item["containers"][0]["usage"]["cpu"] for item in items}
    return {name: int(cpu.removesuffix("n") or 0) // 10**6 for name, cpu in found.items()}


def running(user: UserClient) -> list[str]:
    """The names of the pods that run."""
    return [pod["metadata"]["name"] for pod in user.pods(NAME) if pod["status"].get("phase") == "Running"]
