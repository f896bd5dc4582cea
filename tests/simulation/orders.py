"""What users write, drawn from the schemas of the CRDs: whole jobs, and changes of one field of them."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import yaml

CRDS = Path(__file__).parents[2] / "crds"
SCOPE, DISRUPTION = "trainshed.dev/restart-scope", "trainshed.dev/on-disruption"
KEEP = "trainshed.dev/track-results"
#: What small jobs ask for: whole numbers that a schema leaves open are one of these.
NUMBERS = (0, 0, 1, 1, 2, 3, 5, 30)
#: The roles that a job of a kind may have, and those that it must; those who are one at the most.
ROLES = {
    "TFJob": (("Chief", "PS", "Worker", "Evaluator"), ()),
    "PyTorchJob": (("Master", "Worker"), ()),
    "XGBoostJob": (("Worker",), ("Master",)),
    "PaddleJob": (("Master", "Worker"), ()),
    "JAXJob": ((), ("Worker",)),
    "MPIJob": (("Worker",), ("Launcher",)),
}
LEADERS = ("Chief", "Master", "Launcher", "Evaluator")
CONTAINERS = {"TFJob": "tensorflow", "PyTorchJob": "pytorch", "XGBoostJob": "xgboost", "PaddleJob": "paddle"}
FIELDS = {
    "TFJob": "tfReplicaSpecs",
    "PyTorchJob": "pytorchReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
    "PaddleJob": "paddleReplicaSpecs",
    "JAXJob": "jaxReplicaSpecs",
    "MPIJob": "mpiReplicaSpecs",
}
RESTARTS = ("Never", "OnFailure", "ExitCode", "Always")
#: A field of a job and what it is to be; the path is dotted.
Setting = tuple[str, Any]


@dataclass(frozen=True, slots=True)
class Order:
    """A job to be made; `spec` are fields below it, `policy` is below `runPolicy`."""

    kind: str
    name: str
    roles: tuple[tuple[str, int], ...]
    restart: str = "Never"
    policy: tuple[Setting, ...] = ()
    spec: tuple[Setting, ...] = ()
    annotations: tuple[Setting, ...] = ()
    version: str = "v1"

    @property
    def plural(self) -> str:
        """As in the path of a request."""
        return f"{self.kind.lower()}s"

    @property
    def path(self) -> str:
        """Where the jobs of its kind and version are."""
        return f"/apis/kubeflow.org/{self.version}/namespaces/ml/{self.plural}"

    def document(self) -> dict[str, Any]:
        """The job as it is sent to the server."""
        template = {"spec": {"containers": [{"name": CONTAINERS.get(self.kind, self.kind[:-3].lower()), "image": "x"}]}}
        groups = {
            role: {"replicas": count, "restartPolicy": self.restart, "template": template} for role, count in self.roles
        }
        meta = {"name": self.name, "namespace": "ml", "annotations": dict(self.annotations)}
        spec: dict[str, Any] = {"runPolicy": dict(self.policy), FIELDS[self.kind]: groups}
        for path, wanted in self.spec:
            _put(spec, path, wanted)
        return {"apiVersion": f"kubeflow.org/{self.version}", "kind": self.kind, "metadata": meta, "spec": spec}


def order(random: Random, name: str) -> Order:
    """A random small job."""
    kind = random.choice(list(ROLES))
    perhaps, surely = ROLES[kind]
    wanted = [*surely, *(role for role in perhaps if random.random() < 0.5)]
    if not set(wanted) & {"Chief", "Master", "Launcher", "Worker"}:
        wanted.append("Worker")  # somebody has to decide
    roles = tuple((role, 1 if role in LEADERS else random.choice((1, 1, 2, 2, 3))) for role in wanted)
    known = dict(fields(kind))
    policy = [path for path in known if path.startswith("runPolicy.") and path.count(".") == 1]
    own = [path for path in known if "." not in path]
    few = [path for path in policy if path != "runPolicy.suspend" and random.random() < 0.3]
    spec = [(path, value(known[path], random)) for path in own if random.random() < 0.3]
    return Order(
        kind,
        name,
        roles,
        restart=random.choice(RESTARTS),
        policy=tuple((path.partition(".")[2], value(known[path], random)) for path in few),
        spec=(*spec, *(_elastic(wanted, random) if kind == "PyTorchJob" else ())),
        annotations=tuple(_annotations(random)),
    )


def setting(random: Random, wanted: Order) -> Setting:
    """A random change of one field of a job; one in eight turns a switch, or is about the number of replicas."""
    known = list(fields(wanted.kind))
    path, schema = random.choice(known)
    chance = random.random()
    if chance < 0.35:
        role, _ = random.choice(wanted.roles)
        return f"{FIELDS[wanted.kind]}.{role}.replicas", 1 if role in LEADERS else random.choice((0, 1, 2, 3, 4))
    if chance < 0.65:
        return "runPolicy.suspend", random.choice((True, False))
    if chance < 0.7:
        role, _ = random.choice(wanted.roles)
        return f"{FIELDS[wanted.kind]}.{role}.restartPolicy", random.choice(RESTARTS)
    return path, value(schema, random)


def patch(path: str, wanted: Any) -> dict[str, Any]:
    """A change as a merge patch of the job's spec."""
    found = wanted
    for part in reversed(path.split(".")):
        found = {part: found}
    return {"spec": found}


def value(schema: dict[str, Any], random: Random) -> Any:
    """Something that a schema allows; small, where it leaves much open."""
    if "enum" in schema:
        return random.choice(schema["enum"])
    if schema["type"] == "boolean":
        return random.choice((True, False))
    return max(random.choice(NUMBERS), schema.get("minimum", 0))


@functools.cache
def fields(kind: str) -> tuple[tuple[str, dict[str, Any]], ...]:
    """The fields of a job's spec that may be changed and are no text or list, with their schemas, by dotted path."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    crd = yaml.load((CRDS / f"kubeflow.org_{kind.lower()}s.yaml").read_text(), loader)
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return tuple(_leaves("", schema))


def _leaves(path: str, schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    if path.endswith(("ReplicaSpecs", "elasticPolicy", "managedBy")):
        return
    for name, found in schema.get("properties", {}).items():
        yield from _leaves(f"{path}.{name}" if path else name, found)
    if "enum" in schema or schema.get("type") in ("boolean", "integer"):
        yield path, schema


def _put(spec: dict[str, Any], path: str, wanted: Any) -> None:
    *parts, last = path.split(".")
    for part in parts:
        spec = spec.setdefault(part, {})
    spec[last] = wanted


def _elastic(wanted: list[str], random: Random) -> Iterator[Setting]:
    if wanted == ["Worker"] and random.random() < 0.3:
        yield from (("elasticPolicy.minReplicas", 1), ("elasticPolicy.maxReplicas", 4))


def _annotations(random: Random) -> Iterator[Setting]:
    if random.random() < 0.4:
        yield SCOPE, random.choice(("Replica", "Role", "Job"))
    if random.random() < 0.1:
        yield DISRUPTION, "Fail"
    if random.random() < 0.15:
        yield KEEP, "true"
