"""`trainshed get`: the jobs of all kinds in one table."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass

import click

from trainshed.api.foreign_text import json_escaped
from trainshed.api.job import Document
from trainshed.client.job_reader import Change, Found, JobKind, split
from trainshed.process import Clock
from trainshed.views import rows
from trainshed.views.rows import full_name, identity

from . import tables
from .connection import Cluster, ClusterOptions, cluster_options, run

FORMS = ("wide", "json", "yaml", "name")


@click.command()
@click.argument("jobs", nargs=-1)
@cluster_options
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="The jobs of all namespaces.")
@click.option("-l", "--selector", default="", help="Labels that the jobs have, such as team=vision,stage!=test.")
@click.option("-o", "--output", "form", type=click.Choice(FORMS), help="Another form than the table.")
@click.option("-w", "--watch", is_flag=True, help="Go on, and print the row of each job that changes.")
def get(jobs: tuple[str, ...], *, options: ClusterOptions, selector: str, watch: bool, **others: object) -> None:
    """Show jobs of all kinds, or of some: what state they are in, and why.

    JOBS are kinds (pytorchjobs), jobs (mnist, pytorchjob/mnist), or @latest for the one that was created last.
    """
    form, everywhere = others["form"], bool(others["everywhere"])
    if watch and form not in (None, "wide"):
        raise click.UsageError(f"--watch prints rows, which -o {form} has not")
    if everywhere and options.namespace:
        raise click.UsageError("choose either --namespace or --all-namespaces")
    view = View(str(form or ""), everywhere=everywhere)
    run(options, lambda cluster: _get(cluster, view, jobs, selector, watch=watch))


class View:
    """How jobs are printed: the form, and whether with namespaces."""

    def __init__(self, form: str, *, everywhere: bool) -> None:
        self.form, self.everywhere, self._now = form, everywhere, Clock().now
        self.header = rows.header(namespaces=everywhere, wide=form == "wide")

    def row(self, job: Document) -> tuple[str, ...]:
        """Return the row of a job."""
        return rows.row(job, self._now(), namespaces=self.everywhere, wide=self.form == "wide")

    def show(self, jobs: list[Document], *, one: bool) -> None:
        """Print jobs; `one` is whether a single one was asked for, which is no list then, as with kubectl."""
        match self.form:
            case "name":
                click.echo("\n".join(map(_long_name, jobs)))
            case "json":
                click.echo(json_escaped(json.dumps(jobs[0] if one else _list(jobs), indent=4, ensure_ascii=False)))
            case "yaml":
                from trainshed.manifests import writer  # noqa: PLC0415 - only this form needs it

                click.echo(writer.write([jobs[0] if one else _list(jobs)]), nl=False)
            case _:
                tables.show(self.header, list(map(self.row, jobs)))


@dataclass(frozen=True, slots=True)
class Choice:
    """The jobs that are asked for: some by name, else all of some kinds with some labels; no namespace means all."""

    namespace: str
    kinds: list[JobKind]
    names: list[str]
    selector: str

    async def read(self, cluster: Cluster) -> Found:
        """Return the jobs as they are now."""
        if self.names:
            return Found([(await cluster.reader.find(self.namespace, name))[0] for name in self.names], [])
        return await cluster.reader.jobs(self.namespace, self.kinds, self.selector)


async def _get(cluster: Cluster, view: View, words: tuple[str, ...], selector: str, *, watch: bool) -> int:
    choice = await _choice(cluster, "" if view.everywhere else cluster.namespace, words, selector)
    found = await choice.read(cluster)
    for text in found.refused:
        click.echo(f"Not shown: {text}", err=True)
    jobs = sorted(found.jobs, key=identity)
    if jobs or view.form not in ("", "wide"):
        view.show(jobs, one=len(choice.names) == 1)
    else:
        where = f" in namespace {choice.namespace}" if choice.namespace else ""
        click.echo(f"There are no jobs{where}.", err=True)
    if watch:
        await _watch(cluster, view, choice, jobs)
    return 0


async def _choice(cluster: Cluster, namespace: str, words: tuple[str, ...], selector: str) -> Choice:
    """Return what the words name: kinds, jobs, or as with kubectl a kind and then names of its jobs."""
    served = await cluster.reader.kinds()
    kinds, names = split(words, served)
    if not names:
        return Choice(namespace, kinds or served, [], selector)
    if selector or not namespace:
        raise click.UsageError("name either jobs of one namespace, or a selector or all namespaces")
    return Choice(namespace, served, names, "")


async def _watch(cluster: Cluster, view: View, choice: Choice, jobs: list[Document]) -> None:
    """Print the row of each job that changes, until the user ends it."""
    printed = {identity(job): rows.content(job) for job in jobs}
    only = set(printed) if choice.names else set()
    widths = tables.widths((view.header, *map(view.row, jobs)))
    changes: asyncio.Queue[Change] = asyncio.Queue()

    async def follow(kind: JobKind) -> None:
        query = {"labelSelector": choice.selector} if choice.selector else {}
        async for change in cluster.reader.changes(kind, choice.namespace, query):
            await changes.put(change)

    async with asyncio.TaskGroup() as group:
        for kind in choice.kinds:
            group.create_task(follow(kind))
        while True:
            change = await changes.get()
            key, content = identity(change.job), rows.content(change.job, deleted=change.deleted)
            if printed.get(key) != content and (not only or key in only):
                printed[key] = content
                row = view.row(change.job)
                tables.add(rows.as_deleted(row, view.header) if change.deleted else row, widths)


def _long_name(job: Document) -> str:
    kind, _, name = full_name(job).partition("/")
    return f"{kind}.kubeflow.org/{name}"


def _list(jobs: list[Document]) -> Mapping[str, object]:
    return {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": jobs}
