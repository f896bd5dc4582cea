"""What Trainer 2.3.0 makes of a TrainJob and its runtime: the pods of each role."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainshed.api.coerce import as_mapping
from trainshed.api.job import Document
from trainshed.api.quantities import parse_quantity
from trainshed.api.spec import MOST_REPLICAS

from .layout import COMPLETION_INDEX, NODE, STEP
from .losses import NotConvertible
from .merging import merged

LAUNCHER = "launcher"
PORT = 29500
#: The variables that spec.trainer.env may not have, by the policy that sets them.
RESERVED = {
    "torch": ("PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_NNODES", "PET_NODE_RANK", "PET_NPROC_PER_NODE"),
    "xgboost": ("DMLC_NUM_WORKER", "DMLC_TASK_ID", "DMLC_TRACKER_PORT", "DMLC_TRACKER_URI"),
    "mpi": (
        "OMPI_MCA_orte_default_hostfile",
        "OMPI_MCA_orte_keep_fqdn_hostnames",
        "OMPI_MCA_orte_set_default_slots",
        "OMPI_MCA_plm_rsh_args",
    ),
}
#: The most items of fields of spec.trainer.
MOST = {"command": 128, "args": 128, "env": 128}
POLICIES = ("torch", "mpi", "flux", "jax", "xgboost")
STEPS = {"dataset": "dataset-initializer", "model": "model-initializer"}
Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Role:
    """A replicated job: its pods, `replicas` times `count`, the fields of its Job and of itself, and its template.

    `injected` are the variables that the policy sets in the container `node`; the template does not have them.
    """

    name: str
    count: int
    replicas: int
    fields: Document
    job: Document
    template: Document
    step: str = ""
    injected: tuple[Entry, ...] = ()

    @property
    def pods(self) -> int:
        """The number of pods."""
        return self.count * self.replicas

    @property
    def containers(self) -> list[dict[str, Any]]:
        """The containers as Trainer renders them, with the variables and the port of the policy."""
        return [
            _injected(item, self.injected) if item.get("name") == NODE and self.injected else item
            for item in self.template["spec"]["containers"]
        ]


@dataclass(frozen=True, slots=True)
class Rendered:
    """A TrainJob with its runtime: the roles in their order, the policy and its settings, the fields of the JobSet."""

    name: str
    trainjob: Document
    runtime: Document
    roles: tuple[Role, ...]
    policy: str
    settings: Document
    job_set: Document
    slots: int = 1
    metadata: Document = field(default_factory=dict)

    @property
    def hosts(self) -> Iterator[str]:
        """The lines of the hostfile of an MPI job."""
        as_node = bool(self.settings.get("runLauncherAsNode"))
        for role in self.roles:
            if role.name == NODE or (as_node and role.name == LAUNCHER):
                for replica in range(role.replicas):
                    for index in range(role.count):
                        yield f"{self.name}-{role.name}-{replica}-{index}.{self.domain} slots={self.slots}"

    @property
    def domain(self) -> str:
        """The subdomain of the pods."""
        return str(as_mapping(self.job_set.get("network")).get("subdomain") or self.name)


def render(trainjob: Document, runtime: Document) -> Rendered:
    """Return what Trainer makes of a TrainJob; both documents have been checked by their schemas.

    Raises:
        NotConvertible: Trainer would refuse it, or it is larger than Trainshed allows.
    """
    spec = trainjob["spec"]
    trainer: Document = spec.get("trainer") or {}
    ml_policy = as_mapping(runtime["spec"].get("mlPolicy"))
    names = [name for name in POLICIES if ml_policy.get(name) is not None]
    if len(names) > 1:
        raise NotConvertible("spec.mlPolicy", f"only one of {', '.join(names)} can be set")
    policy = names[0] if names else ""
    job_set, metadata = _patched(spec, as_mapping(runtime["spec"]["template"]))
    _check(spec, trainer, policy, job_set)
    settings = as_mapping(ml_policy.get(policy)) if policy else {}
    roles = [_role(item, runtime["spec"], spec, settings) for item in job_set.get("replicatedJobs") or ()]
    roles = [_counted(role, trainer, policy, settings) for role in roles]
    if (pods := sum(role.pods for role in roles)) > MOST_REPLICAS:
        raise NotConvertible("spec.trainer.numNodes", f"{pods} pods are more than {MOST_REPLICAS}")
    resources = trainer.get("resourcesPerNode") or _resources(roles)
    found = Rendered(
        name=str(trainjob["metadata"]["name"]),
        trainjob=trainjob,
        runtime=runtime,
        roles=(),
        policy=policy,
        settings=settings,
        job_set=job_set,
        slots=_slots(trainer, settings, resources) if policy == "mpi" else 1,
        metadata=metadata,
    )
    return _with_roles(found, tuple(_with_variables(found, role, roles, trainer, resources) for role in roles))


def _with_roles(found: Rendered, roles: tuple[Role, ...]) -> Rendered:
    return Rendered(
        found.name, found.trainjob, found.runtime, roles, found.policy, found.settings, found.job_set, found.slots,
        found.metadata,
    )  # fmt: skip


def _patched(spec: Document, template: Document) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the spec and the metadata of the JobSet with the patches of the job, in their order."""
    job_set, metadata = copy.deepcopy(dict(template.get("spec") or {})), dict(template.get("metadata") or {})
    order = [item["name"] for item in job_set.get("replicatedJobs") or ()]
    for number, entry in enumerate(spec.get("runtimePatches") or ()):
        patch = as_mapping(as_mapping(entry.get("trainingRuntimeSpec")).get("template"))
        _check_patch(patch, job_set, f"spec.runtimePatches[{number}].trainingRuntimeSpec.template")
        job_set = merged(job_set, patch.get("spec") or {})
        for part in ("labels", "annotations"):
            texts = {**as_mapping(metadata.get(part)), **as_mapping(as_mapping(patch.get("metadata")).get(part))}
            metadata |= {part: texts} if texts else {}
    job_set["replicatedJobs"] = sorted(job_set.get("replicatedJobs") or (), key=lambda item: order.index(item["name"]))
    return job_set, metadata


