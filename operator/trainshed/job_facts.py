"""Reads what the planner knows about a job, and what else its story is made of."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence

from trainshed.api import parse, status_codec
from trainshed.api.actions import Snapshot
from trainshed.api.framework import Framework, JobDefaults
from trainshed.api.job import Document
from trainshed.api.objects import Pod
from trainshed.client import ApiError, Forbidden
from trainshed.client.job_reader import JobKind, JobReader, NoSuchJob
from trainshed.client.kueue_reader import read_queue
from trainshed.client.node_reader import read_nodes
from trainshed.fit.packing import RoomOfNode
from trainshed.frameworks import ALL_VERSIONS
from trainshed.plan.facts import Facts
from trainshed.process import Clock
from trainshed.views import attempts, replica_states, story
from trainshed.views.chapter import Story


async def read_story(reader: JobReader, document: Document, kind: JobKind, pods: Sequence[Pod] | None = None) -> Story:
    """Return the story of a job, whose pods are read unless they are given.

    Raises `NoSuchJob` for a kind of another operator, and errors of the API server.
    """
    facts, queue = await asyncio.gather(read_facts(reader, document, kind, pods), read_queue(reader, document))
    probe, nodes, unsaved, set_up = await asyncio.gather(
        read_failed_probe(reader, facts),
        read_nodes_without_room(reader, facts),
        read_unsaved(reader, document, facts),
        read_set_up_failure(reader, facts),
    )
    return story.tell(facts, document, story.Beside(queue, probe, nodes, unsaved, set_up))


async def read_facts(reader: JobReader, document: Document, kind: JobKind, pods: Sequence[Pod] | None = None) -> Facts:
    """Return the facts of a job as the operator observes them; its pods are read unless they are given.

    Raises `NoSuchJob` for a kind of another operator.
    """
    framework, job_defaults = framework_of(kind), JobDefaults()
    return Facts(
        Snapshot(
            job=parse.job(document, framework, job_defaults),
            framework=framework,
            job_defaults=job_defaults,
            status=status_codec.parse_status(document),
            pods=tuple(await reader.pods(document) if pods is None else pods),
            services=(),
            now=Clock().now(),
        )
    )


async def read_failed_probe(reader: JobReader, facts: Facts) -> str:
    """Return what the kubelet says of the probe because of which it killed the last pod that failed; empty without.

    Events are read only if the exit code may be that of such an end, and if they may be read.
    """
    failure = attempts.killed(facts)
    if failure is None:
        return ""
    return attempts.failed_probe(failure, await _permitted(reader.events_of_pod(facts.job.namespace, failure.pod)))


async def read_unsaved(reader: JobReader, document: Document, facts: Facts) -> str:
    """Return that the last checkpoint on SIGTERM was not saved in time, if an Event says so; empty otherwise."""
    if facts.job.checkpoint_grace is None:
        return ""
    return attempts.unsaved(await _permitted(reader.events_of_job(document)), facts.now)


async def read_set_up_failure(reader: JobReader, facts: Facts) -> str:
    """Return why a pod has no volumes or no network, if the kubelet says so and Events may be read; empty otherwise."""
    pod = replica_states.not_set_up(facts)
    if pod is None:
        return ""
    return replica_states.set_up_failure(await _permitted(reader.events_of_pod(facts.job.namespace, pod.name)))


async def _permitted(events: Awaitable[list[Document]]) -> list[Document]:
    """Return Events; none if they may not be read."""
    try:
        return await events
    except Forbidden:
        return []


async def read_nodes_without_room(reader: JobReader, facts: Facts) -> list[RoomOfNode]:
    """Return the nodes as if they had no pods if a pod of the job has none; none if they may not be read."""
    if not replica_states.unplaced_roles(facts):
        return []
    try:
        return await read_nodes(reader.rest)
    except ApiError:
        return []


def framework_containers(document: Document, kind: JobKind) -> dict[str, str]:
    """Return the names of the containers that train, by role in lower case; raises `NoSuchJob`."""
    job = parse.job(document, framework_of(kind), JobDefaults())
    return {group.role.lower(): group.container for group in job.groups}


def framework_of(kind: JobKind) -> Framework:
    """Return the framework of a kind in its version; raises `NoSuchJob`."""
    for framework in ALL_VERSIONS.values():
        if (framework.kind, framework.prefix) == (kind.kind, kind.prefix):
            return framework
    raise NoSuchJob(f"{kind.kind} of {kind.prefix.removeprefix('/apis/')} is not a kind that Trainshed runs")
