"""The settings of the operator; each is a command-line flag and an environment variable."""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass
from ipaddress import IPv6Address
from pathlib import Path

from trainshed.api.framework import JobDefaults
from trainshed.api.job import CleanPodPolicy, ServiceForm

#: The file in which Kubernetes stores the namespace of a pod.
NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
#: The image of v1's init container, for a template without an image of its own: a maintained release in place of v1's
#: alpine:3.10, which has had no security updates since 2021.
INIT_IMAGE = "docker.io/library/alpine:3.22@sha256:14358309a308569c32bdc37e2e0e9694be33a9d99e68afb0f5ff33cc1f695dce"
#: A bind address: an IPv6 address in brackets, or a host name, an IPv4 address or nothing; and a port.
BIND_ADDRESS = re.compile(r"(?:\[([^\]]*)\]|((?:[\w-]{1,63}(?:\.[\w-]{1,63})*)?)):(\d{1,5})", re.ASCII)
HIGHEST_PORT = 65535


def bind_address(text: str) -> tuple[str | None, int] | None:
    """Parse a bind address; return None if `text` is empty or "0", which disables the listener.

    The result is the host, None for all interfaces, and the port of `host:port`. Raises ValueError for any other text.
    Named ports, as in `:http`, are not supported.
    """
    if text in ("", "0"):
        return None
    found = BIND_ADDRESS.fullmatch(text)
    if not found or int(found[3]) > HIGHEST_PORT:
        raise ValueError(f"{text!r} is not host:port, :port or [IPv6 address]:port, nor 0, which disables it")
    host = str(IPv6Address(found[1])) if found[1] is not None else found[2]
    return host or None, int(found[3])


@dataclass(frozen=True, slots=True)
class Config:
    """The settings that the operator was started with. Rates are requests per second, addresses `host:port`."""

    #: The namespaces to manage; the operator needs no rights in any other. Empty means all namespaces.
    namespaces: tuple[str, ...] = ()
    #: The kinds of job to manage, so that another operator can manage the others. Empty means all supported kinds.
    kinds: tuple[str, ...] = ()
    #: Credentials for a process outside a cluster.
    kubeconfig: str = ""
    context: str = ""
    #: Leader election: only one replica acts at a time. Off for a single operator that must not wait for a Lease.
    leader_elect: bool = True
    lease_name: str = "trainshed"
    lease_namespace: str = ""
    #: The holder identity in the Lease; empty means host name and process ID, which are unique among the replicas.
    lease_identity: str = ""
    #: Bind addresses of probes and metrics; "0" or empty disables them.
    health: str = ":8081"
    metrics: str = ":8080"
    #: Serve per-job metrics for jobs that have not finished; there may be many of them.
    job_metrics: bool = False
    #: v1's client-side rate limits, to protect a small API server. 0 leaves rate limiting to the API server.
    qps: float = 0
    burst: int = 30
    #: The cluster domain, which follows `svc` in TF_CONFIG; v1 reads it from CUSTOM_CLUSTER_DOMAIN. Search domains need
    #: one: theirs is cluster.local, unless this is set.
    cluster_domain: str = ""
    #: The default of `cleanPodPolicy`; v1's is None.
    clean_pods: str = "None"
    #: v1's init container on PyTorch workers, for images that do not wait for the master by themselves. The template is
    #: the content of a file in v1's format; setting it adds the init container without `init_image`.
    init_image: str = ""
    init_tries: int = 100
    init_template: str = ""
    #: The gang scheduler: `volcano`, `kubernetes`, or the name of a scheduler with the coscheduling plugin. Empty means
    #: that each pod is scheduled by itself.
    gang_scheduler: str = ""
    #: The Services of jobs without the annotation: v1's, one for each replica, or one for each job.
    services: str = ServiceForm.REPLICA.value
    #: Allow jobs to keep their pods until the results are recorded; needs the right to patch pods.
    track_results: bool = False
    #: The version of MPIJob that the cluster's CRD serves; v2beta1 is mpi-operator's and has a different schema.
    mpi_version: str = "v1"
    #: The image with kubectl for the launcher of an MPIJob of v1.
    mpi_kubectl_image: str = JobDefaults().mpi_kubectl_image
    #: Let service accounts that launchers name exec into the workers, although pods of others may use them; v1 did.
    mpi_bind_named_accounts: bool = False
    #: Requests and limits of the init containers that the operator adds, by resource; empty: those of their neighbour.
    init_resources: tuple[tuple[str, str], ...] = ()
    #: Log level and format: "text" for people, "json" for machines.
    log_level: str = "info"
    log_format: str = "text"
    #: Warnings about ignored v1 flags, logged at startup.
    flag_warnings: tuple[str, ...] = ()

    @property
    def job_defaults(self) -> JobDefaults:
        """The settings that affect single jobs."""
        return JobDefaults(
            cluster_domain=self.cluster_domain,
            clean_pods=CleanPodPolicy(self.clean_pods),
            init_image=self.init_image or (INIT_IMAGE if self.init_template else ""),
            init_tries=self.init_tries,
            init_template=self.init_template,
            gang_scheduler=self.gang_scheduler,
            track_results=self.track_results,
            services=ServiceForm(self.services),
            mpi_kubectl_image=self.mpi_kubectl_image,
            mpi_bind_named_accounts=self.mpi_bind_named_accounts,
            init_resources=self.init_resources,
        )

    @property
    def identity(self) -> str:
        """The holder identity in the Lease: the configured one, or host name and process ID."""
        return self.lease_identity or f"{socket.gethostname()}_{os.getpid()}"

    @property
    def effective_lease_namespace(self) -> str:
        """The namespace of the Lease: the configured one, or the operator's own."""
        if self.lease_namespace:
            return self.lease_namespace
        return NAMESPACE_FILE.read_text(encoding="utf-8").strip() if NAMESPACE_FILE.exists() else "default"