def _check_patch(patch: Document, job_set: Document, path: str) -> None:
    known = {item["name"]: item for item in job_set.get("replicatedJobs") or ()}
    for number, item in enumerate(as_mapping(patch.get("spec")).get("replicatedJobs") or ()):
        where = f"{path}.spec.replicatedJobs[{number}]"
        if item["name"] not in known:
            raise NotConvertible(f"{where}.name", f"the runtime has no replicated job {item['name']}")
        pod = _pod(item)
        there = _pod(known[item["name"]])
        names = {one.get("name") for part in ("containers", "initContainers") for one in there.get(part) or ()}
        for part in ("containers", "initContainers"):
            for index, container in enumerate(pod.get(part) or ()):
                at = f"{where}.template.spec.template.spec.{part}[{index}]"
                if container["name"] not in names:
                    raise NotConvertible(f"{at}.name", f"the runtime has no container {container['name']} there")
                if container.get("env") and container["name"] in (NODE, *STEPS.values()):
                    raise NotConvertible(f"{at}.env", "Forbidden: use spec.trainer.env or spec.initializer")


def _pod(replicated: Document) -> Document:
    job = as_mapping(as_mapping(replicated.get("template")).get("spec"))
    return as_mapping(as_mapping(job.get("template")).get("spec"))


def _check(spec: Document, trainer: Document, policy: str, job_set: Document) -> None:
    """Refuse what Trainer's webhook refuses."""
    if policy == "flux":
        raise NotConvertible("spec.mlPolicy.flux", "Flux is not supported")
    for number, entry in enumerate(trainer.get("env") or ()):
        if entry.get("name") in RESERVED.get(policy, ()):
            raise NotConvertible(f"spec.trainer.env[{number}].name", f"{entry['name']} is reserved for the runtime")
    if (trainer.get("command") or [])[:2] == ["tune", "run"] and policy == "torch":
        raise NotConvertible("spec.trainer.command", "tune run: runtimes for torchtune are not supported")
    for name, most in MOST.items():
        if len(trainer.get(name) or ()) > most:
            raise NotConvertible(f"spec.trainer.{name}", f"Too many: must have at most {most} items")
    for name in ("numNodes", "numProcPerNode"):
        value = trainer.get(name)
        if value is not None and not 1 <= value <= MOST_REPLICAS:
            raise NotConvertible(f"spec.trainer.{name}", f"must be from 1 to {MOST_REPLICAS}")
    _check_roles(spec, job_set)


