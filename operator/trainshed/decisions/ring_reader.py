"""Reads the decisions about a job that the operator has recorded, with the rights of the user who asks."""

from __future__ import annotations

import asyncio

from trainshed.api.coerce import as_mapping, parse_text
from trainshed.api.job import Document
from trainshed.api.job_annotations import DECISIONS, RECORD, asks_for_decisions
from trainshed.client import NotFound
from trainshed.client.job_reader import CORE, JobReader, NoSuchJob
from trainshed.client.lists import DOCUMENTS
from trainshed.client.transport import Path

from . import ring
from .recording import Recording

FLAG = "--record-decisions (record.decisions of the chart)"
#: Why there are none of a job that is gone.
GO_WITH_IT = "the decisions about a job go with it"


async def read_recording(reader: JobReader, job: Document) -> Recording:
    """Return the decisions that are recorded about a job; raises `NoSuchJob`, which says why there are none.

    Raises any other `ApiError` too, such as `Forbidden`.
    """
    metadata, kind = as_mapping(job.get("metadata")), parse_text(job.get("kind"))
    namespace, name, uid = (parse_text(metadata.get(part)) for part in ("namespace", "name", "uid"))
    path = Path(CORE, "configmaps", namespace, ring.name_of(uid))
    called = f"{kind.lower()}/{name}"
    try:
        config_map = DOCUMENTS.answer(await reader.rest.call("GET", path))
    except NotFound as error:
        raise NoSuchJob(f"no decisions about {called} are recorded: {_why(metadata)}") from error
    found = await asyncio.to_thread(ring.decisions, config_map)  # others may have made it large
    if not found:
        raise NoSuchJob(
            f"no decision about {called} can be read from the ConfigMap {path.name}: others have changed it"
        )
    return Recording(kind, namespace, name, found)


def _why(metadata: Document) -> str:
    if asks_for_decisions(metadata):
        return f"the operator does not run with {FLAG}, or the job is younger than half a minute; see its Events"
    return f"the job has no annotation {RECORD}: {DECISIONS}, and the operator does not run with {FLAG} for all jobs"
