"""A job of kubeflow.org as a TrainJob with a TrainingRuntime of its own, in which its pods stand as they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.api.coerce import as_mapping
from trainshed.api.framework import Framework, JobDefaults, PodNames, own_container
from trainshed.api.job import Document, Job
from trainshed.api.job_annotations import PREFIX
from trainshed.api.objects import CONFIG_MAPS
from trainshed.api.parse import LAST_APPLIED
from trainshed.api.quantities import requests

from . import from_mpi, job_policies, replicated_jobs, spec_losses
from .layout import NODE, Inexpressible, Layout, layout, renamer
from .losses import TO_TRAINJOB, Conversion, Loss, NotConvertible, loss
from .replicated_jobs import POLICIES, ConvertedJob

GROUP = "trainer.kubeflow.org"
VERSION = f"{GROUP}/v1alpha1"
#: The label of a runtime without which Trainer's SDK skips it, and its value for each kind.
FRAMEWORK = f"{GROUP}/framework"
FRAMEWORKS = {
    "PyTorchJob": "torch",
    "JAXJob": "jax",
    "XGBoostJob": "xgboost",
    "TFJob": "tensorflow",
    "PaddleJob": "paddle",
    "MPIJob": "mpi",
}
#: The longest name of a pod, and a random suffix of a Job's.
LONGEST_POD, SUFFIX = 63, "-12345"


def convert(document: Document, job: Job, framework: Framework) -> Conversion:
    """Return the TrainJob and the runtime of a job with this document, which has no problems, and what is lost.

    Raises:
        NotConvertible: No TrainJob can be like this job.
    """
    if not as_mapping(document.get("metadata")).get("name"):
        raise NotConvertible("metadata.name", "Required value: the runtime and the variables need the name of the job")
    make = from_mpi.layout if framework.kind == "MPIJob" else _layout
    made, policy, lost = make(document, job, framework)
    _check_names(job, made)
    source = ConvertedJob(job, framework, made, policy)
    metadata = _metadata(document)
    kept: dict[str, Any] = {key: metadata[key] for key in ("name", "namespace") if key in metadata}
    labelled: dict[str, Any] = {**kept, "labels": {FRAMEWORK: FRAMEWORKS[framework.kind]}}
    config_maps = ({**item, "metadata": {**kept, **item["metadata"]}} for item in _config_maps(source))
    runtime = {
        "apiVersion": VERSION,
        "kind": "TrainingRuntime",
        "metadata": labelled,
        "spec": _runtime(source),
    }
    trainjob = {"apiVersion": VERSION, "kind": "TrainJob", "metadata": metadata, "spec": _spec(document, source)}
    found = spec_losses.found(document, job, framework, made)
    return Conversion((*config_maps, runtime, trainjob), (*found, *lost))


def _layout(document: Document, job: Job, framework: Framework) -> tuple[Layout, str, tuple[Loss, ...]]:
    """Return the replicated jobs, Trainer's policy for them ("" for none), and what the policy changes."""
    try:
        made = layout(job, framework, JobDefaults())
    except Inexpressible as error:
        raise NotConvertible(f"spec.{framework.field}", f"no pod template can say it: {error}") from error
    policy, spec = FRAMEWORKS[framework.kind] if made.merged else "", as_mapping(document.get("spec"))
    # A user may override some variables of the kind, and Trainer would override them in the runtime.
    own = {entry.get("name") for entry in _container(job, framework).get("env") or ()}
    overridable = own.intersection(POLICIES.get(policy, ())) if policy == "jax" else ()
    if policy not in POLICIES or spec.get("elasticPolicy") or overridable:
        return made, "", ()
    gpus = str(spec.get("nprocPerNode") or "auto") == "auto" and _has_gpus(_container(job, framework))
    unknown = policy == "torch" and not _processes(spec) and not gpus
    return made, policy, (loss(TO_TRAINJOB, "processes", "spec.nprocPerNode"),) if unknown else ()


def _container(job: Job, framework: Framework) -> Document:
    """Return the container that trains in the first role with replicas."""
    group = next(group for group in job.groups if group.count)
    return own_container(framework.container, group.template["spec"]["containers"], group.container)


