"""`trainshed ui`: the jobs of a cluster in the browser."""

from __future__ import annotations

import asyncio
import os
import select
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from .connection import Cluster, ClusterOptions, cluster_options, run

#: What a browser reads that is started with a file: other users see the arguments of processes, but not this file.
REDIRECT = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={link}">'
#: Seconds for which the file stays: by then a browser has read it.
READ_WITHIN = 60.0
#: Seconds between two looks whether the user has pressed Enter, and the most bytes of what was typed before.
LOOK, MOST_INPUT = 0.25, 4096


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
@click.option("--allow-actions", is_flag=True, help="Let the page suspend, resume, restart and delete jobs.")
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
    from trainshed.ui.application import Site, served  # noqa: PLC0415
    from trainshed.ui.feed import Feed  # noqa: PLC0415

    from . import installation  # noqa: PLC0415

    access = Access(may_change=shown.may_change)
    namespace = "" if shown.everywhere else cluster.namespace
    examine = partial(installation.examine, cluster, version("trainshed"))
    site = Site(Feed(cluster.reader, namespace), access, cluster.server, examine=examine)
    async with served(site, shown.port), asyncio.TaskGroup() as tasks:
        tasks.create_task(site.feed.run())
        link = access.new_link()
        asks = sys.stdin is not None and sys.stdin.isatty()
        click.echo(
            f"The page is at {link}\nIt opens once. {'Enter prints another link. ' if asks else ''}Ctrl-C ends it."
        )
        if asks:
            tasks.create_task(print_links(access.new_link, sys.stdin.fileno()))
        if shown.browser and _has_screen():
            tasks.create_task(_open(link))
    return 0


async def print_links(new_link: Callable[[], str], terminal: int) -> None:
    """Print another link each time the user presses Enter, until the end of the terminal's input."""
    while True:
        await asyncio.sleep(LOOK)
        if not _has_input(terminal):
            continue
        if not os.read(terminal, MOST_INPUT):
            return
        click.echo(f"Another link, which opens once: {new_link()}")


def _has_input(terminal: int) -> bool:
    """Return whether a line can be read: a process in the background is stopped when it reads a terminal."""
    try:
        is_ours = os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:  # it is not the terminal of this session
        return False
    return is_ours and bool(select.select([terminal], [], [], 0)[0])


def _has_screen() -> bool:
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


async def _open(link: str) -> None:
    """Open the link in a browser by way of a file that only the user can read."""
    with TemporaryDirectory(prefix="trainshed-") as folder:  # of mode 0700
        with suppress(OSError):
            await asyncio.to_thread(_show, Path(folder, "open.html"), link)
        await asyncio.sleep(READ_WITHIN)


def _show(file: Path, link: str) -> None:
    import webbrowser  # noqa: PLC0415 - only needed with a screen

    file.write_text(REDIRECT.format(link=link))
    with suppress(webbrowser.Error):
        webbrowser.open(file.as_uri())
