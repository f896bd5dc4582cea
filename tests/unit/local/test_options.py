"""What a local run takes from a job, and what it leaves out."""

from __future__ import annotations

from support.local_runs import a_job
from trainshed import rendering
from trainshed.api.framework import JobDefaults
from trainshed.cli.local_jobs import made

PROBES = {"livenessProbe": {"exec": {"command": ["true"]}}, "startupProbe": {"exec": {"command": ["true"]}}}
LIMITS = {"limits": {"memory": "4Gi"}}


def test_what_holds_nothing_here_is_not_there_to_be_suspected_of_a_kill():
    first = {"name": "first", "image": "x", "command": ["true"], "resources": LIMITS, **PROBES}
    job = a_job("true", resources=LIMITS, initContainers=[first])
    pod = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]
    pod["containers"][0] |= PROBES
    job["spec"]["runPolicy"] = {"suspend": True, "backoffLimit": 3}
    spec = made(job, rendering.rendered(job, "ml", JobDefaults()), "ml").runnable["spec"]
    assert spec["runPolicy"] == {"backoffLimit": 3}
    for group in spec["pytorchReplicaSpecs"].values():
        found = group["template"]["spec"]
        assert found["initContainers"] == [{key: first[key] for key in ("name", "image", "command", "resources")}]
        assert found["containers"] == [{"name": "pytorch", "image": "x", "command": ["sh", "-c", "true"]}]
        assert "resources" not in found
        assert found["terminationGracePeriodSeconds"] == 1
