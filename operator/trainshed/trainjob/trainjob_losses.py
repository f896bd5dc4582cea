"""What a TrainJob and its runtime ask for that a job of kubeflow.org cannot have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

from trainshed.api.coerce import as_mapping
from trainshed.api.framework import Framework

from .job_policies import FAIL_PERMANENTLY, is_exit_code
from .layout import STEP
from .losses import FROM_TRAINJOB, Loss, loss
from .renderer import LAUNCHER, Rendered, Role
from .spec_losses import texts

#: Fields of a Job that have no counterpart, and of a JobSet.
OF_JOBS = (
    *("backoffLimitPerIndex", "maxFailedIndexes", "podReplacementPolicy", "selector", "manualSelector", "suspend"),
    *("managedBy", "activeDeadlineSeconds", "ttlSecondsAfterFinished"),
)
OF_SETS = ("startupPolicy", "coordinator", "volumeClaimPolicies", "suspend", "managedBy", "ttlSecondsAfterFinished")
SET = "spec.template.spec"
_loss = partial(loss, FROM_TRAINJOB)


def found(rendered: Rendered, framework: Framework) -> Iterator[Loss]:
    """Yield the losses of a TrainJob that becomes a job of this kind. Paths of runtimes begin with `runtime:`."""
    yield from _job_set(rendered)
    for role in rendered.roles:
        yield from _role(rendered, role)
    yield from _kind(rendered, framework)
    yield _loss("names", "metadata.name")


def _job_set(rendered: Rendered) -> Iterator[Loss]:
    job_set, spec = rendered.job_set, rendered.trainjob["spec"]
    for name in OF_SETS:
        if job_set.get(name):
            yield _loss("field", f"runtime: {SET}.{name}")
    failures = as_mapping(job_set.get("failurePolicy"))
    if failures and failures.get("rules") != [FAIL_PERMANENTLY]:
        yield _loss("failure-policy", f"runtime: {SET}.failurePolicy")
    success = as_mapping(job_set.get("successPolicy"))
    targets = success.get("targetReplicatedJobs") or [role.name for role in rendered.roles]
    wanted = [LAUNCHER] if rendered.policy == "mpi" else [rendered.roles[0].name]
    if len(rendered.roles) > 1 and (success.get("operator", "All") != "All" or targets != wanted):
        yield _loss("success-policy", f"runtime: {SET}.successPolicy")
    groups = as_mapping(rendered.runtime["spec"].get("podGroupPolicy"))
    if groups.get("coscheduling") is not None:
        yield _loss("coscheduling", "runtime: spec.podGroupPolicy.coscheduling")
    if groups.get("volcano") is not None:
        yield _loss("volcano", "runtime: spec.podGroupPolicy.volcano")
    if as_mapping(as_mapping(rendered.settings).get("envInjection")).get("targets"):
        yield _loss("injection", "runtime: spec.mlPolicy.torch.envInjection")
    if spec.get("activeDeadlineSeconds") is not None:
        yield _loss("deadline", "spec.activeDeadlineSeconds")


def _role(rendered: Rendered, role: Role) -> Iterator[Loss]:
    path = f"runtime: {SET}.replicatedJobs[{role.name}]"
    for name in OF_JOBS:
        if role.job.get(name):
            yield _loss("field", f"{path}.template.spec.{name}")
    rules: list[Any] = as_mapping(role.job.get("podFailurePolicy")).get("rules") or []
    exit_code = len(rules) == 1 and is_exit_code(rules[0])
    if rules and not exit_code:
        yield _loss("pod-failure-policy", f"{path}.template.spec.podFailurePolicy")
    if role.job.get("successPolicy") and as_mapping(role.job["successPolicy"]).get("rules") != [
        {"succeededIndexes": "0"}
    ]:
        yield _loss("job-success-policy", f"{path}.template.spec.successPolicy")
    pods = role.template["spec"].get("restartPolicy")
    if pods == "Never" and role.job.get("backoffLimit") != 0 and not exit_code:
        yield _loss("new-pods", f"{path}.template.spec.template.spec.restartPolicy")
    labels = as_mapping(as_mapping(as_mapping(role.fields.get("template")).get("metadata")).get("labels"))
    if labels.keys() - {STEP}:
        yield _loss("job-labels", f"{path}.template.metadata.labels")
    if len(role.template["spec"]["containers"]) > 1:
        yield _loss("containers", f"{path}.template.spec.template.spec.containers")
    names = re.compile(
        rf"(?<![a-z0-9-]){re.escape(rendered.name)}-(?:{'|'.join(re.escape(one.name) for one in rendered.roles)})"
        r"-\d+-\d+(?![a-z0-9-])|jobset\.sigs\.k8s\.io/"
    )
    for where, text in texts(role.template, f"{path}.template.spec.template"):
        if names.search(text):
            yield _loss("host-name", where)


def _kind(rendered: Rendered, framework: Framework) -> Iterator[Loss]:
    if rendered.policy not in ("", "mpi") and rendered.trainjob["spec"].get("trainer") is None:
        yield _loss("no-trainer", "spec.trainer")
    if framework.kind == "PyTorchJob":
        yield _loss("torch-variables", "runtime: spec.mlPolicy.torch" if rendered.policy else "runtime: spec.mlPolicy")
    if framework.kind == "JAXJob":
        yield _loss("jax-variables", "runtime: spec.mlPolicy")
    if framework.kind == "XGBoostJob":
        yield _loss("xgboost-master", f"runtime: {SET}.replicatedJobs[node]")
    if framework.kind != "MPIJob":
        role = rendered.roles[0]
        if (role.pods > 1 and framework.kind == "XGBoostJob") or role.replicas > 1:
            yield _loss("index", f"runtime: {SET}.replicatedJobs[node]")
    if framework.kind == "MPIJob":
        yield _loss("launcher-first", "runtime: spec.mlPolicy.mpi")
        if rendered.settings.get("runLauncherAsNode"):
            yield _loss("host-index", f"runtime: {SET}.replicatedJobs[node]")
