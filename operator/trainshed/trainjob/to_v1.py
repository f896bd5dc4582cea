"""A TrainJob with its runtime as a job of kubeflow.org, whose pods do the same."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any

from trainshed.api import parse
from trainshed.api.coerce import as_mapping
from trainshed.api.framework import Framework, JobDefaults
from trainshed.api.job import Replica
from trainshed.api.objects import REPLICA_INDEX_LABEL
from trainshed.api.parse import LAST_APPLIED
from trainshed.frameworks import FRAMEWORKS
from trainshed.frameworks.mpi_v2beta1 import MPI_V2BETA1

from .job_policies import ENDLESS, is_exit_code
from .layout import COMPLETION_INDEX, NODE
from .losses import FROM_TRAINJOB, Conversion, Loss, NotConvertible, loss
from .renderer import LAUNCHER, PORT, Rendered, Role
from .trainjob_losses import found as losses_of

#: The kind that a TrainJob becomes, by the policy of its runtime, and those that it may become.
KINDS: dict[str, tuple[str, ...]] = {
    "torch": ("PyTorchJob",),
    "jax": ("JAXJob",),
    "xgboost": ("XGBoostJob",),
    "mpi": ("MPIJob",),
    "": ("JAXJob", "PyTorchJob"),
}
_KNOWN = {framework.kind: framework for framework in (*FRAMEWORKS[:-1], MPI_V2BETA1)}
#: The variable that the Job controller sets in every container.
JOB_INDEX = "JOB_COMPLETION_INDEX"
REPLICA_INDEX = f"metadata.labels['{REPLICA_INDEX_LABEL}']"


def convert(found: Rendered, kind: str = "") -> Conversion:
    """Return the job of this kind, "" for the one that fits best, and what is lost.

    Raises:
        NotConvertible: No such job can be like the TrainJob.
    """
    fitting = KINDS[found.policy]
    if kind and kind not in fitting:
        named = f"the policy {found.policy}" if found.policy else "a runtime without a policy"
        raise NotConvertible("spec.runtimeRef", f"{named} becomes {' or '.join(fitting)}, and not {kind}")
    framework = _KNOWN[kind or fitting[0]]
    _check_roles(found)
    groups = _mpi_groups(found) if found.policy == "mpi" else _groups(found, framework)
    spec: dict[str, Any] = {"runPolicy": _run_policy(found), **_options(found, framework)}
    spec[framework.field] = groups
    metadata = _metadata(found)
    head = {"apiVersion": framework.api_version, "kind": framework.kind, "metadata": metadata}
    document = {**head, "spec": spec}
    return Conversion((document,), (*losses_of(found, framework), *_overridden(document, framework)))


def _overridden(document: dict[str, Any], framework: Framework) -> Iterator[Loss]:
    """Yield the variables of the user that the kind sets to another value."""
    job = parse.job(document, framework, JobDefaults())
    if job.problems:
        return
    environment = framework.hooks.environment(job, JobDefaults())
    for group in job.groups:
        set_here = {one.name: one for one in environment(Replica(group.role, 0)) if not one.user_overridable}
        for number, container in enumerate(group.template["spec"]["containers"]):
            own = framework.container.env_in_all_containers or container.get("name") == group.container
            for entry in container.get("env") or () if own else ():
                known = set_here.get(entry.get("name"))
                if known is not None and known.value != entry.get("value"):
                    path = f"spec.{framework.field}[{group.role}].template.spec.containers[{number}].env[{known.name}]"
                    yield loss(FROM_TRAINJOB, "overridden", f"result: {path}")


def _check_roles(found: Rendered) -> None:
    allowed = (LAUNCHER, NODE) if found.policy == "mpi" else (NODE,)
    for role in found.roles:
        path = f"spec.template.spec.replicatedJobs[{role.name}]"
        if role.name not in allowed or (role.step not in ("", "trainer")):
            raise NotConvertible(path, "a job of kubeflow.org has no such role")
        if role.template["spec"].get("restartPolicy") not in (None, "", "Never", "OnFailure"):
            where = f"{path}.template.spec.template.spec.restartPolicy"
            raise NotConvertible(where, "must be OnFailure or Never, as in a Job")
        if not any(item.get("name") == NODE for item in role.template["spec"]["containers"]):
            raise NotConvertible(f"{path}.template.spec.template.spec.containers", f"none is called {NODE}")
    if found.policy == "mpi":
        launchers = sum(role.pods for role in found.roles if role.name == LAUNCHER)
        if launchers != 1:
            raise NotConvertible("spec.mlPolicy.numNodes", f"there are {launchers} launchers, and there must be one")
    elif [role.name for role in found.roles] != [NODE]:
        raise NotConvertible("spec.template.spec.replicatedJobs", f"there must be one, {NODE}")


def _metadata(found: Rendered) -> dict[str, Any]:
    own = as_mapping(found.trainjob.get("metadata"))
    kept: dict[str, Any] = {key: own[key] for key in ("name", "namespace") if own.get(key)}
    for part in ("labels", "annotations"):
        texts = {**as_mapping(found.metadata.get(part)), **as_mapping(own.get(part))}
        texts.pop(LAST_APPLIED, None)
        if texts:
            kept[part] = texts
    return kept


def _run_policy(found: Rendered) -> dict[str, Any]:
    spec, job = found.trainjob["spec"], decisive(found).job
    policy: dict[str, Any] = {"cleanPodPolicy": "Running"}
    limit = job.get("backoffLimit")
    set_limit = as_mapping(found.job_set.get("failurePolicy")).get("maxRestarts")
    limit = set_limit if set_limit is not None else 6 if limit is None else limit
    if limit < ENDLESS:
        policy["backoffLimit"] = limit
    if spec.get("activeDeadlineSeconds") is not None:
        policy["activeDeadlineSeconds"] = spec["activeDeadlineSeconds"]
    if spec.get("suspend"):
        policy["suspend"] = True
    manager = spec.get("managedBy")
    if manager == "kueue.x-k8s.io/multikueue":
        policy["managedBy"] = manager
    elif manager not in (None, "trainer.kubeflow.org/trainjob-controller"):
        raise NotConvertible("spec.managedBy", f"Unsupported value: {json.dumps(manager)[:100]}")
    gang = as_mapping(as_mapping(found.runtime["spec"].get("podGroupPolicy")).get("coscheduling"))
    if gang.get("scheduleTimeoutSeconds") is not None:
        policy["schedulingPolicy"] = {"scheduleTimeoutSeconds": gang["scheduleTimeoutSeconds"]}
    return policy


def decisive(found: Rendered) -> Role:
    """Return the role whose pods decide about success."""
    wanted = LAUNCHER if found.policy == "mpi" else NODE
    return next(role for role in found.roles if role.name == wanted)


def restart_policy(role: Role) -> str:
    """Return the restart policy of a role: that of its pods, and ExitCode for the rule that stands for it."""
    rules: list[Any] = as_mapping(role.job.get("podFailurePolicy")).get("rules") or []
    if len(rules) == 1 and is_exit_code(rules[0]):
        return "ExitCode"
    pods = role.template["spec"].get("restartPolicy") or "OnFailure"  # JobSet's default
    return "Never" if pods == "Never" and role.job.get("backoffLimit") == 0 else "OnFailure"


def _options(found: Rendered, framework: Framework) -> dict[str, Any]:
    values = {entry["name"]: entry.get("value") for entry in decisive(found).injected}
    if framework.kind == "PyTorchJob":
        trainer = as_mapping(found.trainjob["spec"].get("trainer"))
        return {"nprocPerNode": str(values.get("PET_NPROC_PER_NODE") or trainer.get("numProcPerNode") or "auto")}
    if framework.kind != "MPIJob":
        return {}
    launcher = decisive(found)
    waits = any(item.get("name") == NODE for item in launcher.fields.get("dependsOn") or ())
    return {
        "slotsPerWorker": found.slots,
        "runLauncherAsWorker": bool(found.settings.get("runLauncherAsNode")),
        "sshAuthMountPath": found.settings.get("sshAuthMountPath") or "/root/.ssh",
        "launcherCreationPolicy": "WaitForWorkersReady" if waits else "AtStartup",
        "mpiImplementation": "OpenMPI",
    }


def with_master(found: Rendered, framework: Framework) -> bool:
    """Return whether the first pod becomes a master, which alone defines success."""
    rules = as_mapping(decisive(found).job.get("successPolicy")).get("rules")
    first = rules == [{"succeededIndexes": "0"}] and framework.kind == "PyTorchJob"
    return framework.kind == "XGBoostJob" or first


def _groups(found: Rendered, framework: Framework) -> dict[str, Any]:
    role = found.roles[0]
    restart = restart_policy(role)
    master = with_master(found, framework)
    groups: dict[str, Any] = {}
    if master:
        groups["Master"] = {
            "replicas": 1,
            "restartPolicy": restart,
            "template": _template(found, role, framework, index={"value": "0"}),
        }
    if role.pods > master:
        # The label of a worker counts from 0 on, also beside a master.
        index = None if master or role.replicas > 1 else {"valueFrom": {"fieldRef": {"fieldPath": REPLICA_INDEX}}}
        template = _template(found, role, framework, index=index)
        groups["Worker"] = {"replicas": role.pods - master, "restartPolicy": restart, "template": template}
    return groups


def _mpi_groups(found: Rendered) -> dict[str, Any]:
    groups: dict[str, Any] = {}
    for role in sorted(found.roles, key=lambda role: role.name != LAUNCHER):
        as_node = bool(found.settings.get("runLauncherAsNode"))
        field = None if as_node else {"valueFrom": {"fieldRef": {"fieldPath": REPLICA_INDEX}}}
        index = {"value": "0"} if role.name == LAUNCHER else field
        template = _template(found, role, MPI_V2BETA1, index=index)
        restart = restart_policy(role)
        groups["Launcher" if role.name == LAUNCHER else "Worker"] = {
            "replicas": role.pods,
            "restartPolicy": restart,
            "template": template,
        }
    return groups


def _template(found: Rendered, role: Role, framework: Framework, *, index: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the pod template of a role: its container `node` is that of the kind, at Trainer's port.

    `index` is the variable that stands for the index in a Job; None if there is none.
    """
    template = copy.deepcopy(dict(role.template))
    pod = dict(template["spec"])
    pod.pop("restartPolicy", None)
    names = {entry["name"] for entry in role.injected}
    containers = []
    for item in pod["containers"]:
        own = item.get("name") == NODE
        env = [entry for entry in item.get("env") or () if not (own and entry.get("name") in names)]
        env += _differing(framework, role) if own else ()
        env = _with_index(env, index)
        changed = {**item, **({"env": env} if env else {})}
        if not env:
            changed.pop("env", None)
        containers.append(_main(changed, framework, found) if own else changed)
    if framework.kind == "MPIJob":  # whose first container runs the MPI program
        containers.sort(key=lambda item: item.get("name") != NODE)
    pod["containers"] = containers
    if pod.get("initContainers"):
        pod["initContainers"] = [
            {**item, **({"env": _with_index(item["env"], index)} if item.get("env") else {})}
            for item in pod["initContainers"]
        ]
    written = as_mapping(template.get("metadata"))
    metadata = {part: written[part] for part in ("labels", "annotations") if written.get(part)}
    return {**({"metadata": metadata} if metadata else {}), "spec": pod}


