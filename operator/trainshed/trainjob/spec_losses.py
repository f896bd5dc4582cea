"""What the spec of a job of kubeflow.org asks for that a TrainJob with a runtime of its own cannot have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from trainshed.api.coerce import as_mapping
from trainshed.api.framework import Framework
from trainshed.api.job import Document, Job, RestartPolicy, RestartScope
from trainshed.api.job_annotations import PREFIX, RESTART_SCOPE

from .job_policies import restarts_of
from .layout import Layout
from .losses import TO_TRAINJOB, Loss, loss

POLICY = "spec.runPolicy"
_loss = partial(loss, TO_TRAINJOB)


def found(document: Document, job: Job, framework: Framework, layout: Layout) -> Iterator[Loss]:
    """Yield the losses of a job with this document."""
    spec = as_mapping(document.get("spec"))
    yield from _metadata(document, job, framework)
    yield from _run_policy(spec, job, layout)
    yield from _kind(spec)
    for group in job.groups:
        if group.count:
            yield from _role(job, framework, group.role)
    if not layout.merged and framework.kind != "MPIJob":
        yield _loss("no-trainer", f"spec.{framework.field}")
    yield _loss("names", "metadata.name")


def _metadata(document: Document, job: Job, framework: Framework) -> Iterator[Loss]:
    annotations = as_mapping(as_mapping(document.get("metadata")).get("annotations"))
    for key in annotations:
        if key == RESTART_SCOPE:
            if restarts_of(job, framework) is RestartScope.ROLE:
                yield _loss("scope", f"metadata.annotations[{key}]")
        elif str(key).startswith(PREFIX):
            yield _loss("annotation", f"metadata.annotations[{key}]")


def _run_policy(spec: Document, job: Job, layout: Layout) -> Iterator[Loss]:
    policy = as_mapping(spec.get("runPolicy"))
    clean, path = policy.get("cleanPodPolicy"), f"{POLICY}.cleanPodPolicy"
    if not clean and spec.get("cleanPodPolicy"):
        clean, path = spec["cleanPodPolicy"], "spec.cleanPodPolicy"
    known = {"All": "clean-all", "None": "clean-none", "Running": ""}
    if key := known[str(clean)] if clean else "clean-default":
        yield _loss(key, path)
    if policy.get("ttlSecondsAfterFinished") is not None:
        yield _loss("ttl", f"{POLICY}.ttlSecondsAfterFinished")
    if job.policy.deadline is not None:
        yield _loss("deadline" if job.policy.deadline else "deadline-zero", f"{POLICY}.activeDeadlineSeconds")
    retried = [group for group in job.groups if group.count and group.restart_policy is not RestartPolicy.NEVER]
    if policy.get("backoffLimit") and len(retried) > 1 and not layout.merged:
        yield _loss("backoff-per-role", f"{POLICY}.backoffLimit")
    for field, value in as_mapping(policy.get("schedulingPolicy")).items():
        if value not in (None, "", {}):
            yield _loss("scheduling", f"{POLICY}.schedulingPolicy.{field}")


def _kind(spec: Document) -> Iterator[Loss]:
    elastic = as_mapping(spec.get("elasticPolicy"))
    for field in ("minReplicas", "maxReplicas"):
        if elastic.get(field) is not None:
            yield _loss("elastic-bounds", f"spec.elasticPolicy.{field}")
    if elastic.get("metrics"):
        yield _loss("elastic-metrics", "spec.elasticPolicy.metrics")
    if spec.get("enableDynamicWorker"):
        yield _loss("dynamic", "spec.enableDynamicWorker")


def _role(job: Job, framework: Framework, role: str) -> Iterator[Loss]:
    group = job.of(role)
    if group is None:
        return
    path = f"spec.{framework.field}[{role}]"
    if group.restart_policy is RestartPolicy.ALWAYS:
        yield _loss("always", f"{path}.restartPolicy")
    if group.restart_policy is RestartPolicy.NEVER:
        yield _loss("disruption", f"{path}.restartPolicy")
    pod = as_mapping(group.template.get("spec"))
    if len(pod.get("containers") or ()) > 1:
        yield _loss("containers", f"{path}.template.spec.containers")
    names = re.compile(
        rf"(?<![a-z0-9-]){re.escape(job.name)}-(?:{'|'.join(framework.roles).lower()})(?:-\d+)?(?![a-z0-9-])"
        r"|training\.kubeflow\.org/"
    )
    for where, text in texts(group.template, f"{path}.template"):
        if names.search(text):
            yield _loss("host-name", where)


def texts(value: Any, path: str) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - any JSON value
    """Yield the texts of a document, keys included, each with its path."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            dotted = f"{path}.{key}" if "." not in str(key) and "/" not in str(key) else f"{path}[{key}]"
            yield dotted, str(key)
            yield from texts(item, dotted)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from texts(item, f"{path}[{index}]")
    elif isinstance(value, str):
        yield path, value
