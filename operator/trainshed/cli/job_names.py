"""The names of jobs on the command line, which the shell completes from the cluster."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

#: Seconds after which the shell gets no names: the user is waiting for the next letter.
PATIENCE = 3.0


class JobName(click.ParamType):  # type: ignore[type-arg] # generic only where it is checked
    """A job: a name, a kind and a name, or @latest."""

    name = "job"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the jobs of the namespace that begin so; none without a connection, and nothing is said then."""
        del param
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only a shell needs it

        found: list[str] = []
        with suppress(Exception):  # a message would stand in the middle of the user's line
            words = {name: str(ctx.params.get(name) or "") for name in ("kubeconfig", "context", "namespace")}
            found = asyncio.run(asyncio.wait_for(_names(words, with_kinds="/" in incomplete), PATIENCE))
        return [CompletionItem(name) for name in [*found, "@latest"] if name.startswith(incomplete)]


JOB = JobName()


async def _names(words: dict[str, str], *, with_kinds: bool) -> list[str]:
    """Return the names of all jobs of the namespace, sorted; `with_kinds` as in `pytorchjob/mnist`."""
    from trainshed.client.job_reader import Jobs  # noqa: PLC0415 - only a shell needs it
    from trainshed.views.rows import full_name  # noqa: PLC0415 - only a shell needs it

    from .connection import ClusterOptions, connected  # noqa: PLC0415

    async with connected(ClusterOptions(**words)) as cluster:
        wanted = Jobs(await cluster.reader.kinds(), cluster.namespace, {})
        names = (await cluster.reader.jobs(wanted, lambda job, _: full_name(job))).jobs
    single = [name.rpartition("/")[2] for name in names]
    short = [name if with_kinds or single.count(last) > 1 else last for name, last in zip(names, single, strict=True)]
    return sorted(short)
