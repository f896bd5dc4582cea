"""Jobs and assumptions for tests of `trainshed whatif`."""

from __future__ import annotations

from typing import Any

from support.jobs import pod_spec, pytorchjob
from trainshed.api.framework import JobDefaults
from trainshed.rendering import rendered
from trainshed.whatif.assumptions import Assumptions, RunResult
from trainshed.whatif.prediction import Predictor
from trainshed.whatif.subject import VirtualJob, prepared

MINUTE, HOUR, DAY = 60, 3600, 86_400


def pytorch_document(
    workers: int, *, restart: str = "ExitCode", policy: dict | None = None, annotations: dict | None = None, **spec: Any
) -> dict[str, Any]:
    """Return the manifest of a PyTorchJob of workers with eight devices each."""
    found = pytorchjob("big", policy=policy, restart=restart, Worker=workers)
    found["metadata"] |= {"namespace": "ml", "annotations": annotations or {}}
    pod_spec(found, "Worker")["containers"][0]["resources"] = {"limits": {"example.com/chip": 8}}
    found["spec"] |= spec
    return found


def subject(document: dict[str, Any]) -> VirtualJob:
    """Return the valid job of a manifest, ready to be run in virtual time."""
    job = rendered(document, "ml", JobDefaults()).job
    assert not job.problems, job.problems
    return prepared(job)


def pytorch(workers: int, **fields: Any) -> VirtualJob:
    """Return a PyTorchJob, ready to be run in virtual time."""
    return subject(pytorch_document(workers, **fields))


def assumed(**fields: Any) -> Assumptions:
    """Return assumptions about one node, unless there are more."""
    return Assumptions(**{"nodes": 1, "run_time": DAY, "mtbf": 30 * DAY, **fields})


def runs(job: VirtualJob, world: Assumptions, count: int, seed: int = 1) -> tuple[RunResult, ...]:
    return Predictor(seed).predict(job, world, count).runs
