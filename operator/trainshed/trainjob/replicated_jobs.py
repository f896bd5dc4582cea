"""The replicas of a job as a replicated job of a JobSet, with their pod template and their variables."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from trainshed.api.coerce import as_mapping
from trainshed.api.framework import Framework, own_container
from trainshed.api.job import Job, ReplicaGroup

from . import from_mpi, job_policies
from .layout import NODE, STEP, Layout, ReplicatedJob, equip
from .losses import NotConvertible

#: The policies by which Trainer sets variables, and the variables.
POLICIES = {
    "torch": ("PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"),
    "jax": ("JAX_NUM_PROCESSES", "JAX_PROCESS_ID", "JAX_COORDINATOR_ADDRESS"),
}


@dataclass(frozen=True, slots=True)
class ConvertedJob:
    """A job with its layout and Trainer's policy for it, "" for none."""

    job: Job
    framework: Framework
    made: Layout
    policy: str


def replicated_job(source: ConvertedJob, target: ReplicatedJob) -> dict[str, Any]:
    """Return the replicated job of a target; raises `NotConvertible`."""
    job, framework, merged = source.job, source.framework, source.made.merged
    group = next(group for group in job.groups if group.role == target.role)
    template, container = _pod_template(source, group, target)
    count = 1 if target.apart else len(target.members)
    fields = {
        **({} if merged else {"parallelism": count, "completions": count}),
        "completionMode": "Indexed",
        **job_policies.job_fields(group, job, job_policies.restarts_of(job, framework), container),
        "template": template,
    }
    is_step = merged or (source.policy == from_mpi.POLICY and target.role == from_mpi.LAUNCHER)
    labelled = {"metadata": {"labels": {STEP: "trainer"}}} if is_step else {}
    return {
        "name": target.name,
        **({"replicas": len(target.members)} if target.apart else {}),
        **_start_order(source, target),
        "template": {**labelled, "spec": fields},
    }


def _start_order(source: ConvertedJob, target: ReplicatedJob) -> dict[str, Any]:
    after = source.framework.hooks.start_after(source.job, target.role)
    roles = {one.role: one.name for one in source.made.targets}
    if source.made.merged or after is None or after.role not in roles:
        return {}
    return {"dependsOn": [{"name": roles[after.role], "status": "Ready"}]}


def _pod_template(source: ConvertedJob, group: ReplicaGroup, target: ReplicatedJob) -> tuple[dict[str, Any], str]:
    """Return the pod template of a replicated job, and the name of the container that trains there."""
    template = {key: copy.deepcopy(group.template[key]) for key in group.template}
    pod, container = dict(template["spec"]), source.framework.container
    own = own_container(container, pod["containers"], group.container)
    name = NODE if source.made.merged or source.policy == from_mpi.POLICY else str(own["name"])
    others = (item for item in (*pod["containers"], *(pod.get("initContainers") or ())) if item is not own)
    if any(item.get("name") == name for item in others):
        path = f"spec.{source.framework.field}[{group.role}].template.spec.containers"
        raise NotConvertible(path, f"the container that trains has to be called {name}, and another one is")
    skipped = POLICIES.get(source.policy, ())
    variables = source.made.variables[target.name]
    given = [one for one in variables if one.name not in skipped]
    beside = given if source.policy == "torch" else variables  # that policy has them injected
    equipped = []
    for item in pod["containers"]:
        found = equip(item, given if item is own else beside if container.env_in_all_containers else ())
        equipped.append(_main(source, group, {**found, "name": name}) if item is own else found)
    pod |= {"containers": equipped, "restartPolicy": job_policies.pod_restart_policy(group.restart_policy)}
    written = as_mapping(template.get("metadata"))
    metadata = {part: written[part] for part in ("labels", "annotations") if written.get(part)}
    return {**({"metadata": metadata} if metadata else {}), "spec": pod}, name


def _main(source: ConvertedJob, group: ReplicaGroup, container: dict[str, Any]) -> dict[str, Any]:
    """Return the container that trains with its port; all ports have names: Trainer replaces one that has none."""
    ports = [dict(port) for port in container.get("ports") or ()]
    known = source.framework.container
    if known.port and group.port not in {port.get("containerPort") for port in ports}:
        ports.append({"name": known.port_name, "containerPort": group.port})
    named = [{"name": port.get("name") or f"port-{port.get('containerPort')}", **port} for port in ports]
    own = {**container, **({"ports": named} if named else {})}
    return from_mpi.with_sshd(group, own) if source.policy == from_mpi.POLICY else own