def _check_roles(spec: Document, job_set: Document) -> None:
    names = [item["name"] for item in job_set.get("replicatedJobs") or ()]
    if not names:
        raise NotConvertible("spec.template.spec.replicatedJobs", "Required value")
    if len(set(names)) < len(names):
        raise NotConvertible("spec.template.spec.replicatedJobs", "a name stands twice")
    for part, role in STEPS.items():
        if as_mapping(spec.get("initializer")).get(part) is not None and role not in names:
            raise NotConvertible(f"spec.initializer.{part}", f"the runtime has no replicated job {role}")


def _role(item: Document, runtime: Document, spec: Document, settings: Document) -> Role:
    """Return a replicated job with what spec.trainer and spec.initializer say of its container."""
    template = as_mapping(item["template"])
    job = as_mapping(template.get("spec"))
    step = str(as_mapping(as_mapping(template.get("metadata")).get("labels")).get(STEP) or "")
    pod_template = as_mapping(job.get("template"))
    path = f"spec.template.spec.replicatedJobs[{item['name']}].template.spec.template.spec.containers"
    containers = as_mapping(pod_template.get("spec")).get("containers")
    if not containers:
        raise NotConvertible(path, "Required value")
    count: int = 1 if job.get("parallelism") is None else job["parallelism"]
    if step == "trainer" and runtime.get("mlPolicy") is not None:
        count = runtime["mlPolicy"].get("numNodes") or 1
    replicas: int = 1 if step else (1 if item.get("replicas") is None else item["replicas"])
    for name, value in (("parallelism", count), ("replicas", replicas)):
        if not 0 <= value <= MOST_REPLICAS:
            raise NotConvertible(f"spec.template.spec.replicatedJobs[{item['name']}].{name}", "is out of bounds")
    trainer: Document = spec.get("trainer") or {}
    as_node = bool(settings.get("runLauncherAsNode")) and item["name"] == NODE
    changed = [
        _main(one, trainer, whole=step == "trainer", measured=runtime.get("mlPolicy") is not None)
        if one.get("name") == NODE and (step == "trainer" or as_node)
        else _initializer(one, step, spec)
        for one in containers
    ]
    whole = {**pod_template, "spec": {**pod_template["spec"], "containers": changed}}
    return Role(str(item["name"]), max(count, 1), replicas, item, job, whole, step)


def _main(container: Document, trainer: Document, *, whole: bool, measured: bool) -> dict[str, Any]:
    found = dict(container)
    for name in ("image", "command", "args") if whole else ():
        if trainer.get(name) is not None:
            found[name] = trainer[name]
    if (wanted := trainer.get("resourcesPerNode")) is not None and measured:
        given = as_mapping(found.get("resources"))
        merged_parts = {
            part: {**as_mapping(given.get(part)), **as_mapping(wanted.get(part))} for part in ("limits", "requests")
        }
        found["resources"] = {**given, **{part: amounts for part, amounts in merged_parts.items() if amounts}}
    return _upserted(found, trainer.get("env") or ())


def _initializer(container: Document, step: str, spec: Document) -> dict[str, Any]:
    part = {role: name for name, role in STEPS.items()}.get(step)
    given = as_mapping(as_mapping(spec.get("initializer")).get(part)) if part and container.get("name") == step else {}
    uri = [{"name": "STORAGE_URI", "value": given["storageUri"]}] if given.get("storageUri") is not None else []
    found = _upserted(container, [*uri, *(given.get("env") or ())])
    if given.get("secretRef"):
        found["envFrom"] = [*(found.get("envFrom") or ()), {"secretRef": {"name": given["secretRef"].get("name")}}]
    return found


def _upserted(container: Document, entries: Iterable[Entry]) -> dict[str, Any]:
    """Return a container with variables, each in the place of one of its name, or else at the end."""
    env = list(container.get("env") or ())
    places = {entry.get("name"): number for number, entry in reversed([*enumerate(env)])}
    for entry in entries:
        at = places.setdefault(entry.get("name"), len(env))
        env[at : at + 1] = [entry]
    return {**container, **({"env": env} if env else {})}


def _counted(role: Role, trainer: Document, policy: str, settings: Document) -> Role:
    """Return a role with the number of nodes that the job says."""
    wanted = trainer.get("numNodes")
    if wanted is None:
        return role
    if policy == "mpi":
        if role.name != NODE:
            return role
        wanted = max(wanted - 1, 1) if settings.get("runLauncherAsNode") else wanted
    elif role.step != "trainer":
        return role
    return Role(role.name, wanted, role.replicas, role.fields, role.job, role.template, role.step)


