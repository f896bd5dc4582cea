"""One job on a simulated cluster whose objects a test changes, and the checks that hold at its end.

The job runs, the test writes a value, a worker fails once, and the pods that decide succeed at the end. The job must
end with a bounded number of requests, no traceback in the log, and a stored status that the CRD's schema accepts.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from support.audit import api_fields
from support.audit.change import OPERATOR, Request
from support.pod_statuses import ended
from trainshed import crd
from trainshed.api.framework import Framework
from trainshed.frameworks import FRAMEWORKS
from trainshed.memory.errors import StatusError

from .cluster import NAMESPACE, Cluster, jobs
from .nodes import PunctualKubelet
from .schema_validation import SchemaValidator
from .server_events import observe_requests

Document = dict[str, Any]
CORE = f"/api/v1/namespaces/{NAMESPACE}"
#: Seconds until the value is written, from then until a worker fails, and how long the pods that decide run.
WRITTEN, FAILS, RUNS = 5.0, 3.0, 30.0
#: Seconds within which the job must end, and of these the last ones, in which the operator must be quiet.
RUN_SECONDS, QUIET_SECONDS = 400.0, 60.0
#: The largest number of requests of the operator, without watches, in all and in the quiet seconds.
MAX_REQUESTS, MAX_QUIET_REQUESTS = 260, 20
#: The longest times that a user can ask for: the job ends before.
TIMES = {"activeDeadlineSeconds": 10**10, "ttlSecondsAfterFinished": 2**31 - 1}
DEADLINES = {f"trainshed.dev/{what}": "8760h" for what in ("startup-deadline", "force-delete-after")}
#: An elastic job has an autoscaler.
TARGET = {"type": "Utilization", "averageUtilization": 80}
ELASTIC = {
    "minReplicas": 2,
    "maxReplicas": 2,
    "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": TARGET}}],
}
#: The roles of a job by its kind, and the suffixes of the pods that decide whether it succeeds.
ROLES: dict[str, tuple[dict[str, int], tuple[str, ...]]] = {
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
        """Return the messages of the errors with a traceback."""
        return [f"{record.getMessage()}: {record.exc_info[1]!r}" for record in self.records if record.exc_info]


@contextmanager
def log() -> Iterator[Log]:
    """Keep what the operator logs."""
    found, logger = Log(), logging.getLogger("trainshed")
    logger.addHandler(found)
    try:
        yield found
    finally:
        logger.removeHandler(found)


class JobRun:
    """A job of a kind on the simulated server; `requests` are the operator's."""

    def __init__(self, kind: str = "TFJob", scope: str = "Job", restart: str = "OnFailure", gang: str = "") -> None:
        self.framework: Framework = next(found for found in FRAMEWORKS if found.kind == kind)
        self.kind = kind
        roles, ends = ROLES[kind]
        self.cluster = Cluster(replicas=1, kinds=(self.framework,))
        self.requests: list[Request] = []
        observe_requests(self.cluster.server, self._observe)
        PunctualKubelet(self.cluster, dict.fromkeys(ends, RUNS))
        self.cluster.operators[0].settings |= {"leader_elect": False, "gang_scheduler": gang}
        self.cluster.start()
        self._wanted = self._job(roles, scope, restart)
        self.cluster.submit(self.job())

    def job(self) -> Document:
        """Return the job as it is submitted."""
        return copy.deepcopy(self._wanted)

    def status(self) -> Document:
        """Return the stored status of the job."""
        found = (self.cluster.job(self.kind, "job") or {}).get("status", {})
        assert isinstance(found, dict)
        return found

    def states(self) -> list[str]:
        """Return the conditions that are true."""
        return [one["type"] for one in api_fields.conditions(self.status()) if one["status"] == "True"]

    def write(self, path: str, patch: Document, actor: str = "user") -> bool:
        """Patch an object; return whether the server has accepted it."""
        try:
            self.cluster.server.request(actor, "PATCH", path, body=patch)
        except StatusError:
            return False
        return True

    def fail(self, name: str, code: int = 137) -> None:
        """End a pod's container with this code, if the pod exists."""
        found = self.cluster.server.object(pod(name))
        if found is not None:
            self.write(pod(name, "/status"), {"status": ended(found, code, self.cluster.now())})

    def run(self, path: str, patch: Document) -> None:
        """Run the job to its end, with this written into it."""
        self.cluster.loop.run_for(WRITTEN / 2)
        self.admit_group()
        self.cluster.loop.run_for(WRITTEN / 2)
        assert self.write(path, patch), "the server has refused it"
        self.cluster.loop.run_for(FAILS)
        self.fail("job-worker-1")
        self.cluster.loop.run_for(FAILS)
        self.admit_group()
        self.cluster.loop.run_for(RUN_SECONDS)

    def admit_group(self) -> None:
        """Admit the PodGroup of the job, if it has one."""
        if self.cluster.server.objects("podgroups"):
            self.write(group(), {"status": {"phase": "Inqueue"}})

    def problems(self, found: Log, end: str = "Succeeded") -> list[str]:
        """Return the problems at the end of the job."""
        problems = []
        if end not in self.states():
            problems.append(f"the job is {self.states()} and not {end}: {self.status()}")
        if self.request_count() > MAX_REQUESTS:
            problems.append(f"{self.request_count()} requests")
        if (last := self.request_count(since=self.cluster.now() - QUIET_SECONDS)) > MAX_QUIET_REQUESTS:
            problems.append(f"{last} requests in the last {QUIET_SECONDS:.0f} s")
        if refused := [request for request in self.requests if request.status in (400, 413, 422)]:
            problems.append(f"{len(refused)} requests were refused as invalid, as {refused[0].verb} {refused[0].path}")
        problems += found.tracebacks()[:3]
        validator = SchemaValidator(crd.definition(self.framework)["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
        return problems + validator.errors({"status": self.status()}, only="status")

    def request_count(self, since: float = 0.0) -> int:
        """Return the number of requests since a time, without those for the Lease."""
        return sum(1 for request in self.requests if request.at >= since and "/leases" not in request.path)

    def close(self) -> None:
        """End everything; raises if there were errors that nothing awaited."""
        self.cluster.close()

    def _observe(self, actor: str, request: Request) -> None:
        if actor == OPERATOR:
            self.requests.append(request)

    def _job(self, roles: dict[str, int], scope: str, restart: str) -> Document:
        template = {"spec": {"containers": [{"name": self.framework.container.name, "image": "x:1"}]}}
        groups = {
            role: {"restartPolicy": restart, "template": template, "replicas": count} for role, count in roles.items()
        }
        annotations = DEADLINES | {"trainshed.dev/restart-scope": scope}
        elastic = {"elasticPolicy": ELASTIC} if self.kind == "PyTorchJob" else {}
        return {
            "apiVersion": "kubeflow.org/v1",
            "kind": self.kind,
            "metadata": {"name": "job", "namespace": NAMESPACE, "annotations": annotations},
            "spec": {self.framework.field: groups, "runPolicy": TIMES} | elastic,
        }


def pod(name: str = "job-worker-0", part: str = "") -> str:
    """Return the path of a pod of the job, or of its status."""
    return f"{CORE}/pods/{name}{part}"


def group() -> str:
    """Return the path of the job's PodGroup, whose status is no subresource."""
    return f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{NAMESPACE}/podgroups/job"


def job_status(kind: str = "TFJob") -> str:
    """Return the path of the job's status."""
    return f"{jobs(kind)}/job/status"
