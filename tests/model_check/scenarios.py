"""The small worlds that are searched, from the smallest on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from simulation.stage import NAMESPACE
from trainshed.frameworks import served


@dataclass(frozen=True, slots=True)
class Scenario:
    """What the world is made of: a job, whose success ends it (the suffix of a pod), and what may go wrong how often.

    Its back-off limit is `limit`, failures end with `code`. With `eager` an answer arrives as soon as the server has
    given it; otherwise at any time after.
    """

    name: str
    kind: str
    roles: tuple[tuple[str, int], ...]
    decides: str
    failures: int = 0
    crashes: int = 0
    old_lists: int = 0
    limit: int = 1
    code: int = 137
    eager: bool = True

    def job(self) -> dict[str, Any]:
        """The job, as a user would write it."""
        container = {"name": served("v1", (self.kind,))[0].container.name, "image": "x:1"}
        group = {"restartPolicy": "ExitCode", "template": {"spec": {"containers": [container]}}}
        replicas = {role: {**group, "replicas": count} for role, count in self.roles}
        spec = {served("v1", (self.kind,))[0].field: replicas, "runPolicy": {"backoffLimit": self.limit}}
        metadata = {"name": "job", "namespace": NAMESPACE}
        return {"apiVersion": "kubeflow.org/v1", "kind": self.kind, "metadata": metadata, "spec": spec}


PAIR = Scenario("a master and a worker", "PyTorchJob", (("Master", 1), ("Worker", 1)), "-master-0", limit=1)
TRIO = Scenario("a chief and two workers", "TFJob", (("Chief", 1), ("Worker", 2)), "-chief-0", limit=1)


def scenario(world: Scenario, failures: int, crashes: int, old_lists: int = 0) -> Scenario:
    """This world, in which so much may go wrong."""
    wrong = f"{failures} failures, {crashes} crashes, {old_lists} old lists"
    return replace(world, name=f"{world.name}: {wrong}", failures=failures, crashes=crashes, old_lists=old_lists)


SMALLEST = scenario(PAIR, 0, 0)
SCENARIOS = (
    SMALLEST,
    *(scenario(PAIR, *wrong) for wrong in ((1, 0), (0, 1), (1, 1), (1, 1, 1), (2, 1), (2, 2, 1))),
    *(scenario(TRIO, *wrong) for wrong in ((0, 0), (1, 0), (0, 1), (1, 1), (1, 1, 1), (2, 2, 1))),
)
