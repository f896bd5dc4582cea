"""A job whose pods, Services, dependents or status somebody fills with absurd values, and what must hold after that.

The job runs, somebody writes the value, a member fails once, and the members that decide succeed at the end. The job
must reach this end with a bounded number of requests, no error of the operator's own in the log, and a stored status
that the schema of the CRD accepts.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from support.audit.change import OPERATOR, Request
from trainshed import crd
from trainshed.api.framework import Framework
from trainshed.frameworks import FRAMEWORKS

from .answers import Refusal
from .schema import Structure
from .stage import NAMESPACE, Kubelet, Stage, jobs

Document = dict[str, Any]
CORE = f"/api/v1/namespaces/{NAMESPACE}"
#: Seconds until the value is written, until a member fails after that, and how long the members that decide run.
WRITTEN, FAILS, RUNS = 5.0, 3.0, 30.0
#: Seconds in which the job must have reached its end, and seconds at its end in which it must be quiet.
LIFE, REST = 400.0, 60.0
#: Requests of the operator, watches not counted, that such a job may cost in all, and in its last seconds.
COST, COST_AT_REST = 260, 20
#: What the user asks for, each as long as it may be: the job is over before.
TIMES = {"activeDeadlineSeconds": 10**10, "ttlSecondsAfterFinished": 2**31 - 1}
LENGTHS = {f"trainshed.dev/{what}": "8760h" for what in ("startup-deadline", "force-delete-after")}
#: An elastic job has an autoscaler.
TARGET = {"type": "Utilization", "averageUtilization": 80}
ELASTIC = {
    "minReplicas": 2,
    "maxReplicas": 2,
    "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": TARGET}}],
}
#: The roles of a job of a kind, and the pods whose end is the job's.
CASTS: dict[str, tuple[dict[str, int], tuple[str, ...]]] = {
    "TFJob": ({"Chief": 1, "Worker": 2}, ("-chief-0",)),
    "PyTorchJob": ({"Master": 1, "Worker": 2}, ("-master-0",)),
    "JAXJob": ({"Worker": 3}, ("-worker-0", "-worker-1", "-worker-2")),
    "MPIJob": ({"Launcher": 1, "Worker": 2}, ("-launcher",)),
}


class Log(logging.Handler):
    """Keeps what the operator logs."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def tracebacks(self) -> list[str]:
        """The errors of the operator's own, with their last lines."""
        return [f"{record.getMessage()}: {record.exc_info[1]!r}" for record in self.records if record.exc_info]


@contextmanager
def log() -> Iterator[Log]:
    """What the operator logs within."""
    found, logger = Log(), logging.getLogger("trainshed")
    logger.addHandler(found)
    try:
        yield found
    finally:
        logger.removeHandler(found)


