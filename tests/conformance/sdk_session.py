"""A user's session with the unmodified v1 SDK, run in its own environment: sdk_session.py KUBECONFIG NAMESPACE."""

from __future__ import annotations

import sys
import time

from kubeflow.training import (
    KubeflowOrgV1PyTorchJob,
    KubeflowOrgV1PyTorchJobSpec,
    KubeflowOrgV1ReplicaSpec,
    KubeflowOrgV1RunPolicy,
    TrainingClient,
)
from kubernetes import client

NAME = "from-the-sdk"
SCRIPT = "import os, time; print('rank', os.environ['RANK'], flush=True); time.sleep(4)"


def job(namespace: str) -> KubeflowOrgV1PyTorchJob:
    """A master and a worker that print their rank."""
    container = client.V1Container(
        name="pytorch", image="python:3.11-slim", image_pull_policy="IfNotPresent", command=["python", "-c", SCRIPT]
    )
    template = client.V1PodTemplateSpec(spec=client.V1PodSpec(containers=[container]))
    group = KubeflowOrgV1ReplicaSpec(replicas=1, restart_policy="OnFailure", template=template)
    spec = KubeflowOrgV1PyTorchJobSpec(
        run_policy=KubeflowOrgV1RunPolicy(clean_pod_policy="None"),
        pytorch_replica_specs={"Master": group, "Worker": group},
    )
    return KubeflowOrgV1PyTorchJob(
        api_version="kubeflow.org/v1",
        kind="PyTorchJob",
        metadata=client.V1ObjectMeta(name=NAME, namespace=namespace),
        spec=spec,
    )


def main(kubeconfig: str, namespace: str) -> None:
    """Every call that users make, one after another."""
    training = TrainingClient(config_file=kubeconfig, namespace=namespace, job_kind="PyTorchJob")
    training.create_job(job(namespace))
    training.wait_for_job_conditions(NAME, expected_conditions={"Created"}, polling_interval=1)
    ends = training.wait_for_job_conditions(NAME, polling_interval=1, timeout=120)
    assert training.is_job_succeeded(NAME), ends.status
    assert not training.is_job_failed(NAME)
    pods = training.get_job_pods(NAME)
    assert sorted(pod.metadata.name for pod in pods) == [f"{NAME}-master-0", f"{NAME}-worker-0"], pods
    masters = training.get_job_pod_names(NAME, is_master=True)
    assert masters == [f"{NAME}-master-0"], masters
    logs, _ = training.get_job_logs(NAME)
    assert logs == {f"{NAME}-master-0": "rank 0\n"}, logs
    _, events = training.get_job_logs(NAME, verbose=True)
    assert {f"pytorchjob/{NAME}", f"pod/{NAME}-master-0"} <= {key.lower() for key in events}, events
    assert any("Created pod" in message for message in events[f"pytorchjob/{NAME}"]), events
    assert [found.metadata.name for found in training.list_jobs()] == [NAME]
    patched = training.get_job(NAME)
    patched.metadata.labels = {"seen": "yes"}
    training.update_job(patched, NAME)
    assert training.get_job(NAME).metadata.labels == {"seen": "yes"}
    training.delete_job(NAME)
    end = time.monotonic() + 60
    while training.list_jobs() and time.monotonic() < end:
        time.sleep(0.5)
    assert not training.list_jobs()
    print("the SDK is content")


if __name__ == "__main__":
    main(*sys.argv[1:])
