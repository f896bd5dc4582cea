"""Jobs of all kinds live to their end on the simulated server, under the operator as it is in production."""

from __future__ import annotations

import time

import pytest

from simulation.stage import Kubelet, Stage
from trainshed.frameworks import FRAMEWORKS

KINDS = {framework.kind: framework for framework in FRAMEWORKS}
#: What each kind is made of, and whose success decides.
CASTS = {
    "TFJob": ({"Chief": 1, "PS": 1, "Worker": 2}, "-chief-0"),
    "PyTorchJob": ({"Master": 1, "Worker": 2}, "-master-0"),
    "XGBoostJob": ({"Master": 1, "Worker": 2}, "-master-0"),
    "PaddleJob": ({"Master": 1, "Worker": 2}, "-master-0"),
    "JAXJob": ({"Worker": 3}, "-worker-0"),
    "MPIJob": ({"Launcher": 1, "Worker": 2}, "-launcher"),
}


def a_job(kind: str, roles: dict[str, int], **policy) -> dict:
    container = {"name": KINDS[kind].container.name, "image": "x:1"}
    group = {"restartPolicy": "Never", "template": {"spec": {"containers": [container]}}}
    replicas = {role: {**group, "replicas": count} for role, count in roles.items()}
    spec = {KINDS[kind].field: replicas, "runPolicy": policy}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": kind,
        "metadata": {"name": "job", "namespace": "ml"},
        "spec": spec,
    }


def states(job: dict) -> list[str]:
    conditions = job.get("status", {}).get("conditions", [])
    return [condition["type"] for condition in conditions if condition["status"] == "True"]


def live(stage: Stage, kind: str, **policy) -> dict:
    """Let a job live until it has succeeded."""
    roles, decides = CASTS[kind]
    Kubelet(stage, {decides: 2.0, "-worker-1": 2.0, "-worker-2": 2.0} if kind == "JAXJob" else {decides: 2.0})
    stage.start()
    stage.submit(a_job(kind, roles, **policy))
    assert stage.loop.run_until(lambda: "Succeeded" in states(stage.job(kind, "job") or {}), 60), stage.job(kind, "job")
    found = stage.job(kind, "job")
    assert found is not None
    return found


@pytest.mark.parametrize("kind", sorted(CASTS))
def test_a_job_of_each_kind_lives_to_its_end(kind):
    stage = Stage()
    job = live(stage, kind, cleanPodPolicy="All")
    assert states(job) == ["Created", "Succeeded"]
    stage.loop.run_for(5)
    assert stage.server.objects("pods") == []
    (lease,) = stage.server.objects("leases")
    assert lease["spec"]["leaseTransitions"] == 1
    stage.close()


def test_a_job_that_is_deleted_leaves_nothing():
    stage = Stage()
    live(stage, "MPIJob")
    stage.server.request("user", "DELETE", "/apis/kubeflow.org/v1/namespaces/ml/mpijobs/job")
    stage.loop.run_for(5)
    for plural in ("mpijobs", "pods", "services", "configmaps", "roles", "rolebindings", "serviceaccounts"):
        assert stage.server.objects(plural) == [], plural
    stage.close()


def test_the_same_seed_makes_the_same_play():
    def play(seed: int) -> list:
        stage, told = Stage(seed), []
        stage.server.requests.append(lambda actor, request: told.append((actor, request)))
        live(stage, "PyTorchJob")
        stage.close()
        return told

    assert play(3) == play(3)
    assert play(3) != play(4)


def test_so_many_lives_go_into_a_second():
    began = time.process_time()
    for seed in range(10):
        stage = Stage(seed)
        live(stage, "PyTorchJob")
        stage.close()
    rate = 10 / (time.process_time() - began)
    print(f"{rate:.0f} small lives a second")
    assert rate > 5, "far slower than any change of the machine's mood could make it"
