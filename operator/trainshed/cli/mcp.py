"""`trainshed mcp`: the commands as tools of a Model Context Protocol server, for agents."""

from __future__ import annotations

import asyncio

import click

from .connection import ClusterOptions, cluster_options


@click.command()
@cluster_options
@click.option(
    "--allow-actions",
    is_flag=True,
    help="Let tools suspend, resume, restart, scale, delete and submit jobs, each after a preview.",
)
def mcp(*, options: ClusterOptions, allow_actions: bool) -> None:
    """Serve commands as tools for agents, with your own rights.

    It speaks the Model Context Protocol on standard input and output: the program of an agent starts it, and ends it.
    The tools change nothing unless --allow-actions is given. They read no files: jobs are passed as text.
    """
    from .mcp_server import serve  # noqa: PLC0415 - only this command needs its packages

    asyncio.run(serve(options, may_change=allow_actions))