def _has_gpus(container: Document) -> bool:
    """Return whether a container asks for GPUs, by Trainer's rule."""
    return any("gpu" in str(name).lower() for name in requests(container))


def _processes(spec: Document) -> int:
    """Return the processes on each node of a PyTorchJob, 0 if they are not given as a number."""
    text = str(spec.get("nprocPerNode") or "")
    return int(text) if text.isascii() and text.isdecimal() else 0


def _check_names(job: Job, made: Layout) -> None:
    for target in made.targets:
        last = len(target.members) - 1
        pod = f"{job.name}-{target.name}-{f'{last}-0' if target.apart else f'0-{last}'}{SUFFIX}"
        if len(pod) > LONGEST_POD:
            most = len(job.name) - (len(pod) - LONGEST_POD)
            raise NotConvertible("metadata.name", f"Too long: the pods of a JobSet allow {most} characters")


def _metadata(document: Document) -> dict[str, Any]:
    """Return what the user has written of the metadata."""
    found = as_mapping(document.get("metadata"))
    kept: dict[str, Any] = {key: found[key] for key in ("name", "namespace") if found.get(key)}
    for part in ("labels", "annotations"):
        written = as_mapping(found.get(part)).items()
        own = {key: value for key, value in written if key != LAST_APPLIED and not str(key).startswith(PREFIX)}
        if own:
            kept[part] = own
    return kept


def _spec(document: Document, source: ConvertedJob) -> dict[str, Any]:
    job, written = source.job, as_mapping(document.get("spec"))
    spec: dict[str, Any] = {"runtimeRef": {"apiGroup": GROUP, "kind": "TrainingRuntime", "name": job.name}}
    if source.policy == from_mpi.POLICY:
        spec["trainer"] = from_mpi.trainer(job, source.made)
    elif source.made.merged:
        processes = _processes(written) if source.policy == "torch" else 0
        given = {"numProcPerNode": processes} if processes else {}
        spec["trainer"] = {"numNodes": len(source.made.targets[0].members), **given}
    if job.policy.suspend:
        spec["suspend"] = True
    if job.policy.deadline is not None:
        spec["activeDeadlineSeconds"] = max(job.policy.deadline, 1)
    if job.policy.managed_elsewhere:
        spec["managedBy"] = as_mapping(written.get("runPolicy"))["managedBy"]
    return spec


def _runtime(source: ConvertedJob) -> dict[str, Any]:
    """Return the spec of the runtime."""
    job, framework, made, policy = source.job, source.framework, source.made, source.policy
    of_set, of_jobs = job_policies.success_fields(job, framework, made)
    jobs = [replicated_jobs.replicated_job(source, target) for target in made.targets]
    for item in jobs:
        item["template"]["spec"].update(of_jobs.get(item["name"], {}))
    failures = job_policies.failure_policy(job, made, job_policies.restarts_of(job, framework))
    template = {"template": {"spec": {**of_set, **failures, "replicatedJobs": jobs}}}
    if policy == from_mpi.POLICY:
        return {"mlPolicy": {"numNodes": 1, **from_mpi.policy(job)}, **template}
    if not made.merged:
        return template
    others = [
        one["name"] for one in jobs[0]["template"]["spec"]["template"]["spec"]["containers"] if one["name"] != NODE
    ]
    targets = {"envInjection": {"targets": [{"jobName": NODE, "containerNames": others}]}} if others else {}
    settings = {policy: targets if policy == "torch" else {}} if policy else {}
    return {"mlPolicy": {"numNodes": 1, **settings}, **template}


def _config_maps(source: ConvertedJob) -> Iterator[dict[str, Any]]:
    """Yield the ConfigMaps to which the variables of the replicas refer, with the new host names."""
    sources = [one.source or {} for variables in source.made.variables.values() for one in variables]
    needed = {found["configMapKeyRef"]["name"] for found in sources if "configMapKeyRef" in found}
    rename = renamer(source.job, source.made.targets)
    for item in source.framework.hooks.dependents(source.job, JobDefaults(), PodNames()) if needed else ():
        if item.resource == CONFIG_MAPS and item.name in needed:
            data = {key: rename(text) for key, text in item.content["data"].items()}
            yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": item.name}, "data": data}
