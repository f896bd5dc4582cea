"""Jobs of every kind in the states in which training-operator v1 leaves them when it is stopped."""

from __future__ import annotations

from . import v1
from .fake_kubelet import FakeKubelet
from .jobs import job, pytorchjob, tfjob
from .user_client import UserClient, eventually

PS_JOB = {"Chief": 1, "PS": 1, "Worker": 2, "Evaluator": 1}
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
ELASTIC = pytorchjob("elastic", restart="OnFailure", Worker=2)
ELASTIC["spec"]["elasticPolicy"] = {"minReplicas": 1, "maxReplicas": 3, "metrics": [CPU]}
#: Each with the conditions that its status shows. Pods run, but for those that have `ENDED` or are `MISSING`.
V1_JOBS = {
    "tf": (tfjob("tf", restart="OnFailure", **PS_JOB), ("Created", "Running")),
    "ddp": (pytorchjob("ddp", restart="OnFailure", Master=1, Worker=2), ("Created", "Running")),
    "jax": (job("JAXJob", "jax", restart="OnFailure", Worker=2), ("Created", "Running")),
    "xgb": (job("XGBoostJob", "xgb", restart="Never", Master=1, Worker=1), ("Created", "Running")),
    "paddle": (job("PaddleJob", "paddle", restart="OnFailure", Worker=2), ("Created", "Running")),
    "mpi": (job("MPIJob", "mpi", Launcher=1, Worker=1), ("Created", "Running")),
    "elastic": (ELASTIC, ("Created", "Running")),
    "again": (pytorchjob("again", restart="ExitCode", Master=1, Worker=2), ("Created", "Restarting")),
    "fails": (pytorchjob("fails", restart="ExitCode", Master=1, Worker=1), ("Created", "Running")),
    "paused": (tfjob("paused", policy={"suspend": True}, Worker=2), ("Created", "Suspended")),
    "done": (pytorchjob("done", Master=1, Worker=1), ("Created", "-Running", "Succeeded")),
    "lost": (tfjob("lost", Worker=2), ("Created", "-Running", "Failed")),
}
ENDED = {"done-master-0": 0, "lost-worker-0": 1}
MISSING = {"again": ("worker-1",)}
#: The pod that decides the end of each job.
DECIDES = {
    "tf": "chief-0",
    "ddp": "master-0",
    "mpi": "launcher",
    "xgb": "master-0",
    "again": "master-0",
    "elastic": "worker-0",
}
ALL = {"jax": ("worker-0", "worker-1"), "paddle": ("worker-0", "worker-1"), "paused": ("worker-0", "worker-1")}


def create_v1_jobs(user: UserClient, kubelet: FakeKubelet) -> None:
    """Create all jobs of `V1_JOBS` and their pods."""
    for name, (found, states) in V1_JOBS.items():
        over = states[-1] in ("Succeeded", "Failed")
        v1.create_job(user, found, *states, completed=over, missing=MISSING.get(name, ()))
    eventually(lambda: all(pod["status"]["phase"] == "Running" for pod in user.pods()), 20)
    for pod, code in ENDED.items():
        kubelet.end(pod, code)


def conditions_of(user: UserClient, name: str) -> list[str]:
    """Return the conditions of a job, with `-` before those that are not true."""
    conditions = user.conditions(V1_JOBS[name][0]["kind"], name).values()
    return [("" if item["status"] == "True" else "-") + item["type"] for item in conditions]
