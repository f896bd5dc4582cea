"""`trainshed report`: what happened to a job, as one file for post-mortems."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from trainshed.api.foreign_text import one_line
from trainshed.client.job_reader import NoSuchJob

from .connection import Cluster, ClusterOptions, cluster_options, run
from .job_names import JOB
from .kept_runs import history_of
from .whole_files import write

if TYPE_CHECKING:  # it takes long to import
    from trainshed.ui.report_content import JobReport

HTML, MARKDOWN = "html", "md"
#: What the end of a name means.
SUFFIXES = {".html": HTML, ".htm": HTML, ".md": MARKDOWN, ".markdown": MARKDOWN}
STANDARD_OUTPUT = "-"


@click.command()
@click.argument("job", type=JOB, default="")
@cluster_options
@click.option("-o", "--output", default=STANDARD_OUTPUT, help="File, such as report.html or report.md (default: -).")
@click.option("--format", "form", type=click.Choice((HTML, MARKDOWN)), help="Form (default: that of the file, or md).")
@click.option("--record", is_flag=True, help="From the record, also if there is a job of that name.")
@click.option("--run", "folder", type=click.Path(path_type=Path), help="A job that trainshed run has run: its folder.")
def report(  # noqa: PLR0913 - options of the command
    job: str, *, options: ClusterOptions, output: str, form: str | None, record: bool, folder: Path | None
) -> None:
    """Write what happened to a job into one file: when, why, where the time went, what ran.

    It works while the job runs, after its end, from the record of a job that was deleted, and from the folder of a run
    on this machine. Values of variables, commands and arguments are left out. A file that exists is replaced.
    """
    if not job and folder is None:
        raise click.UsageError("name the job, or the folder of a run: --run FOLDER")
    if folder and (record or options != ClusterOptions("", "", "")):
        raise click.UsageError("--run is about no cluster: leave out --record, --namespace, --context and --kubeconfig")
    chosen = form or (MARKDOWN if output == STANDARD_OUTPUT else SUFFIXES.get(Path(output).suffix.lower(), ""))
    if not chosen:
        raise click.UsageError(f"{output} is neither .html nor .md: add --format")
    if folder:
        _report_run(folder, job, output, chosen)
    else:
        run(options, lambda cluster: _report(cluster, job, output, chosen, record=record))


def _report_run(folder: Path, job: str, output: str, form: str) -> None:
    """Write the report of a job of a run on this machine."""
    from trainshed.ui.report_reading import read_run  # noqa: PLC0415 - only this command needs it

    try:
        _write(read_run(history_of(folder), job), output, form)
    except (NoSuchJob, OSError, msgspec.DecodeError) as error:
        raise click.ClickException(one_line(str(error))) from error


async def _report(cluster: Cluster, job: str, output: str, form: str, *, record: bool) -> int:
    from trainshed.ui.report_reading import read_report  # noqa: PLC0415 - only this command needs it

    _write(await read_report(cluster.reader, cluster.namespace, job, record=record), output, form)
    return 0


def _write(found: JobReport, output: str, form: str) -> None:
    """Write a report in a form."""
    from trainshed.ui.report_content import as_markdown  # noqa: PLC0415 - only this command needs it

    if form == MARKDOWN:
        text = as_markdown(found)
    else:
        from trainshed.ui.report_page import as_html  # noqa: PLC0415 - as above

        text = as_html(found)
    if output == STANDARD_OUTPUT:
        click.echo(text, nl=False)
    else:
        write(Path(output), text)
        click.echo(f"{found.title}: {output}", err=True)