def _differing(framework: Framework, role: Role) -> list[dict[str, Any]]:
    """Return the variables that the kind would set to another value: of XGBoost, a number of workers for each GPU."""
    values = {entry["name"]: entry.get("value") for entry in role.injected}
    workers = values.get("DMLC_NUM_WORKER")
    if framework.kind != "XGBoostJob" or workers in (None, str(role.pods)):
        return []
    return [{"name": "DMLC_NUM_WORKER", "value": workers}]


def _with_index(env: list[dict[str, Any]], index: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Return variables with the index of a Job as that of a replica."""
    if index is None:
        return env
    changed = [{"name": entry.get("name"), **index} if _field(entry) == COMPLETION_INDEX else entry for entry in env]
    return changed if any(entry.get("name") == JOB_INDEX for entry in env) else [*changed, {"name": JOB_INDEX, **index}]


def _field(entry: Mapping[str, Any]) -> str:
    return str(as_mapping(as_mapping(entry.get("valueFrom")).get("fieldRef")).get("fieldPath") or "")


def _main(container: Mapping[str, Any], framework: Framework, found: Rendered) -> dict[str, Any]:
    if framework.kind == "MPIJob":
        return dict(container)
    changed = {**container, "name": framework.container.name}
    if found.policy:
        known, name = list(container.get("ports") or ()), framework.container.port_name
        ports = [port for port in known if port.get("containerPort") != PORT and port.get("name") != name]
        changed["ports"] = [*ports, {"name": name, "containerPort": PORT}]
    return changed
