"""`trainshed ui`: the jobs of a cluster in the browser."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version

import click

from .connection import Cluster, ClusterOptions, cluster_options, run


@dataclass(frozen=True, slots=True)
class PageOptions:
    """How the page is shown: at which port, and what of."""

    port: int
    everywhere: bool
    browser: bool
    may_change: bool


@click.command()
@cluster_options
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="The jobs of all namespaces.")
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="Port on 127.0.0.1 (default: a free one).")
@click.option("--browser/--no-browser", default=True, help="Open the page in a browser, if there is a screen.")
@click.option(
    "--allow-actions", is_flag=True, help="Let the page suspend, resume, restart and delete jobs, and read stacks."
)
def ui(*, options: ClusterOptions, everywhere: bool, port: int, browser: bool, allow_actions: bool) -> None:
    """Show jobs, what they do and why in the browser, with your own rights.

    The page is served on this machine only, and only to the user who opens the link that is printed. It changes
    nothing unless --allow-actions is given.
    """
    if everywhere and options.namespace:
        raise click.UsageError("choose either --namespace or --all-namespaces")
    shown = PageOptions(port, everywhere=everywhere, browser=browser, may_change=allow_actions)
    run(options, lambda cluster: _ui(cluster, shown))


async def _ui(cluster: Cluster, shown: PageOptions) -> int:
    from trainshed.ui.access import Access  # noqa: PLC0415 - only this command needs it, and it takes long to import
    from trainshed.ui.application import Site, Sources, served  # noqa: PLC0415
    from trainshed.ui.feed import Feed  # noqa: PLC0415
    from trainshed.ui.model import JobsPlace  # noqa: PLC0415

    from . import installation, page_links, stack_reading  # noqa: PLC0415

    access = Access(may_change=shown.may_change)
    namespace = "" if shown.everywhere else cluster.namespace
    examine = partial(installation.examine, cluster, version("trainshed"))
    stacks = stack_reading.for_page(cluster) if shown.may_change else None
    site = Site(Feed(cluster.reader, namespace), access, JobsPlace(cluster.server), Sources(None, examine, stacks))
    async with (
        served(site, shown.port),
        page_links.offered(access.new_link, click.echo, browser=shown.browser),
        asyncio.TaskGroup() as tasks,
    ):
        tasks.create_task(site.feed.run())
    return 0
