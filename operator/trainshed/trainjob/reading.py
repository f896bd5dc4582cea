"""The TrainJobs of some objects, each with its runtime: one of the objects, or one that comes with Trainer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from trainshed.api.coerce import as_mapping
from trainshed.api.job import Document

from . import renderer, to_v1, trainer_schema
from .builtin_runtimes import RUNTIMES
from .losses import Conversion, NotConvertible

GROUP = "trainer.kubeflow.org"
VERSION = f"{GROUP}/v1alpha1"
TRAINJOB = (VERSION, "TrainJob")
KINDS = ("ClusterTrainingRuntime", "TrainingRuntime")
HEADS = tuple((VERSION, kind) for kind in KINDS)


def rendered(trainjob: Document, runtimes: Iterable[Document], namespace: str) -> renderer.Rendered:
    """Return what Trainer makes of a TrainJob, with the runtime that it names.

    Raises:
        NotConvertible: It is invalid, or there is no such runtime; the path of a field of the runtime begins with
            `runtime: `.
    """
    trainer_schema.check(trainjob)
    metadata = as_mapping(trainjob.get("metadata"))
    if not metadata.get("name"):
        raise NotConvertible("metadata.name", "Required value")
    runtime = _runtime(trainjob, runtimes, str(metadata.get("namespace") or namespace))
    try:
        trainer_schema.check(runtime)
    except NotConvertible as error:
        raise NotConvertible(f"runtime: {error.path}", str(error).partition(": ")[2]) from error
    return renderer.render(trainjob, runtime)


def converted(trainjob: Document, runtimes: Iterable[Document], namespace: str, kind: str = "") -> Conversion:
    """Return a TrainJob as a job of kubeflow.org of this kind, "" for the one that fits; raises `NotConvertible`."""
    return to_v1.convert(rendered(trainjob, runtimes, namespace), kind)


def _runtime(trainjob: Document, runtimes: Iterable[Document], namespace: str) -> Document:
    reference: dict[str, Any] = trainjob["spec"]["runtimeRef"]
    kind, name = reference.get("kind") or KINDS[0], reference["name"]
    if reference.get("apiGroup") not in (None, "", GROUP) or kind not in KINDS:
        raise NotConvertible("spec.runtimeRef.kind", f"must be one of {', '.join(KINDS)}")
    for runtime in runtimes:
        found = as_mapping(runtime.get("metadata"))
        there = kind == KINDS[0] or str(found.get("namespace") or namespace) == namespace
        if runtime["kind"] == kind and found.get("name") == name and there:
            return runtime
    if kind == KINDS[0] and name in RUNTIMES:
        return RUNTIMES[name]
    known = f"; those that come with Trainer are {', '.join(RUNTIMES)}" if kind == KINDS[0] else ""
    raise NotConvertible("spec.runtimeRef.name", f"{kind} {name[:253]} is not in the files{known}")