class Tale:
    """A job of a kind on the simulated server; `asked` are the operator's requests."""

    def __init__(self, kind: str = "TFJob", scope: str = "Job", restart: str = "OnFailure", gang: str = "") -> None:
        self.framework: Framework = next(found for found in FRAMEWORKS if found.kind == kind)
        self.kind = kind
        roles, ends = CASTS[kind]
        self.stage = Stage(replicas=1, kinds=(self.framework,))
        self.asked: list[Request] = []
        self.stage.server.requests.append(lambda actor, told: self.asked.append(told) if actor == OPERATOR else None)
        Kubelet(self.stage, dict.fromkeys(ends, RUNS))
        self.stage.machines[0].settings |= {"leader_elect": False, "gang_scheduler": gang}
        self.stage.start()
        self.stage.submit(self._job(roles, scope, restart))

    def status(self) -> Document:
        """The job's status as it is stored."""
        found = (self.stage.job(self.kind, "job") or {}).get("status", {})
        assert isinstance(found, dict)
        return found

    def states(self) -> list[str]:
        """The conditions that are true."""
        return [one["type"] for one in self.status().get("conditions", ()) if one["status"] == "True"]

    def write(self, path: str, patch: Document, actor: str = "user") -> bool:
        """Somebody merges a patch into an object; whether the server has accepted it."""
        try:
            self.stage.server.request(actor, "PATCH", path, body=patch)
        except Refusal:
            return False
        return True

    def fail(self, name: str, code: int = 137) -> None:
        """A pod's container ends with this code, if it runs."""
        pod = self.stage.server.object(f"{CORE}/pods/{name}")
        if pod is None:
            return
        end = {"exitCode": code, "reason": "Error", "finishedAt": self.stage.server.registry.stamp()}
        own = {"name": self.framework.container.name, "restartCount": 0, "state": {"terminated": end}}
        self.write(f"{CORE}/pods/{name}/status", {"status": {"phase": "Failed", "containerStatuses": [own]}})

    def run(self, path: str, patch: Document) -> None:
        """Let the job live to its end, with this written into it."""
        self.stage.loop.run_for(WRITTEN / 2)
        self.let_in()
        self.stage.loop.run_for(WRITTEN / 2)
        assert self.write(path, patch), "the server has refused it"
        self.stage.loop.run_for(FAILS)
        self.fail("job-worker-1")
        self.stage.loop.run_for(FAILS)
        self.let_in()
        self.stage.loop.run_for(LIFE)

    def let_in(self) -> None:
        """The gang scheduler lets the job's group in, if it has one."""
        if self.stage.server.objects("podgroups"):
            self.write(group(), {"status": {"phase": "Inqueue"}})

    def wrong(self, found: Log, end: str = "Succeeded") -> list[str]:
        """What does not hold at the end, each in a sentence."""
        told = []
        if end not in self.states():
            told.append(f"the job is {self.states()} and not {end}: {self.status()}")
        if self.cost() > COST:
            told.append(f"{self.cost()} requests")
        if self.cost(since=self.stage.now() - REST) > COST_AT_REST:
            told.append(f"{self.cost(since=self.stage.now() - REST)} requests in the last {REST:.0f} s")
        if refused := [told for told in self.asked if told.status in (400, 413, 422)]:
            told.append(f"{len(refused)} requests were refused as invalid, as {refused[0].verb} {refused[0].path}")
        told += found.tracebacks()[:3]
        structure = Structure(crd.definition(self.framework)["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
        told += structure.problems({"status": self.status()}, only="status")
        return told

    def cost(self, since: float = 0.0) -> int:
        """How many requests about jobs and what is theirs there were since then."""
        return sum(1 for request in self.asked if request.at >= since and "/leases" not in request.path)

    def close(self) -> None:
        """End everything; raises what went wrong unseen."""
        self.stage.close()

    def _job(self, roles: dict[str, int], scope: str, restart: str) -> Document:
        template = {"spec": {"containers": [{"name": self.framework.container.name, "image": "x:1"}]}}
        groups = {
            role: {"restartPolicy": restart, "template": template, "replicas": count} for role, count in roles.items()
        }
        annotations = LENGTHS | {"trainshed.dev/restart-scope": scope}
        elastic = {"elasticPolicy": ELASTIC} if self.kind == "PyTorchJob" else {}
        return {
            "apiVersion": "kubeflow.org/v1",
            "kind": self.kind,
            "metadata": {"name": "job", "namespace": NAMESPACE, "annotations": annotations},
            "spec": {self.framework.field: groups, "runPolicy": TIMES} | elastic,
        }


def pod(name: str = "job-worker-0", part: str = "") -> str:
    """Where a pod of the job is, or its status."""
    return f"{CORE}/pods/{name}{part}"


def group() -> str:
    """Where the PodGroup of the job is; its status is no subresource."""
    return f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{NAMESPACE}/podgroups/job"


def job(kind: str) -> str:
    """Where the status of the job is."""
    return f"{jobs(kind)}/job/status"
