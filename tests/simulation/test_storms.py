"""Nodes that reject pods, and others that delete them, again and again: how many pods the operator makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from simulation.cluster import Cluster
from simulation.nodes import pod_path
from simulation.server_events import observe_changes
from simulation.test_jobs import a_job
from support.audit.change import CREATED, KUBELET, USER, Change
from support.pod_statuses import rejected, running
from trainshed.memory.errors import StatusError

Pod = dict[str, Any]
VICTIM = "job-worker-1"


class Storm:
    """Runs all pods but one; `act` is done to that one soon after each of its creations. `made` are times and pods."""

    def __init__(self, kind: str, roles: dict[str, int], act: Callable[[Storm, Pod], None]) -> None:
        self.cluster = Cluster(replicas=1)
        self.made: list[tuple[float, Pod]] = []
        self._act = act
        observe_changes(self.cluster.server, self._observe)
        self.cluster.start()
        self.cluster.submit(a_job(kind, roles))

    def pods(self, seconds: float) -> list[str]:
        """Return the names of the pods that were created in the first seconds of the storm."""
        begun = next(time for time, pod in self.made if pod["metadata"]["name"] == VICTIM)
        return [pod["metadata"]["name"] for time, pod in self.made if time <= begun + seconds]

    def bind(self, pod: Pod) -> None:
        self.ask(KUBELET, "POST", f"{pod_path(pod)}/binding", {"target": {"name": "node-a"}})

    def write(self, pod: Pod, status: Pod) -> None:
        self.ask(KUBELET, "PATCH", f"{pod_path(pod)}/status", {"metadata": {"uid": uid(pod)}, "status": status})

    def ask(self, actor: str, verb: str, path: str, body: Pod) -> None:
        try:
            self.cluster.server.request(actor, verb, path, body=body)
        except StatusError as error:
            if error.code not in (404, 409):  # the pod is gone, or another has its name
                raise

    def run(self, pod: Pod) -> None:
        self.bind(pod)
        self.write(pod, running(pod, self.cluster.now()))

    def _observe(self, change: Change) -> None:
        if change.plural != "pods":
            return
        pod = change.object
        if change.verb == CREATED:
            self.made.append((self.cluster.loop.time(), pod))
            act = self._act if pod["metadata"]["name"] == VICTIM else Storm.run
            self.cluster.later(0.05, act, self, pod)
        elif change.requests_deletion:
            options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid(pod)}}
            self.cluster.later(0.2, self.ask, KUBELET, "DELETE", pod_path(pod), options)


def uid(pod: Pod) -> str:
    return pod["metadata"]["uid"]


def reject(reason: str) -> Callable[[Storm, Pod], None]:
    def act(storm: Storm, pod: Pod) -> None:
        storm.bind(pod)
        storm.write(pod, rejected(reason))

    return act


def delete_while_it_runs(storm: Storm, pod: Pod) -> None:
    storm.run(pod)
    storm.ask(USER, "DELETE", pod_path(pod), {})


def delete_before_it_runs(storm: Storm, pod: Pod) -> None:
    storm.ask(USER, "DELETE", pod_path(pod), {})


def kill_while_it_runs(storm: Storm, pod: Pod) -> None:
    storm.run(pod)
    storm.ask(USER, "DELETE", pod_path(pod), {"gracePeriodSeconds": 0})


#: What happens to worker-1 again and again, and whether the others stay.
STORMS = {
    "rejected: NodeShutdown": (reject("NodeShutdown"), True),
    "rejected: OutOfcpu": (reject("OutOfcpu"), True),
    "rejected: Evicted": (reject("Evicted"), True),
    "deleted before it runs": (delete_before_it_runs, True),
    "deleted while it runs": (delete_while_it_runs, False),
    "killed while it runs": (kill_while_it_runs, False),
}


@pytest.mark.parametrize(
    ("kind", "roles"), [("PyTorchJob", {"Master": 1, "Worker": 3}), ("TFJob", {"Chief": 1, "PS": 1, "Worker": 2})]
)
@pytest.mark.parametrize("name", STORMS)
def test_a_storm_makes_few_pods_and_spares_those_that_wait_for_the_others(name, kind, roles):
    act, spares = STORMS[name]
    storm = Storm(kind, roles, act)
    storm.cluster.loop.run_for(700)
    assert len([made for made in storm.pods(10) if made == VICTIM]) <= 6
    assert len([made for made in storm.pods(30) if made == VICTIM]) <= 8
    assert 8 <= len([made for made in storm.pods(600) if made == VICTIM]) <= 14
    others = [made for made in storm.pods(600) if made != VICTIM]
    assert not spares or len(others) == len(set(others)), "healthy replicas were made again"
    storm.cluster.close()


def test_a_single_eviction_is_answered_at_once():
    storm = Storm("PyTorchJob", {"Master": 1, "Worker": 3}, Storm.run)
    storm.cluster.loop.run_for(60)
    first = next(pod for _, pod in storm.made if pod["metadata"]["name"] == VICTIM)
    evicted = storm.cluster.loop.time()
    storm.ask(USER, "DELETE", pod_path(first), {})
    storm.cluster.loop.run_for(20)
    again = [time for time, pod in storm.made if pod["metadata"]["name"] == VICTIM][1]
    assert again - evicted < 1.0, "0.2 s for the kubelet to end worker-1, and as much for the others"
    storm.cluster.close()
