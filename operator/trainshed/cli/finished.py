"""`trainshed get --finished`: the jobs of which there are records, also those that were deleted."""

from __future__ import annotations

from collections.abc import Sequence

import click

from trainshed.api.foreign_text import one_line
from trainshed.client.record_reader import chosen, read_records
from trainshed.process import Clock
from trainshed.views import rows

from . import job_documents, tables
from .connection import Cluster

#: Where records come from.
HINT = 'jobs with the annotation trainshed.dev/record: "true" have records, if the operator runs with --record'


async def show(cluster: Cluster, words: Sequence[str], form: str, *, everywhere: bool) -> int:
    """Print the records of jobs, in a form of `trainshed get`; nothing that is in them is trusted."""
    namespace = "" if everywhere else cluster.namespace
    records = chosen(await read_records(cluster.reader, namespace), words)
    match form:
        case "json" | "yaml":
            for text in job_documents.texts(form, records, one=False):
                click.echo(text, nl=False)
        case "name":
            for record in records:
                click.echo(one_line(rows.full_name(record)))
        case _ if records:
            wide, now = form == "wide", Clock().now()
            cells = [rows.finished_row(record, now, namespaces=everywhere, wide=wide) for record in records]
            tables.show(rows.header(namespaces=everywhere, wide=wide, finished=True), cells, whole=wide)
        case _:
            where = f" in {namespace} namespace" if namespace else ""
            click.echo(one_line(f"No records found{where}: {HINT}"), err=True)
    return 0
