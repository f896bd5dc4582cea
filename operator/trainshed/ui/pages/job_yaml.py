"""The page of the documents of a job: as the API server has them, to be read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from htpy import Element, div, p, pre

from trainshed.api.job import Document
from trainshed.manifests import writer
from trainshed.plan.messages.phrases import plural
from trainshed.ui.model import JobFile, PageFrame
from trainshed.views.rows import metadata

from . import job_head
from .job_head import NOTHING, Query

#: The most characters of all documents.
MOST = 400_000


def page(file: JobFile, frame: PageFrame, query: Query = NOTHING) -> Element:
    """Return the page."""
    return job_head.document(file, frame, "/yaml", live(file, frame.now, query))


def live(file: JobFile, now: datetime, query: Query = NOTHING) -> Element:
    """Return the part of the page that changes with the job: the job, and then its pods as far as they are kept."""
    del query
    pods = [one.document for one in file.pods if one.removed is None]
    text, left = _written([file.document, *pods])
    cut = f"\n# {max(0, len(text) - MOST)} more characters are not shown" if len(text) > MOST or left else ""
    cut += f", and {plural(left, 'more pod')}" if left else ""
    return div("#live.job")[
        job_head.banner(file, now),
        p(".hint")["The job with its status, and then what this page keeps of its pods. Read only."],
        pre(".yaml", tabindex="0", aria_label="YAML")[text[:MOST] + cut + ("\n" if cut else "")],
    ]


def _written(documents: Sequence[Document]) -> tuple[str, int]:
    """Return documents as YAML until there is no more room, and how many are left: a job may have very many pods."""
    parts, size = list[str](), 0
    for number, found in enumerate(documents):
        if size > MOST:
            return "".join(parts), len(documents) - number
        parts.append(writer.write([_read_by_people(found)]))
        size += len(parts[-1])
    return "".join(parts), 0


def _read_by_people(found: Document) -> Document:
    """Return a document without what only the API server reads."""
    return {**found, "metadata": {key: value for key, value in metadata(found).items() if key != "managedFields"}}
