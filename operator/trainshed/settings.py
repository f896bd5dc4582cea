"""The few knobs of the operator, each with its reason; every one is a flag and an environment variable."""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass
from ipaddress import IPv6Address
from pathlib import Path

from trainshed.api.job import CleanPodPolicy
from trainshed.api.site import Site

#: Where Kubernetes tells a pod its namespace.
NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
#: The image of v1's init container, for a template that leaves it open.
INIT_IMAGE = "alpine:3.10"
#: A bind address: an IPv6 address in brackets, or a name, an IPv4 address or nothing; and a port.
BIND_ADDRESS = re.compile(r"(?:\[([^\]]*)\]|((?:[\w-]{1,63}(?:\.[\w-]{1,63})*)?)):(\d{1,5})", re.ASCII)
HIGHEST_PORT = 65535


def bind_address(text: str) -> tuple[str | None, int] | None:
    """The host, None for all interfaces, and the port of `host:port`; None if `text` is empty or "0": do not listen.

    Raises ValueError for any other text. Names of ports, as in `:http`, are not known.
    """
    if text in ("", "0"):
        return None
    found = BIND_ADDRESS.fullmatch(text)
    if not found or int(found[3]) > HIGHEST_PORT:
        raise ValueError(f"{text!r} is not host:port, :port or [IPv6 address]:port, nor 0, which disables it")
    host = str(IPv6Address(found[1])) if found[1] is not None else found[2]
    return host or None, int(found[3])


@dataclass(frozen=True, slots=True)
class Settings:
    """What the operator was started with. Rates are requests a second, addresses `host:port`."""

    #: The namespaces to look after, with no right in any other; nothing means all of them.
    namespaces: tuple[str, ...] = ()
    #: The kinds to run, so that another operator may run the others; nothing means all that we know.
    kinds: tuple[str, ...] = ()
    #: Credentials outside of a cluster.
    kubeconfig: str = ""
    context: str = ""
    #: One replica acts at a time; off for a single operator that may not wait for a Lease.
    leader_elect: bool = True
    lease_name: str = "trainshed"
    lease_namespace: str = ""
    #: Who we are among our replicas; a pod's host name is as good as any.
    lease_identity: str = ""
    #: Bind addresses of probes and metrics; "0" or nothing disables them.
    health: str = ":8081"
    metrics: str = ":8080"
    #: Whether each job that is not over has series of its own; there may be many.
    job_metrics: bool = False
    #: v1's limits on requests, for whoever must protect a small API server. 0 leaves it to the server.
    qps: float = 0
    burst: int = 30
    #: What follows `svc` in TF_CONFIG; v1 reads it from CUSTOM_CLUSTER_DOMAIN.
    cluster_domain: str = ""
    #: Which pods go when a job does not say; v1 keeps them all.
    clean_pods: str = "None"
    #: v1's init container on PyTorch workers, for images that do not wait for their master by themselves; the template
    #: is the text of a file in v1's form, and brings the container back by itself.
    init_image: str = ""
    init_tries: int = 100
    init_template: str = ""
    #: Whose gang scheduling the pods of a job wait for: `volcano`, or the name of a scheduler with the coscheduling
    #: plugin; nothing means that each pod is scheduled by itself.
    gang_scheduler: str = ""
    #: Whether jobs may ask that pods stay until their results are noted; takes the right to change pods.
    keep_results: bool = False
    #: The version of MPIJob that the cluster's CRD serves; v2beta1 is mpi-operator's, and has another shape.
    mpi_version: str = "v1"
    #: Where the launcher of an MPIJob of v1 gets its kubectl from.
    mpi_kubectl_image: str = Site().mpi_kubectl_image
    #: How much the log tells, and to whom: "text" is for people, "json" for machines.
    log_level: str = "info"
    log_format: str = "text"
    #: Why nothing comes of flags of v1's that were given; said in the log once it is begun.
    passed_over: tuple[str, ...] = ()

    @property
    def site(self) -> Site:
        """The part of it that shapes jobs."""
        return Site(
            cluster_domain=self.cluster_domain,
            clean_pods=CleanPodPolicy(self.clean_pods),
            init_image=self.init_image or (INIT_IMAGE if self.init_template else ""),
            init_tries=self.init_tries,
            init_template=self.init_template,
            gang_scheduler=self.gang_scheduler,
            keep_results=self.keep_results,
            mpi_kubectl_image=self.mpi_kubectl_image,
        )

    @property
    def identity(self) -> str:
        """Who we are among our replicas: as told, or by host and process."""
        return self.lease_identity or f"{socket.gethostname()}_{os.getpid()}"

    @property
    def lease_home(self) -> str:
        """The namespace of the Lease: as told, or our own."""
        if self.lease_namespace:
            return self.lease_namespace
        return NAMESPACE_FILE.read_text(encoding="utf-8").strip() if NAMESPACE_FILE.exists() else "default"
