"""The logs of pods of a cluster: which containers they are of, and how they are read through the API server."""

from __future__ import annotations

from collections.abc import Mapping

from trainshed.api import parse
from trainshed.api.framework import JobDefaults
from trainshed.api.job import Document
from trainshed.client import Forbidden
from trainshed.client.job_reader import JobReader
from trainshed.client.log_stream import LogStream
from trainshed.plan.failures import own_container
from trainshed.views import refusals
from trainshed.views.rows import name_of

from .model import JobFile, PodLife
from .replica_logs import LogPod, LogQuery, OpenLog
from .seen_facts import framework_of, lives_of


class ApiLogs:
    """Implements `ReplicaLogs`: reads from kubelets through the API server, with the rights of the caller."""

    outlive = False

    def __init__(self, reader: JobReader) -> None:
        self._reader = reader

    def open(self, pod: LogPod, query: LogQuery, after: str = "") -> OpenLog:
        """Return the log of a container, from its last lines on, or after the time of a line."""
        return ApiLog(self._reader, pod, query, after)


class ApiLog(LogStream):
    """Implements `OpenLog`."""

    def __init__(self, reader: JobReader, pod: LogPod, query: LogQuery, after: str) -> None:
        fixed = {"container": pod.container, "timestamps": "true", "follow": str(query.follow).lower()}
        if query.previous:
            fixed["previous"] = "true"
        tail = {"tailLines": str(query.tail)}
        super().__init__(reader, pod.namespace, pod.name, lambda last: fixed | ({"sinceTime": last} if last else tail))
        self.last = after

    @property
    def problem(self) -> str:
        """Why the log ended early; empty if it did not."""
        if isinstance(self.error, Forbidden):
            return refusals.sentence(str(self.error), self.error.reason)
        return str(self.error or "")


def log_pods(file: JobFile, container: str) -> list[LogPod]:
    """Return the containers whose logs are read, by role and index, and those of deleted pods before later ones.

    It is the container with that name, else the one that trains, else the first one, as with kubectl.
    """
    job = file.document
    framework = framework_of(job)
    groups = parse.job(job, framework, JobDefaults()).groups if framework else ()
    by_role = {group.role.lower(): group.container for group in groups}
    lives = sorted(
        lives_of(file.pods), key=lambda life: (life.pod.role, life.pod.index, life.pod.name, not life.removed)
    )
    found = (_log_pod(job, life, container, by_role) for life in lives)
    return [pod for pod in found if pod is not None]


def _log_pod(job: Document, life: PodLife, named: str, by_role: Mapping[str, str]) -> LogPod | None:
    pod = life.pod
    own = own_container(pod, by_role.get(pod.role, ""))
    firsts = (item for item in (own, *pod.containers) if item and not item.init)
    chosen = next((item for item in pod.containers if item.name == named), None) if named else next(firsts, None)
    if chosen is None:
        return None
    return LogPod(
        uid=pod.uid,
        name=pod.name,
        namespace=pod.namespace,
        replica=pod.name.removeprefix(f"{name_of(job)}-"),
        container=chosen.name,
        has_started=any(one is not None for one in (chosen.started, chosen.exit_code, chosen.before)),
        runs=life.removed is None and not pod.over and chosen.exit_code is None,
        gone=life.removed is not None,
        restarts=chosen.restarts,
    )
