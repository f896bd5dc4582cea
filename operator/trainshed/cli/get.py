"""`trainshed get`: the jobs of all kinds in one table."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import click

from trainshed.api.coerce import parse_text
from trainshed.api.foreign_text import one_line
from trainshed.api.job import Document
from trainshed.client.job_reader import Found, Jobs, split
from trainshed.client.job_watch import job_changes
from trainshed.process import Clock
from trainshed.views import rows
from trainshed.views.rows import full_name, identity

from . import job_documents, tables
from .connection import Cluster, ClusterOptions, cluster_options, run, warn
from .job_names import JOB

if TYPE_CHECKING:  # only --notify needs it
    from .watch_messages import WatchMessage

DELETED = "Deleted"
FORMS = ("wide", "json", "yaml", "name")


@click.command()
@click.argument("jobs", nargs=-1, type=JOB)
@cluster_options
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="The jobs of all namespaces.")
@click.option("-l", "--selector", default="", help="Labels that the jobs have, such as team=vision,stage!=test.")
@click.option("-o", "--output", "form", type=click.Choice(FORMS), help="Another form than the table.")
@click.option("-w", "--watch", is_flag=True, help="Go on, and print the row of each job that changes.")
@click.option(
    "--notify",
    multiple=True,
    metavar="URL",
    help="With --watch: send each new state with its story to this URL of apprise, such as slack://…; may be repeated.",
)
@click.option("--finished", is_flag=True, help="The records of finished jobs in their place, also of deleted ones.")
def get(jobs: tuple[str, ...], *, options: ClusterOptions, selector: str, watch: bool, **others: object) -> None:
    """Show jobs of all kinds, or of some: what state they are in, and why.

    JOBS are kinds (pytorchjobs), jobs (mnist, pytorchjob/mnist), or @latest for the one that was created last.
    """
    form, everywhere = others["form"], bool(others["everywhere"])
    if watch and form not in (None, "wide"):
        raise click.UsageError(f"--watch prints rows, which -o {form} has not")
    if others["notify"] and not watch:
        raise click.UsageError("--notify sends what changes: add --watch")
    if everywhere and options.namespace:
        raise click.UsageError("choose either --namespace or --all-namespaces")
    if others["finished"]:
        if watch or selector:
            raise click.UsageError("records have no labels, and do not change: --finished has no -l and no --watch")
        run(options, lambda cluster: _finished(cluster, jobs, str(form or ""), everywhere=everywhere))
    view = View(str(form or ""), everywhere=everywhere, watched=watch, urls=others["notify"])  # type: ignore[arg-type] # click's
    run(options, lambda cluster: _get(cluster, view, jobs, selector, watch=watch))


async def _finished(cluster: Cluster, words: tuple[str, ...], form: str, *, everywhere: bool) -> int:
    from . import finished  # noqa: PLC0415 - only this option needs it

    return await finished.show(cluster, words, form, everywhere=everywhere)


@dataclass(frozen=True, slots=True)
class Shown:
    """What is kept of a job: its row, and what reads all of it where a form needs that."""

    identity: tuple[str, str, str]
    uid: str
    name: str
    cells: tuple[str, ...]
    content: tuple[str, ...]
    whole: Callable[[], Document] | None
    notice: WatchMessage | None

    @property
    def key(self) -> tuple[str, str]:
        """Kind and uid."""
        return self.identity[1], self.uid


class View:
    """How jobs are printed: the form, whether with namespaces, and whether also when they change.

    `urls` are those of the services that get what changes.
    """

    def __init__(self, form: str, *, everywhere: bool, watched: bool, urls: tuple[str, ...] = ()) -> None:
        self.form, self.everywhere, self._watched, self._now = form, everywhere, watched, Clock().now
        self.urls = urls
        self.header = rows.header(namespaces=everywhere, wide=form == "wide")

    def read(self, job: Document, whole: Callable[[], Document]) -> Shown:
        """Return what is kept of a job."""
        return Shown(
            identity=identity(job),
            uid=parse_text(rows.metadata(job).get("uid")),
            name=_long_name(job),
            cells=rows.row(job, self._now(), namespaces=self.everywhere, wide=self.form == "wide"),
            content=rows.content(job) if self._watched else (),
            whole=whole if self.form in ("json", "yaml") else None,
            notice=_notice(job) if self.urls else None,
        )

    def show(self, jobs: list[Shown], *, one: bool) -> None:
        """Print jobs; `one` is whether a single one was asked for, which is no list then, as with kubectl."""
        match self.form:
            case "name":
                click.echo("\n".join(job.name for job in jobs))
            case "json" | "yaml":
                documents = (job.whole() for job in jobs if job.whole)
                for text in job_documents.texts(self.form, documents, one=one):
                    click.echo(text, nl=False)
            case _:
                tables.show(self.header, [job.cells for job in jobs], whole=self.form == "wide")


@dataclass(frozen=True, slots=True)
class Choice:
    """The jobs that are asked for: some by name, else all of some kinds with some labels; no namespace means all."""

    jobs: Jobs
    names: list[str]

    async def read(self, cluster: Cluster, view: View) -> Found[Shown]:
        """Return the jobs as they are now."""
        if not self.names:
            return await cluster.reader.jobs(self.jobs, view.read)
        found = [(await cluster.reader.find(self.jobs.namespace, name))[0] for name in self.names]
        return Found([view.read(job, partial(dict, job)) for job in found], [])


async def _get(cluster: Cluster, view: View, words: tuple[str, ...], selector: str, *, watch: bool) -> int:
    choice = await _choice(cluster, "" if view.everywhere else cluster.namespace, words, selector)
    found = await choice.read(cluster, view)
    for text in found.refused:
        warn(f"Not shown: {text}")
    jobs = sorted(found.jobs, key=lambda job: job.identity)
    if jobs or view.form not in ("", "wide"):
        view.show(jobs, one=len(choice.names) == 1)
    else:
        click.echo(_nothing(choice.jobs), err=True)
    if watch:
        await _watch(cluster, view, choice, jobs)
    return 0


def _notice(job: Document) -> WatchMessage:
    from .watch_messages import notice  # noqa: PLC0415 - only --notify needs it

    return notice(job)


def _nothing(jobs: Jobs) -> str:
    """Return that there are no jobs, in kubectl's words, and where there may be some."""
    if not jobs.namespace:
        return "No resources found"
    hint = " trainshed get -A shows the jobs of all namespaces." if not jobs.query else ""
    return one_line(f"No resources found in {jobs.namespace} namespace.{hint}")


