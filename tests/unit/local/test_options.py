"""What a local run takes from a job, and what it leaves out."""

from __future__ import annotations

from support.local_runs import a_job
from trainshed import rendering
from trainshed.api.framework import JobDefaults
from trainshed.cli.local_jobs import made

PROBES = {"livenessProbe": {"exec": {"command": ["true"]}}, "startupProbe": {"exec": {"command": ["true"]}}}


def test_only_what_keeps_a_job_from_running_and_probes_are_left_out():
    limits = {"resources": {"limits": {"memory": "4Gi"}}}
    containers = [{"name": name, "image": "x", "command": ["true"], **limits} for name in ("first", "pytorch", "side")]
    job = a_job("true", initContainers=containers[:1], containers=containers[1:], hostIPC=True, **limits)
    job["spec"]["runPolicy"] = {"backoffLimit": 3, "activeDeadlineSeconds": 60}
    expected = made(job, rendering.rendered(job, "ml", JobDefaults()), "ml").runnable
    assert expected["spec"].items() >= job["spec"].items()
    for container in containers:
        container.update(PROBES)
    job["spec"]["runPolicy"] |= {"suspend": True, "managedBy": "example.com/other", "ttlSecondsAfterFinished": 5}
    assert made(job, rendering.rendered(job, "ml", JobDefaults()), "ml").runnable == expected
