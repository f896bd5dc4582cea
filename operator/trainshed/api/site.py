"""What the cluster's administrator chose for every job."""

from __future__ import annotations

from dataclasses import dataclass

from .job import CleanPodPolicy


@dataclass(frozen=True, slots=True)
class Site:
    """The knobs that shape what jobs become.

    `init_image` brings v1's init container back to PyTorch workers, made from `init_template` if there is one. With a
    `gang_scheduler` the pods of a job are placed together: `volcano`, or the name of another scheduler that runs the
    coscheduling plugin. `keep_results` says that we may hold pods until their results are noted.
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
