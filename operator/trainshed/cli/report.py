"""`trainshed report`: what happened to a job, as one file for post-mortems."""

from __future__ import annotations

import os
from pathlib import Path

import click

from .connection import Cluster, ClusterOptions, cluster_options, run
from .job_names import JOB

HTML, MARKDOWN = "html", "md"
#: What the end of a name means.
SUFFIXES = {".html": HTML, ".htm": HTML, ".md": MARKDOWN, ".markdown": MARKDOWN}
STANDARD_OUTPUT = "-"


@click.command()
@click.argument("job", type=JOB)
@cluster_options
@click.option("-o", "--output", default=STANDARD_OUTPUT, help="File, such as report.html or report.md (default: -).")
@click.option("--format", "form", type=click.Choice((HTML, MARKDOWN)), help="Form (default: that of the file, or md).")
@click.option("--record", is_flag=True, help="From the record, also if there is a job of that name.")
def report(job: str, *, options: ClusterOptions, output: str, form: str | None, record: bool) -> None:
    """Write what happened to a job into one file: when, why, where the time went, what ran.

    It works while the job runs, after its end, and from the record of a job that was deleted. Values of variables,
    commands and arguments are left out. A file that exists is replaced.
    """
    chosen = form or (MARKDOWN if output == STANDARD_OUTPUT else SUFFIXES.get(Path(output).suffix.lower(), ""))
    if not chosen:
        raise click.UsageError(f"{output} is neither .html nor .md: add --format")
    run(options, lambda cluster: _report(cluster, job, output, chosen, record=record))


async def _report(cluster: Cluster, job: str, output: str, form: str, *, record: bool) -> int:
    from trainshed.ui.report_content import as_markdown  # noqa: PLC0415 - only this command needs it
    from trainshed.ui.report_reading import read_report  # noqa: PLC0415 - as above

    found = await read_report(cluster.reader, cluster.namespace, job, record=record)
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
    return 0


def write(path: Path, text: str) -> None:
    """Write a file as a whole: until then one that exists stays as it is. Raises `OSError`."""
    content = text.encode(errors="replace")
    if path.exists() and not path.is_file():  # such as /dev/stdout; a folder is an error
        path.write_bytes(content)
        return
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("xb") as file:
            file.write(content)
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
