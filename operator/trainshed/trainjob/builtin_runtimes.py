"""The runtimes that come with Trainer, so that a TrainJob that names one can be read without a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .layout import NODE, STEP

#: The image of each runtime with one role, by the name of the policy.
SINGLE = {
    "torch": "pytorch/pytorch:2.13.0-cuda13.0-cudnn9-runtime",
    "jax": "nvcr.io/nvidia/jax:25.10-py3",
    "xgboost": "ghcr.io/kubeflow/trainer/xgboost-runtime",
}
OVER_SSH = ("deepspeed", "mlx")
#: The user of the images for MPI; it owns the keys, and sshd listens at a port that it may open.
USER, PORT = 1000, 2222
HOME = "/" + "home/mpiuser"  # of the images; in two pieces, since no path of a machine may stand here


def _runtime(name: str, policy: Mapping[str, Any], job_set: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": f"{name}-distributed", "labels": {"trainer.kubeflow.org/framework": name}},
        "spec": {"mlPolicy": {"numNodes": 1, **policy}, "template": {"spec": job_set}},
    }


def _job(name: str, pod: Mapping[str, Any], *, step: bool) -> dict[str, Any]:
    labels = {"metadata": {"labels": {STEP: "trainer"}}} if step else {}
    return {"name": name, "template": {**labels, "spec": {"template": {"spec": pod}}}}


def _single(name: str, image: str) -> dict[str, Any]:
    pod = {"containers": [{"name": NODE, "image": image}]}
    return _runtime(name, {name: {}}, {"replicatedJobs": [_job(NODE, pod, step=True)]})


def _over_ssh(name: str) -> dict[str, Any]:
    policy = {
        "numProcPerNode": 1,
        "mpiImplementation": "OpenMPI",
        "sshAuthMountPath": f"{HOME}/.ssh",
        "runLauncherAsNode": True,
    }
    image = f"ghcr.io/kubeflow/trainer/{name}-runtime"
    container = {"name": NODE, "image": image, "securityContext": {"runAsUser": USER}}
    daemon = {"command": ["/usr/sbin/sshd"], "args": ["-De", "-f", f"{HOME}/.sshd_config"]}
    ready = {"readinessProbe": {"tcpSocket": {"port": PORT}, "initialDelaySeconds": 5}}
    group = {"securityContext": {"fsGroup": USER}}
    node = _job(NODE, {**group, "containers": [{**container, **daemon, **ready}]}, step=False)
    launcher = _job("launcher", {**group, "containers": [container]}, step=True)
    jobs = [node, {**launcher, "dependsOn": [{"name": NODE, "status": "Ready"}]}]
    success = {"operator": "All", "targetReplicatedJobs": ["launcher"]}
    network = {"publishNotReadyAddresses": True}
    return _runtime(name, {"mpi": policy}, {"network": network, "successPolicy": success, "replicatedJobs": jobs})


#: The runtimes, by their names.
RUNTIMES = {
    runtime["metadata"]["name"]: runtime
    for runtime in (*(_single(*item) for item in SINGLE.items()), *map(_over_ssh, OVER_SSH))
}
