"""The page of the documents of a job: as the API server has them, to be read."""

from __future__ import annotations

from datetime import datetime

from htpy import Element, div, p, pre

from trainshed.api.job import Document
from trainshed.manifests import writer
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
    documents = [_read_by_people(file.document)]
    documents += [_read_by_people(one.document) for one in file.pods if one.removed is None]
    text = writer.write(documents)
    cut = f"\n# {len(text) - MOST} more characters are not shown\n" if len(text) > MOST else ""
    return div("#live.job")[
        job_head.banner(file, now),
        p(".hint")["The job as the API server has it, and then what this page keeps of its pods. Read only."],
        pre(".yaml", tabindex="0", aria_label="YAML")[text[:MOST] + cut],
    ]


def _read_by_people(found: Document) -> Document:
    """Return a document without what only the API server reads."""
    return {**found, "metadata": {key: value for key, value in metadata(found).items() if key != "managedFields"}}
