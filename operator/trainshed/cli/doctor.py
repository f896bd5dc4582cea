"""`trainshed doctor`: whether Trainshed is installed well, with the rights of the caller."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version

import click

from trainshed.api.foreign_text import one_line
from trainshed.views.diagnosis import Diagnosis, Verdict

from .connection import Cluster, ClusterOptions, cluster_options, run
from .installation import examine
from .tables import terminal_width, titled

COLOURS: Mapping[Verdict, str] = {
    Verdict.OK: "green",
    Verdict.WARNING: "yellow",
    Verdict.FAILED: "red",
    Verdict.UNKNOWN: "cyan",
}
#: The columns of the verdict and of the part, and the fewest of the text beside them.
VERDICT, PART = 9, 12


@click.command()
@cluster_options
def doctor(*, options: ClusterOptions) -> None:
    """Say whether Trainshed is installed well, and what to do if it is not.

    It looks with your rights: UNKNOWN is what you may not look at. Nothing is changed: jobs are only created in a dry
    run of the API server. The exit code is 1 if something has FAILED.
    """
    run(options, _doctor)


async def _doctor(cluster: Cluster) -> int:
    failed = False
    width = terminal_width()
    async for found in examine(cluster, version("trainshed")):
        failed = failed or found.verdict is Verdict.FAILED
        click.echo(_line(found, width))
    return 1 if failed else 0


def _line(found: Diagnosis, width: int) -> str:
    head = click.style(f"{found.verdict:<{VERDICT}}", COLOURS[found.verdict]) + f"{found.part:<{PART}}"
    return titled(head, VERDICT + PART, one_line(found.message), width)