async def _choice(cluster: Cluster, namespace: str, words: tuple[str, ...], selector: str) -> Choice:
    """Return what the words name: kinds, jobs, or as with kubectl a kind and then names of its jobs."""
    served = await cluster.reader.kinds()
    kinds, names = split(words, served)
    if not names:
        return Choice(Jobs(kinds or served, namespace, {"labelSelector": selector} if selector else {}), [])
    if selector or not namespace:
        raise click.UsageError("name either jobs of one namespace, or a selector or all namespaces")
    return Choice(Jobs(served, namespace, {}), names)


async def _watch(cluster: Cluster, view: View, choice: Choice, jobs: list[Shown]) -> None:
    """Print the row of each job that changes, until the user ends it."""
    printed = {job.identity: job.content for job in jobs}
    only = set(printed) if choice.names else set()
    widths = tables.widths((view.header, *(job.cells for job in jobs)))
    known = {job.key: job for job in jobs}
    async with (
        _messages(cluster, view, jobs) as tell,
        aclosing(job_changes(cluster.reader, choice.jobs, view.read, known, warn)) as changes,
    ):
        async for change in changes:
            job = change.item
            if only and job.identity not in only:
                continue
            if job.notice:
                tell(job.notice)
            content = (*job.content, DELETED) if change.deleted else job.content
            if printed.get(job.identity) != content:
                printed[job.identity] = content
                row = rows.as_deleted(job.cells, view.header) if change.deleted else job.cells
                tables.add(row, widths, view.header, whole=view.form == "wide")


@asynccontextmanager
async def _messages(cluster: Cluster, view: View, jobs: list[Shown]) -> AsyncIterator[Callable[[WatchMessage], None]]:
    """Yield what takes the news of jobs, after those that are known already."""
    if not view.urls:
        yield lambda _: None
        return
    from .watch_messages import Messenger  # noqa: PLC0415 - as above

    messenger = Messenger(cluster.reader, view.urls)
    messenger.begin(job.notice for job in jobs if job.notice)
    async with messenger.sending():
        yield messenger.take


def _long_name(job: Document) -> str:
    kind, _, name = full_name(job).partition("/")
    return f"{kind}.kubeflow.org/{name}"
