"""Settings of the operator that apply to all jobs."""

from __future__ import annotations

from dataclasses import dataclass

from .job import CleanPodPolicy


@dataclass(frozen=True, slots=True)
class Site:
    """Settings of the operator that apply to all jobs.

    With `init_image`, PyTorch workers get v1's init container, made from `init_template` if there is one. With
    `gang_scheduler`, the pods of a job are scheduled together: `volcano`, or the name of a scheduler that runs the
    coscheduling plugin. `keep_results` allows a finalizer on pods until their results are in the status.
    """

    cluster_domain: str = ""
    clean_pods: CleanPodPolicy = CleanPodPolicy.NONE
    max_replicas: int = 100_000
    init_image: str = ""
    init_tries: int = 100
    init_template: str = ""
    gang_scheduler: str = ""
    keep_results: bool = False
    mpi_kubectl_image: str = "ghcr.io/kubeflow/training-v1/kubectl-delivery:latest"
