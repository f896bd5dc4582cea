"""Reads what Kueue says about a job: its Workload, and its place among those that wait."""

from __future__ import annotations

import msgspec

from trainshed.api import status_codec
from trainshed.api.coerce import as_mapping, as_sequence, parse_count, parse_text
from trainshed.api.job import KUEUE_PREFIX, QUEUE_LABEL, Document

from . import ApiError, Forbidden, NotFound
from .job_reader import JOB_UID, KUEUE, JobReader
from .lists import DOCUMENTS, PARTS, Decoder, JobParts
from .sections import entries_of, value_of
from .transport import Path

#: The API in which Kueue lists the Workloads that wait, in their order, if its administrator has switched it on.
VISIBILITY = f"/apis/visibility.{KUEUE_PREFIX}v1beta1"


class QueuePlace(msgspec.Struct, frozen=True):
    """How many Workloads of the same LocalQueue are before one, and how many wait there, itself included.

    `before_in_cluster_queue` are those before it in its ClusterQueue, None if Kueue does not tell.
    """

    before: int
    waiting: int
    before_in_cluster_queue: int | None = None


class Queue(msgspec.Struct, frozen=True):
    """What is known of a job that waits for Kueue: its Workload, if there is one, and the place of that.

    `refused` is whether the caller may not read Workloads.
    """

    workload: Document | None = None
    place: QueuePlace | None = None
    refused: bool = False


async def read_queue(reader: JobReader, job: Document) -> Queue | None:
    """Return what Kueue says about a job, with four requests at most; None if Kueue has nothing to do with it."""
    metadata = job["metadata"]
    namespace, is_queued = metadata["namespace"], QUEUE_LABEL in as_mapping(metadata.get("labels"))
    try:
        label = {"labelSelector": f"{JOB_UID}={metadata['uid']}"}
        found = await reader.read_list(Path(KUEUE, "workloads", namespace), DOCUMENTS, label)
    except NotFound:
        return None
    except Forbidden:
        return Queue(refused=True) if is_queued else None
    group = status_codec.parse_status(job).workload
    workload = await _named(reader, namespace, group) if group else found[0] if found else None
    if workload is None:
        return Queue() if is_queued else None
    return Queue(workload, await _place(reader, namespace, workload) if is_waiting(workload) else None)


async def _named(reader: JobReader, namespace: str, name: str) -> Document | None:
    """Return the Workload of a group of pods; None without one."""
    try:
        return DOCUMENTS.answer(await reader.rest.call("GET", Path(KUEUE, "workloads", namespace, name)))
    except (NotFound, Forbidden):
        return None


def is_waiting(workload: Document) -> bool:
    """Return whether a Workload waits in its queue: active, without quota, and not finished."""
    held = {"QuotaReserved", "Finished"}
    conditions = map(as_mapping, as_sequence(as_mapping(workload.get("status")).get("conditions")))
    done = any(item.get("type") in held and item.get("status") == "True" for item in conditions)
    return not done and as_mapping(workload.get("spec")).get("active") is not False


async def _place(reader: JobReader, namespace: str, workload: Document) -> QueuePlace | None:
    """Return the place of a Workload, from Kueue itself or else from the Workloads of the namespace."""
    queue, name = queue_of(workload), parse_text(as_mapping(workload.get("metadata")).get("name"))
    if not queue:
        return None
    path = Path(VISIBILITY, "localqueues", namespace, queue, "pendingworkloads")
    try:
        answer = DOCUMENTS.answer(await reader.rest.call("GET", path))
    except ApiError:  # switched off, not permitted, or its server does not answer
        return await _place_by_age(reader, namespace, workload)
    items = list(map(as_mapping, as_sequence(answer.get("items"))))
    own = next((item for item in items if as_mapping(item.get("metadata")).get("name") == name), None)
    if own is None:
        return None
    return QueuePlace(
        parse_count(own.get("positionInLocalQueue")), len(items), parse_count(own.get("positionInClusterQueue"))
    )


async def _place_by_age(reader: JobReader, namespace: str, workload: Document) -> QueuePlace | None:
    try:
        found = await reader.read_list(Path(KUEUE, "workloads", namespace), WORKLOADS, {})
    except ApiError:
        return None
    others = (item for item in found if is_waiting(item) and queue_of(item) == queue_of(workload))
    order, own = sorted(map(_key, others)), _key(workload)
    return QueuePlace(order.index(own), len(order)) if own in order else None


def queue_of(workload: Document) -> str:
    """Return the LocalQueue of a Workload."""
    return parse_text(as_mapping(workload.get("spec")).get("queueName"))


def _key(workload: Document) -> tuple[int, str, str]:
    """Return by what Kueue orders the Workloads of a queue: priority, age, and the uid (pkg/cache/queue)."""
    metadata, priority = as_mapping(workload.get("metadata")), as_mapping(workload.get("spec")).get("priority")
    created, uid = parse_text(metadata.get("creationTimestamp")), parse_text(metadata.get("uid"))
    return -(priority if isinstance(priority, int) else 0), created, uid


def _read(found: JobParts) -> Document:
    """Return what orders a Workload among others, and its conditions; its pod templates are not decoded."""
    parts, own = entries_of(found.spec), entries_of(found.metadata)
    spec = {name: value_of(parts[name]) for name in ("queueName", "priority", "active") if name in parts}
    metadata = {name: value_of(own[name]) for name in ("uid", "creationTimestamp") if name in own}
    return {"metadata": metadata, "spec": spec, "status": value_of(found.status)}


WORKLOADS: Decoder[Document] = Decoder(PARTS, lambda found, _: _read(found))
