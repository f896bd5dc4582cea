"""What the planner knows of a job whose documents are kept: the same facts from which `explain` tells."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from trainshed.api import parse
from trainshed.api.actions import Snapshot
from trainshed.api.coerce import parse_text
from trainshed.api.framework import Framework, JobDefaults
from trainshed.api.job import Document
from trainshed.api.objects import Pod
from trainshed.client.decode import PodObject
from trainshed.client.decode import pod as decoded
from trainshed.frameworks import ALL_VERSIONS
from trainshed.plan.facts import Facts

from .model import JobFile, PodLife, SeenPod


def framework_of(document: Document) -> Framework | None:
    """Return the framework of a job by its kind and version, None for one of another operator."""
    return ALL_VERSIONS.get((parse_text(document.get("apiVersion")), parse_text(document.get("kind"))))


def lives_of(pods: tuple[SeenPod, ...]) -> tuple[PodLife, ...]:
    """Return the pods that can be read, those that were created first at the beginning."""
    found = [PodLife(pod, seen.removed) for seen in pods if (pod := _pod(seen.document))]
    return tuple(sorted(found, key=lambda one: (one.pod.created is None, one.pod.created or one.removed)))


def _pod(document: Document) -> Pod | None:
    try:
        return decoded(msgspec.convert(document, PodObject))
    except msgspec.ValidationError:
        return None


def facts_of(file: JobFile, now: datetime, lives: Sequence[PodLife] | None = None) -> Facts | None:
    """Return the facts of a job with the pods that are there; None if its kind is another operator's.

    `lives` are its pods, if they have been read already.
    """
    framework = framework_of(file.document)
    if framework is None:
        return None
    return Facts(
        Snapshot(
            job=parse.job(file.document, framework, JobDefaults()),
            framework=framework,
            job_defaults=JobDefaults(),
            status=file.status,
            pods=tuple(life.pod for life in (lives_of(file.pods) if lives is None else lives) if life.removed is None),
            services=(),
            now=now,
        )
    )
