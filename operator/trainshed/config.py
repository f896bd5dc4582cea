"""The settings of the operator; each is a command-line flag and an environment variable."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any

import msgspec

from trainshed.api.framework import JobDefaults

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


#: The states of which webhooks may be notified.
NOTIFY_STATES = ("Running", "Restarting", "Stalled", "Suspended", "Succeeded", "Failed")


class Config(msgspec.Struct, frozen=True):
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
    #: Bind address of the endpoint to which trainings report, if `job_defaults` names the one that pods use.
    progress: str = ":10443"
    #: Serve per-job metrics for jobs that have not finished; there may be many of them.
    job_metrics: bool = False
    #: The most logs that are followed at a time, of jobs that report their progress by them.
    log_follows: int = 1000
    #: Ask NCCL's RAS, and PyTorch's debug server, by pods/portforward about the ranks of jobs with a hang deadline.
    nccl_ras: bool = False
    #: v1's client-side rate limits, to protect a small API server. 0 leaves rate limiting to the API server.
    qps: float = 0.0
    burst: int = 30
    #: The version of MPIJob that the cluster's CRD serves; v2beta1 is mpi-operator's and has a different schema.
    mpi_version: str = "v1"
    #: The folder with the webhooks by name; empty: none is sent anything. Of which states they are sent, in which
    #: networks (CIDR) they may be besides the Internet, and the URL of `trainshed ui-server` for links.
    notify_webhooks: str = ""
    notify_states: tuple[str, ...] = NOTIFY_STATES
    notify_allow: tuple[str, ...] = ()
    notify_page: str = ""
    #: The settings that apply to all jobs.
    job_defaults: JobDefaults = JobDefaults()
    #: Log level and format: "text" for people, "json" for machines.
    log_level: str = "info"
    log_format: str = "text"
    #: Warnings about ignored v1 flags, logged at startup.
    flag_warnings: tuple[str, ...] = ()

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


def from_settings(settings: Mapping[str, Any]) -> Config:
    """Return the settings that are given by name, those of `job_defaults` among the others.

    A template of init containers without an image gets INIT_IMAGE. Raises `msgspec.ValidationError` for a value that a
    setting of jobs cannot have.
    """
    jobs = {name: settings[name] for name in JobDefaults.__struct_fields__ if name in settings}
    jobs["notify"] = bool(settings.get("notify_webhooks"))
    if jobs.get("init_template") and not jobs.get("init_image"):
        jobs["init_image"] = INIT_IMAGE
    others = {name: value for name, value in settings.items() if name not in jobs}
    return Config(**others, job_defaults=msgspec.convert(jobs, JobDefaults))
