"""One failed worker costs one short way through the code: each module, fact and rule is used once."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from types import FrameType

import trainshed
from simulation.cluster import Cluster
from simulation.nodes import PunctualKubelet
from simulation.server_events import observe_changes
from simulation.test_jobs import a_job, states
from support.audit.change import OPERATOR, Change
from support.pod_statuses import ended
from trainshed.plan.rules import RULES

HOME = f"{Path(trainshed.__file__).parent}/"
#: The package of sentences, which decides nothing: its modules count as one.
SENTENCES = "plan/messages/"
#: The maximum number of modules from the watch event to the stored status, and to the first deletion.
MODULES_TO_STATUS, MODULES_TO_DELETION = 55, 66
#: The packages that do one part of the way each; the others are used everywhere.
PARTS = ("client", "controller", "plan")


class Calls:
    """Records the calls of functions of the operator, as `module: function`, until `stop`.

    `steps` has the calls from one part of the way to another, each as the names of both.
    """

    def __init__(self) -> None:
        self.modules: dict[str, None] = {}
        self.steps: list[tuple[str, str]] = []
        self.functions = Counter[str]()

    def start(self) -> None:
        """Start recording."""
        sys.setprofile(self._record)

    def stop(self) -> None:
        """Stop recording."""
        sys.setprofile(None)

    def _record(self, frame: FrameType, event: str, _argument: object) -> None:
        module = _module(frame)
        if event == "call" and module:
            self.modules.setdefault(SENTENCES if module.startswith(SENTENCES) else module)
            self.functions[f"{module}: {frame.f_code.co_name}"] += 1
            step = (_package(_module(frame.f_back)), _package(module))
            if step[0] != step[1] and set(step) <= set(PARTS):
                self.steps.append(step)


def _module(frame: FrameType | None) -> str:
    """Return the path of the operator's module whose code a frame runs, or an empty string; the server is no part."""
    name = frame.f_code.co_filename if frame else ""
    return name.removeprefix(HOME) if name.startswith(HOME) and not name.startswith(f"{HOME}memory/") else ""


def _package(module: str) -> str:
    return module.partition("/")[0]


def a_running_job() -> tuple[Cluster, PunctualKubelet]:
    """Return a cluster with a PyTorchJob of four replicas that all run."""
    cluster = Cluster(replicas=1)
    kubelet = PunctualKubelet(cluster, {})
    cluster.start()
    job = a_job("PyTorchJob", {"Master": 1, "Worker": 3})
    for group in job["spec"]["pytorchReplicaSpecs"].values():
        group["restartPolicy"] = "ExitCode"
    cluster.submit(job)
    assert cluster.loop.run_until(lambda: "Running" in states(cluster.job("PyTorchJob", "job") or {}), 60)
    cluster.loop.run_for(30)
    return cluster, kubelet


def recorded(until: Callable[[Change], bool]) -> Calls:
    """Return the calls from the watch event of a worker that exits with 137 to a change of the operator."""
    cluster, kubelet = a_running_job()
    calls, seen = Calls(), list[Change]()

    def observe(change: Change) -> None:
        if not seen and change.actor == OPERATOR and until(change):
            calls.stop()
            seen.append(change)

    observe_changes(cluster.server, observe)
    kubelet._write("/api/v1/namespaces/ml/pods/job-worker-1", lambda pod: ended(pod, 137, cluster.now()))
    calls.start()
    try:
        assert cluster.loop.run_until(lambda: bool(seen), 20)
    finally:
        calls.stop()
        cluster.close()
    return calls


def test_the_way_from_the_event_to_the_stored_status_is_short():
    calls = recorded(lambda change: change.plural == "pytorchjobs")
    assert len(calls.modules) <= MODULES_TO_STATUS, list(calls.modules)


def test_the_way_from_the_event_to_the_first_deletion_is_short():
    calls = recorded(lambda change: change.plural == "pods" and change.requests_deletion)
    assert len(calls.modules) <= MODULES_TO_DELETION, list(calls.modules)


def test_no_package_is_entered_twice():
    calls = recorded(lambda change: change.plural == "pytorchjobs")
    steps = [step for step, _ in groupby(calls.steps)]
    assert steps == [("client", "controller"), ("controller", "plan"), ("controller", "client")]
    assert calls.steps.count(("controller", "plan")) == calls.functions["plan/__init__.py: plan"] == 1


def test_facts_are_built_once_and_each_rule_is_asked_once():
    calls = recorded(lambda change: change.plural == "pytorchjobs")
    assert calls.functions["controller/reconciler.py: reconcile"] == 1
    assert calls.functions["plan/restarts.py: _failure_group"] == 1
    asked = {rule.__name__: calls.functions[f"plan/rules.py: {rule.__name__}"] for rule in RULES}
    assert max(asked.values()) == 1, asked
    assert asked["restart"] == 1
