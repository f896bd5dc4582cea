"""A schedule as data: the jobs that users create, and the steps of users, faults and nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

#: A field of a job, as a dotted path, and its value.
Setting = tuple[str, Any]

SCOPE, ON_DISRUPTION = "trainshed.dev/restart-scope", "trainshed.dev/on-disruption"
TRACK_RESULTS, SERVICES, RECORD = "trainshed.dev/track-results", "trainshed.dev/services", "trainshed.dev/record"
QUEUE_NAME = "kueue.x-k8s.io/queue-name"
CONTAINERS = {"TFJob": "tensorflow", "PyTorchJob": "pytorch", "XGBoostJob": "xgboost", "PaddleJob": "paddle"}
REPLICA_SPECS = {
    "TFJob": "tfReplicaSpecs",
    "PyTorchJob": "pytorchReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
    "PaddleJob": "paddleReplicaSpecs",
    "JAXJob": "jaxReplicaSpecs",
    "MPIJob": "mpiReplicaSpecs",
}


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A job that a user creates; `spec` are fields of its spec, `policy` are fields of `runPolicy`."""

    kind: str
    name: str
    roles: tuple[tuple[str, int], ...]
    restart: str = "Never"
    policy: tuple[Setting, ...] = ()
    spec: tuple[Setting, ...] = ()
    annotations: tuple[Setting, ...] = ()
    version: str = "v1"

    @property
    def path(self) -> str:
        """The path of the jobs of its kind and version."""
        return f"/apis/kubeflow.org/{self.version}/namespaces/ml/{self.kind.lower()}s"

    def document(self) -> dict[str, Any]:
        """Return the job as it is sent to the server."""
        template = {"spec": {"containers": [{"name": CONTAINERS.get(self.kind, self.kind[:-3].lower()), "image": "x"}]}}
        groups = {
            role: {"replicas": count, "restartPolicy": self.restart, "template": template} for role, count in self.roles
        }
        meta = {"name": self.name, "namespace": "ml", "annotations": dict(self.annotations)}
        spec: dict[str, Any] = {"runPolicy": dict(self.policy), REPLICA_SPECS[self.kind]: groups}
        for path, value in self.spec:
            _set(spec, path, value)
        return {"apiVersion": f"kubeflow.org/{self.version}", "kind": self.kind, "metadata": meta, "spec": spec}


@dataclass(frozen=True, slots=True)
class Step:
    """Something that happens `after` seconds; `what` is a word of `strategies`, `how` its argument.

    `which` selects one of the objects to which it can happen, modulo their number.
    """

    after: float
    what: str
    which: int = 0
    how: Any = None


@dataclass(frozen=True, slots=True)
class Schedule:
    """What happens to a cluster; `seed` draws the rest, such as latencies. `operators` is the number of replicas.

    With `finish` all pods succeed at the end, except those that never end; otherwise the jobs keep running. `gang`
    names a gang scheduler, `mpi` is the version of MPIJob that the server serves.
    """

    seed: int
    steps: tuple[Step, ...]
    operators: int = 1
    finish: bool = False
    gang: str = ""
    mpi: str = "v1"


def literal(schedule: Schedule) -> str:
    """Return the schedule as Python code, without the fields that have their defaults."""
    steps = "".join(f"        {_value(step)},\n" for step in schedule.steps)
    rest = "".join(f"    {part},\n" for part in _parts(schedule) if not part.startswith("steps="))
    return f"Schedule(\n{rest}    steps=(\n{steps}    ),\n)"


def patch(path: str, value: Any) -> dict[str, Any]:
    """Return a merge patch that sets one field of a job's spec."""
    for part in reversed(path.split(".")):
        value = {part: value}
    return {"spec": value}


def _set(spec: dict[str, Any], path: str, value: Any) -> None:
    *parts, last = path.split(".")
    for part in parts:
        spec = spec.setdefault(part, {})
    spec[last] = value


def _value(found: Any) -> str:
    if is_dataclass(found) and not isinstance(found, type):
        return f"{type(found).__name__}({', '.join(_parts(found))})"
    return repr(found)


def _parts(found: Any) -> Iterator[str]:
    for field in fields(found):
        value = getattr(found, field.name)
        if value != field.default:
            yield f"{field.name}={_value(value)}"
