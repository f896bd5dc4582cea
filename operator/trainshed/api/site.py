"""What the cluster's administrator chose for every job."""

from __future__ import annotations

from dataclasses import dataclass

from .job import CleanPodPolicy


@dataclass(frozen=True, slots=True)
class Site:
    """The knobs that shape what jobs become; `init_image` brings v1's init container back to PyTorch workers."""

    cluster_domain: str = ""
    clean_pods: CleanPodPolicy = CleanPodPolicy.NONE
    max_replicas: int = 100_000
    init_image: str = ""
    init_tries: int = 100
