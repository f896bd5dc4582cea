"""The autoscaler of an elastic job (TO-103 to TO-105)."""

from __future__ import annotations

import pytest

from support import FakeKubelet, UserClient
from support.jobs import KINDS, job, pod_spec
from support.pods import env
from support.user_client import always, eventually

from .created_objects import SCALING, created_pods, list_by_name, owners, services
from .row import same

pytestmark = pytest.mark.usefixtures("operator")

PT, PD = "PyTorchJob", "PaddleJob"
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
BOUNDS = {"minReplicas": 1, "maxReplicas": 3, "maxRestarts": 3, "rdzvBackend": "c10d"}


def elastic(kind: str, **policy: object) -> dict:
    """An elastic job of one worker whose port is 8080."""
    wanted = job(kind, "elastic-job", restart="OnFailure", Worker=1)
    wanted["spec"]["elasticPolicy"] = BOUNDS | policy
    container = KINDS[kind].container
    port = {PT: "pytorchjob-port", PD: "master"}[kind]
    (pod_spec(wanted, "Worker")["containers"][0]).update(name=container, ports=[{"name": port, "containerPort": 8080}])
    return wanted


def scalers(user: UserClient) -> dict[str, dict]:
    """The autoscalers by name."""
    return list_by_name(user, "horizontalpodautoscalers", SCALING)


@same("TO-103", "an elastic PyTorchJob with metrics has a pod, a Service, an autoscaler, and what torchrun reads")
def test_an_elastic_job_has_an_autoscaler(user: UserClient):
    pod = created_pods(user, elastic(PT, metrics=[CPU]), "elastic-job-worker-0")["elastic-job-worker-0"]
    eventually(lambda: list(services(user)) == ["elastic-job-worker-0"])
    scaler = scalers(user)["elastic-job"]
    assert scaler["spec"] == {
        "minReplicas": 1,
        "maxReplicas": 3,
        "scaleTargetRef": {"apiVersion": "kubeflow.org/v1", "kind": PT, "name": "elastic-job"},
        "metrics": [CPU],
    }
    assert scaler["metadata"]["ownerReferences"] == owners(user, PT, "elastic-job")
    expected = {
        "PET_RDZV_BACKEND": "c10d",
        "PET_NNODES": "1:3",
        "PET_RDZV_ENDPOINT": "elastic-job-worker-0:8080",
        "PET_MAX_RESTARTS": "3",
    }
    assert expected.items() <= env(pod).items()


@same("TO-104", "the autoscaler goes while the job is suspended, and is there again once it is resumed")
def test_a_suspended_job_has_no_autoscaler(user: UserClient, kubelet: FakeKubelet):
    user.create(elastic(PT, metrics=[CPU]))
    eventually(lambda: list(scalers(user)) == ["elastic-job"])
    user.patch_job(PT, "elastic-job", {"spec": {"runPolicy": {"suspend": True}}})
    eventually(lambda: not scalers(user))
    user.patch_job(PT, "elastic-job", {"spec": {"runPolicy": {"suspend": False}}})
    eventually(lambda: list(scalers(user)) == ["elastic-job"])


@same("TO-105", "there is no autoscaler without metrics, and none for a PaddleJob with them")
@pytest.mark.parametrize(("kind", "policy"), [(PT, {}), (PD, {"metrics": [CPU]})])
def test_others_have_no_autoscaler(user: UserClient, kubelet: FakeKubelet, kind: str, policy: dict):
    wanted = elastic(kind, **policy)
    if kind == PD:
        del wanted["spec"]["elasticPolicy"]["rdzvBackend"]
    user.create(wanted)
    eventually(lambda: user.state(kind, "elastic-job") == "Running")
    always(lambda: not scalers(user), during=0.5)
