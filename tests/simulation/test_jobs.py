"""Jobs of all kinds run to their end on the simulated server, under the production code of the operator."""

from __future__ import annotations

import time
from functools import partial

import pytest

from simulation.cluster import Cluster
from simulation.nodes import PunctualKubelet
from simulation.server_events import observe_requests
from simulation.transport import ON_TIME, EventOutcome, ReliableNetwork
from trainshed.frameworks import FRAMEWORKS
from trainshed.memory.errors import StatusError

KINDS = {framework.kind: framework for framework in FRAMEWORKS}
#: The roles of a job of each kind, and the pod whose success decides.
ROLES = {
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


def complete(cluster: Cluster, kind: str, **policy) -> dict:
    """Run a job until it has succeeded."""
    roles, decides = ROLES[kind]
    PunctualKubelet(cluster, {decides: 2.0, "-worker-1": 2.0, "-worker-2": 2.0} if kind == "JAXJob" else {decides: 2.0})
    cluster.start()
    cluster.submit(a_job(kind, roles, **policy))
    assert cluster.loop.run_until(lambda: "Succeeded" in states(cluster.job(kind, "job") or {}), 60), cluster.job(
        kind, "job"
    )
    found = cluster.job(kind, "job")
    assert found is not None
    return found


@pytest.mark.parametrize("kind", sorted(ROLES))
def test_a_job_of_each_kind_succeeds(kind):
    cluster = Cluster()
    job = complete(cluster, kind, cleanPodPolicy="All")
    assert states(job) == ["Created", "Succeeded"]
    cluster.loop.run_for(5)
    assert cluster.server.objects("pods") == []
    (lease,) = cluster.server.objects("leases")
    assert lease["spec"]["leaseTransitions"] == 1
    cluster.close()


def test_a_deleted_job_leaves_nothing():
    cluster = Cluster()
    complete(cluster, "MPIJob")
    cluster.server.request("user", "DELETE", "/apis/kubeflow.org/v1/namespaces/ml/mpijobs/job")
    cluster.loop.run_for(5)
    for plural in ("mpijobs", "pods", "services", "configmaps", "roles", "rolebindings", "serviceaccounts"):
        assert cluster.server.objects(plural) == [], plural
    cluster.close()


def test_the_same_seed_gives_the_same_run():
    def requests(seed: int) -> list:
        cluster, found = Cluster(seed), []
        observe_requests(cluster.server, lambda actor, request: found.append((actor, request)))
        complete(cluster, "PyTorchJob")
        cluster.close()
        return found

    assert requests(3) == requests(3)
    assert requests(3) != requests(4)


def test_the_simulation_is_fast():
    began = time.process_time()
    for seed in range(10):
        cluster = Cluster(seed)
        complete(cluster, "PyTorchJob")
        cluster.close()
    rate = 10 / (time.process_time() - began)
    print(f"{rate:.0f} small jobs a second")
    assert rate > 5, "far slower than a busy machine can make it"


class LateJobs(ReliableNetwork):
    """Delivers what is new of jobs of one kind a second later, and their deletion half a minute later."""

    def line(self, process: str, path: str, line: bytes) -> EventOutcome:
        del process
        late = 30.0 if b'"DELETED"' in line else 1.0
        return EventOutcome(late) if "/pytorchjobs" in path else ON_TIME


@pytest.mark.parametrize("had_pods", [True, False])
def test_a_new_job_that_is_gone_gets_no_pods_again_while_only_the_watch_of_jobs_is_late(had_pods):
    cluster, requests, pods = Cluster(network=LateJobs()), [], "/api/v1/namespaces/ml/pods"
    complete(cluster, "TFJob")
    cluster.submit(a_job("PyTorchJob", {"Master": 1}) | {"metadata": {"name": "gone", "namespace": "ml"}})
    ask, job = partial(cluster.server.request, "user"), cluster.job("PyTorchJob", "gone")
    if had_pods:  # of another replica, which led then
        owner = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "gone", "uid": job["metadata"]["uid"]}
        metadata = {
            "labels": {"training.kubeflow.org/job-name": "gone"},
            "ownerReferences": [owner | {"controller": True}],
        }
        spec = {"containers": [{"name": "pytorch", "image": "x:1"}]}
        ask("POST", pods, body={"metadata": metadata | {"name": "gone-master-0"}, "spec": spec})
        ask("DELETE", f"{pods}/gone-master-0", {"gracePeriodSeconds": "0"})
    ask("DELETE", "/apis/kubeflow.org/v1/namespaces/ml/pytorchjobs/gone")
    ask("PATCH", f"{pods}/job-chief-0", body={"metadata": {"annotations": {"seen": "after the deletion"}}})
    observe_requests(cluster.server, lambda actor, request: requests.append((request.verb, request.path)))
    cluster.loop.run_for(20)
    assert requests.count(("POST", pods)) == (0 if had_pods else 1), "once its pod is gone it is read"
    with pytest.raises(StatusError, match="not found"):
        ask("GET", f"{pods}/gone-master-0")
    cluster.close()
