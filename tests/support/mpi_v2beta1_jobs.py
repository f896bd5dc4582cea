"""Builders of v2beta1 MPIJobs for tests."""

from __future__ import annotations

from support.builders import T0, a_pod
from trainshed.api import parse
from trainshed.api.actions import Plan, Snapshot
from trainshed.api.framework import JobDefaults, PodNames
from trainshed.api.job import Job, Replica
from trainshed.api.objects import CONFIG_MAPS, Service
from trainshed.api.status import Status
from trainshed.frameworks.mpi_v2beta1 import MPI_V2BETA1
from trainshed.plan import builders, plan


def container(**fields) -> dict:
    return {"name": "main", "image": "x", **fields}


def document(worker=2, launcher=None, worker_group=None, policy=None, **spec) -> dict:
    """A job `m` in the namespace `ml`; `launcher` and `worker_group` are fields of the replica specs."""
    template = {"template": {"spec": {"containers": [container()]}}}
    groups = {"Launcher": {**template, **(launcher or {})}}
    if worker is not None:
        groups["Worker"] = {**template, "replicas": worker, **(worker_group or {})}
    metadata = {"name": "m", "namespace": "ml", "uid": "job-uid", "resourceVersion": "1"}
    whole = {"mpiReplicaSpecs": groups, "runPolicy": policy or {}, **spec}
    return {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": metadata, "spec": whole}


def a_run(*args, **fields) -> Job:
    """The same, read."""
    return parse.job(document(*args, **fields), MPI_V2BETA1, JobDefaults())


def spec_of(containers: dict | None = None, **spec) -> dict:
    """A replica spec with such a pod."""
    return {"template": {"spec": {"containers": [container(**(containers or {}))], **spec}}}


def plan_for(job: Job, *pods, status=None, now=T0, services=True, job_defaults=None) -> Plan:
    domain = (Service("m", "svc", "1", "job-uid", "ml", "m", "", -1),) if services else ()
    return plan(Snapshot(job, MPI_V2BETA1, job_defaults or JobDefaults(), status or Status(), pods, domain, now))


def pod(job: Job, role: str, index=0, job_defaults=None) -> dict:
    """A member's pod as it is sent."""
    return builders.pod_maker(MPI_V2BETA1, job, job_defaults or JobDefaults())(Replica(role, index), 0).body


def env(job: Job, role: str) -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in pod(job, role)["spec"]["containers"][0]["env"]}


def data(job: Job, *running: str, job_defaults=None) -> dict[str, str]:
    """The data of its ConfigMap."""
    (wish,) = MPI_V2BETA1.hooks.dependents(job, job_defaults or JobDefaults(), PodNames(running))
    assert (wish.resource, wish.name, wish.labels) == (CONFIG_MAPS, "m-config", (("app", "m"),))
    return wish.content["data"]


def worker(index=0, phase="Running", **fields):
    return a_pod(f"worker-{index}", phase, job="m", container="main", **fields)


def launcher(phase="Running", **fields):
    fields = {"code": 0, "ended": 60.0, **fields} if phase == "Succeeded" else fields
    return a_pod("launcher", phase, job="m", container="main", started=1.0, **fields)
