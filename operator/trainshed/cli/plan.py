"""`trainshed plan`: what would be made in the cluster for jobs, and whether it fits; nothing is written."""

from __future__ import annotations

import json

import click
from msgspec.structs import replace

from trainshed import rendering
from trainshed.api.coerce import parse_text
from trainshed.api.foreign_text import json_escaped
from trainshed.api.framework import JobDefaults
from trainshed.client import ApiError
from trainshed.client.transport import RestClient
from trainshed.fit.assessment import BAD, Assessment, Fit
from trainshed.rendering import Selection
from trainshed.views.diagnosis import Unreadable
from trainshed.views.forecast import Forecast, as_document, tell

from . import chapters, sources
from .connection import Cluster, ClusterOptions, cluster_options, run
from .forecasts import ADMISSION, forecast, refused
from .installation import find_installed
from .submissions import submission
from .surroundings import Surroundings, unknown

COLOURS = {Fit.OK: "green", Fit.LACKING: "red", Fit.REFUSED: "red"}


@click.command()
@sources.filename
@sources.recursive
@cluster_options
@click.option("-o", "--output", "form", type=click.Choice(["json"]), help="Print the plans as JSON.")
def plan(files: tuple[str, ...], *, recursive: bool, options: ClusterOptions, form: str | None) -> None:
    """Say what would be made for jobs in the cluster, and whether it fits.

    It looks with your rights at quotas, limits, nodes, priorities, queues of Kueue and the objects that pods name, and
    asks the API server in dry runs; nothing is written. What you may not look at is named. The exit code is 0 if all
    jobs fit as far as is known, and 1 if one does not fit or would be refused.
    """
    found = sources.selected(files, recursive=recursive)
    run(options, lambda cluster: _plan(cluster, found, options.namespace, is_json=bool(form)))


async def _plan(cluster: Cluster, found: Selection, chosen: str, *, is_json: bool) -> int:
    jobs = [submission(manifest, cluster.namespace, chosen) for manifest in found.jobs]
    files = frozenset(
        (
            item.head[1],
            parse_text(item.metadata.get("namespace")) or cluster.namespace,
            parse_text(item.metadata.get("name")),
        )
        for item in found.others
    )
    around = Surroundings(cluster.rest, files)
    defaults, doubts = await _job_defaults(cluster.rest)
    plans = list[Forecast]()
    for job in jobs:
        created = rendering.rendered(job.manifest.document, job.namespace, defaults)
        problems = sources.refused(created, with_pods=True)
        plan = refused(job, created, problems) if problems else await forecast(cluster.rest, around, job, created)
        plan = replace(plan, assessments=(*plan.assessments, *doubts))
        if not is_json:
            click.echo("\n" * bool(plans), nl=False)
            chapters.show(tell(plan), COLOURS[plan.verdict])
        plans.append(plan)
    if is_json:
        click.echo(json_escaped(json.dumps(list(map(as_document, plans)), indent=4, ensure_ascii=False)))
    return 1 if any(plan.verdict in BAD for plan in plans) else 0


async def _job_defaults(rest: RestClient) -> tuple[JobDefaults, list[Assessment]]:
    """Return the settings of the operator for all jobs; if they are not known, the defaults, and why."""
    what = "which flags the operator has, such as a gang scheduler (without them its defaults are assumed)"
    try:
        found = await find_installed(rest)
    except ApiError as error:
        return JobDefaults(), [Assessment(Fit.UNKNOWN, ADMISSION, f"{what}: the API server does not say: {error}")]
    if isinstance(found, Unreadable):
        return JobDefaults(), [unknown(ADMISSION, what, found)]
    if found.settings:
        return found.settings.job_defaults, []
    text = f"{what}: trainshed here does not know all of them, or not which Deployment is the operator's"
    return JobDefaults(), [Assessment(Fit.UNKNOWN, ADMISSION, text)] if found.deployments else []