def _resources(roles: Sequence[Role]) -> Document:
    """Return the resources of the first container `node` of a training that has some."""
    for role in roles:
        if role.name == NODE or role.step == "trainer":
            for container in role.template["spec"]["containers"]:
                if container.get("name") == NODE and container.get("resources") is not None:
                    return as_mapping(container["resources"])
    return {}


def _amount(resources: Document, part: str, *, cpu: bool) -> int:
    """Return the CPUs or the GPUs of requests or limits, rounded up."""
    for name, text in as_mapping(resources.get(part)).items():
        if (name == "cpu") if cpu else ("gpu" in str(name).lower()):
            return min(math.ceil(parse_quantity(text) or 0), 2**63 - 1)
    return 0


def _gpus(resources: Document) -> int:
    return _amount(resources, "requests", cpu=False) or _amount(resources, "limits", cpu=False)


def _slots(trainer: Document, settings: Document, resources: Document) -> int:
    own = settings.get("numProcPerNode") or 1
    return int(trainer.get("numProcPerNode") or (max(_gpus(resources), 1) if own == 1 else own))


def _with_variables(found: Rendered, role: Role, roles: Sequence[Role], trainer: Document, resources: Document) -> Role:
    """Return a role with the variables of the policy, which Trainer sets only if the job has a trainer."""
    if found.policy == "mpi":
        entries = _mpi_variables(found) if role.name == LAUNCHER else ()
    elif role.step != "trainer" or found.trainjob["spec"].get("trainer") is None:
        entries = ()
    else:
        first = next(one for one in roles if one.step == "trainer")
        entries = _node_variables(found, role, trainer, resources) if role is first else ()
    own = {entry.get("name") for entry in trainer.get("env") or ()}
    kept = tuple(entry for entry in entries if entry["name"] not in own)
    return Role(role.name, role.count, role.replicas, role.fields, role.job, role.template, role.step, kept)


def _mpi_variables(found: Rendered) -> tuple[Entry, ...]:
    values = ("/etc/mpi/hostfile", "true", str(found.slots), "-o ConnectionAttempts=10")
    return tuple({"name": name, "value": value} for name, value in zip(RESERVED["mpi"], values, strict=True))


def _node_variables(found: Rendered, role: Role, trainer: Document, resources: Document) -> tuple[Entry, ...]:
    host = f"{found.name}-{NODE}-0-0.{found.name}"
    match found.policy:
        case "torch":
            texts = {"PET_NNODES": role.count, "PET_NPROC_PER_NODE": _processes(trainer, resources)}
            texts |= {"PET_MASTER_ADDR": host, "PET_MASTER_PORT": PORT}
            index = "PET_NODE_RANK"
        case "jax":
            texts = {"JAX_NUM_PROCESSES": role.count, "JAX_COORDINATOR_ADDRESS": f"{host}:{PORT}"}
            index = "JAX_PROCESS_ID"
        case "xgboost":
            workers = role.count * max(_gpus(resources), 1)
            texts = {"DMLC_TRACKER_URI": host, "DMLC_TRACKER_PORT": PORT, "DMLC_NUM_WORKER": workers}
            index = "DMLC_TASK_ID"
        case _:
            return ()
    literal = tuple({"name": name, "value": str(value)} for name, value in texts.items())
    return (*literal, {"name": index, "valueFrom": {"fieldRef": {"fieldPath": COMPLETION_INDEX}}})


def _processes(trainer: Document, resources: Document) -> str:
    """Return PET_NPROC_PER_NODE."""
    if trainer.get("numProcPerNode") is not None:
        return str(trainer["numProcPerNode"])
    if _gpus(resources):
        return "auto"
    return str(max(1, _amount(resources, "requests", cpu=True) or _amount(resources, "limits", cpu=True)))


def _injected(container: Document, entries: Sequence[Entry]) -> dict[str, Any]:
    """Return the container `node` with the variables of the policy, and for nodes of a training its port."""
    found = _upserted(container, entries)
    if entries[0]["name"] in RESERVED["mpi"]:
        return found
    ports = list(found.get("ports") or ())
    at = next((n for n, port in enumerate(ports) if port.get("containerPort") == PORT or not port.get("name")), None)
    if at is None:
        ports.append({"containerPort": PORT})
    else:
        ports[at] = {"containerPort": PORT}  # also another one without a name: a defect of Trainer 2.3.0
    return {**found, "ports": ports}
