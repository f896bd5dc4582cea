"""What the planner sees of a job of three replicas that run, of which one is then killed."""

from __future__ import annotations

from support.builders import T0, a_job, a_pod, at, pods_of, running, seen
from support.replace import replace
from trainshed import plan as planner
from trainshed.api.actions import Snapshot
from trainshed.decisions.recording import Encoder
from trainshed.decisions.ring import Ring

JOB = a_job("PyTorchJob", master=1, worker=2, restart="ExitCode", created=T0)
RUNS = replace(seen(JOB, *pods_of(JOB)), status=running(JOB), pods=tuple(pods_of(JOB)), now=at(10))
DIED = a_pod("worker-1", "Failed", code=137, ended=60, container="pytorch", why="OOMKilled")
FAILED = replace(RUNS, pods=tuple(pods_of(JOB, DIED)), now=at(61))


def parts(*snapshots: Snapshot) -> dict[str, str]:
    """The parts of the ConfigMap of what is decided about these."""
    found, encoder = Ring(), Encoder("1.0")
    for one in snapshots:
        found.add(encoder.line(one, planner.plan(one)))
    return {key: text for key, text in found.changes().items() if text}
