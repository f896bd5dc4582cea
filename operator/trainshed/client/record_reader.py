"""Reads the records of finished jobs, with the rights of the user who asks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from trainshed.api import record_ring
from trainshed.api.coerce import as_mapping, parse_text
from trainshed.api.job import Document
from trainshed.api.job_record import ended_at

from . import NotFound
from .job_reader import CORE, GROUP, LATEST, JobReader
from .lists import DOCUMENTS
from .transport import Path

#: The most ConfigMaps of records that are read, one of each namespace: anyone may create some.
MOST_NAMESPACES = 2_000
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


async def read_records(reader: JobReader, namespace: str) -> list[Document]:
    """Return the records of a namespace, or of all if it is empty, as jobs, the one that ended last first.

    Raises any `ApiError`, such as `Forbidden`.
    """
    if namespace:
        path = Path(CORE, "configmaps", namespace, record_ring.NAME)
        try:
            maps = [DOCUMENTS.answer(await reader.rest.call("GET", path))]
        except NotFound:
            maps = []
    else:
        query = {"fieldSelector": f"metadata.name={record_ring.NAME}"}
        maps = await reader.read_list(Path(CORE, "configmaps"), DOCUMENTS, query, MOST_NAMESPACES)
    found = [record for one in maps for record in record_ring.records(one, _namespace(one, namespace))]
    return sorted(found, key=lambda record: ended_at(record) or LONG_AGO, reverse=True)


def _namespace(config_map: Document, asked: str) -> str:
    return asked or parse_text(as_mapping(config_map.get("metadata")).get("namespace"))


def chosen(records: Sequence[Document], words: Sequence[str]) -> list[Document]:
    """Return the records that words of the command line mean: all without words, else those of kinds, or of names.

    `@latest` is the first one.
    """
    known = {parse_text(record["kind"]).lower() for record in records}
    kinds = {kind for word in words if (kind := _kind(word)) in known}
    names = [word for word in words if _kind(word) not in known]
    of_kinds = [record for record in records if not kinds or _kind(record["kind"]) in kinds]
    if not names:
        return of_kinds
    return [
        record
        for place, record in enumerate(of_kinds)
        if any(_names(record, name) or (name == LATEST and place == 0) for name in names)
    ]


def _kind(word: str) -> str:
    return word.lower().removesuffix(f".{GROUP}").removesuffix("s")


def _names(record: Document, word: str) -> bool:
    kind, slash, name = word.rpartition("/")
    return record["metadata"]["name"] == name and (not slash or _kind(kind) == _kind(record["kind"]))
