"""`trainshed scale`: change the number of replicas of a job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from trainshed.api.coerce import as_mapping
from trainshed.api.foreign_text import one_line
from trainshed.api.job import Document
from trainshed.client.job_reader import JobKind
from trainshed.views.rows import full_name, listed, with_namespace

from .connection import Cluster, ClusterOptions, cluster_options, run
from .job_changes import Manner, change_options, for_each
from .job_names import JOB


@click.command()
@click.argument("job", type=JOB)
@cluster_options
@change_options
@click.option("--replicas", required=True, type=click.IntRange(min=0), help="The new number of replicas.")
@click.option("--role", default="Worker", show_default=True, help="The type of the replicas.")
def scale(job: str, *, options: ClusterOptions, replicas: int, role: str, manner: Manner) -> None:
    """Change the number of replicas of a job.

    JOB is a name (mnist), a kind and a name (pytorchjob/mnist), or @latest for the job that was created last.
    """
    run(options, lambda cluster: _scale(cluster, job, role, replicas, manner=manner))


async def _scale(cluster: Cluster, word: str, role: str, replicas: int, *, manner: Manner) -> int:
    actions = manner.actions(cluster)

    async def act(job: Document, kind: JobKind) -> str:
        from trainshed.job_facts import framework_of  # noqa: PLC0415 - its models take a while to import

        field = framework_of(kind).field
        if _count(job, field, role) == replicas:
            return f"{full_name(job)} has this number already, and is not scaled"
        written = await actions.changed(job, kind, lambda now: _patch(now, field, role, replicas))
        for note in _notes(written, kind, is_queued=(await actions.queued_by(job))[0]):
            click.echo(note, err=True)
        return f"{full_name(job)} scaled"

    return await for_each(cluster, [word], act, manner)


def _count(job: Document, field: str, role: str) -> int | None:
    """Return how many replicas of this type the spec asks for; None if it does not say."""
    roles, name = _roles(job, field, role)
    found = as_mapping(roles.get(name or "")).get("replicas")
    return found if isinstance(found, int) else None


def _patch(job: Document, field: str, role: str, replicas: int) -> Document:
    """Return the change of the number; raises `ClickException` if the job has no such replicas."""
    roles, found = _roles(job, field, role)
    if found is None:
        raise click.ClickException(one_line(f"{full_name(job)} has no replicas of type {role}, but {listed([*roles])}"))
    return {"spec": {field: {found: {"replicas": replicas}}}}


def _roles(job: Document, field: str, role: str) -> tuple[Mapping[str, Any], str | None]:
    """Return the replicas of a job by type, and the name of this type there; None if it has no such replicas."""
    roles = as_mapping(as_mapping(job.get("spec")).get(field))
    return roles, next((name for name in roles if name.lower() == role.lower()), None)


def _notes(job: Document, kind: JobKind, *, is_queued: bool) -> list[str]:
    """Return what the new number does to pods that run."""
    from trainshed.api import kueue_groups, parse  # noqa: PLC0415 - as above
    from trainshed.api.framework import JobDefaults  # noqa: PLC0415
    from trainshed.api.job import RestartScope  # noqa: PLC0415
    from trainshed.job_facts import framework_of  # noqa: PLC0415

    framework = framework_of(kind)
    found = parse.job(job, framework, JobDefaults())
    if is_queued:
        stops = "" if found.policy.suspend else "stops the job, and "
        return [f"Kueue {stops}starts it at its new size when its queue has room for all of it."]
    if found.policy.suspend:
        return []
    if kueue_groups.is_grouped(job):
        return ["All replicas restart as another group, for which Kueue has to have quota."]
    if framework.hooks.scope(found) is RestartScope.REPLICA:
        return []
    again = f"trainshed restart {with_namespace(job)} begins with the new"
    return [f"Pods that run keep the size that they began with: {again}."]
