"""The Services of a job: which ones its pods need, and what a pod has for the one Service of its job."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from trainshed.api.coerce import as_mapping, as_sequence
from trainshed.api.framework import JobDefaults
from trainshed.api.job import Document, Job, ServiceForm
from trainshed.api.objects import JOB_SERVICE_ANNOTATION, Pod
from trainshed.api.ports import published

#: The domain of most clusters; the search domain needs it whole.
CLUSTER_DOMAIN = "cluster.local"


def needed(pods: Iterable[Pod]) -> frozenset[str]:
    """Return the names of the Services by which these pods are found."""
    return frozenset(pod.service or pod.name for pod in pods)


def pod_annotations(job: Job) -> dict[str, str]:
    """Return the annotation of a pod whose name resolves by the job's Service."""
    return {JOB_SERVICE_ANNOTATION: job.name} if job.services is ServiceForm.JOB else {}


def host_fields(job: Job, job_defaults: JobDefaults, name: str, spec: Document) -> dict[str, Any]:
    """Return the fields of a pod spec by which the name of the pod resolves by the job's Service.

    The Service's domain is searched before the template's domains, because some resolvers read only the first ones.
    """
    if job.services is ServiceForm.REPLICA:
        return {}
    own = f"{job.name}.{job.namespace}.svc.{job_defaults.cluster_domain or CLUSTER_DOMAIN}"
    config = as_mapping(spec.get("dnsConfig"))
    searches = list(dict.fromkeys((own, *as_sequence(config.get("searches")))))
    return {"hostname": name, "subdomain": job.name, "dnsConfig": {**config, "searches": searches}}


def ports(job: Job) -> list[Document]:
    """Return the ports of the job's Service."""
    return published({group.role: group.ports for group in job.groups})
