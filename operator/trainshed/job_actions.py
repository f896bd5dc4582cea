"""Suspends, resumes, restarts and deletes jobs with the rights of the user who asks, for commands and for the page."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing

from trainshed.api import kueue_groups, status_codec
from trainshed.api.coerce import as_mapping
from trainshed.api.job import QUEUE_LABEL, Document
from trainshed.api.status import ConditionType
from trainshed.client import ApiError, Conflict, Unavailable
from trainshed.client.job_reader import JobKind, JobReader, Jobs, NoSuchJob
from trainshed.client.job_watch import job_changes
from trainshed.client.job_writer import JobWriter
from trainshed.views import refusals
from trainshed.views.rows import full_name, with_namespace

#: How often a change is written: the operator writes the status of a job meanwhile, which is a conflict.
TRIES = 5
SUSPEND, RESUME = ({"spec": {"runPolicy": {"suspend": value}}} for value in (True, False))


class NotPossible(Exception):
    """A job is not changed, because of its state or because others decide; the message says what to do instead."""


class JobActions:
    """Changes jobs as they were read; methods raise an `ApiError`, `NoSuchJob` if one is gone, and `NotPossible`.

    `say` is called with what the user must know beside the result. With `only_as_read` a job is not changed if anyone
    has written it since it was read, not even the operator: that is a `Conflict`.
    """

    def __init__(
        self, reader: JobReader, say: Callable[[str], None], *, is_dry_run: bool, only_as_read: bool = False
    ) -> None:
        self._reader, self._say, self._is_dry_run = reader, say, is_dry_run
        self._only_as_read = only_as_read
        self._writer = JobWriter(reader.rest, dry_run=is_dry_run)

    async def changed(self, job: Document, kind: JobKind, patch: Callable[[Document], Document]) -> Document:
        """Merge what `patch` returns for a job into it; after a conflict for the job as it is then."""
        return await self._changed(job, kind, patch, 1 if self._only_as_read else TRIES)

    async def _changed(
        self, job: Document, kind: JobKind, patch: Callable[[Document], Document], tries: int
    ) -> Document:
        for _ in range(tries - 1):
            try:
                return await self._writer.patch(kind, job, patch(active(job)))
            except Conflict:
                job = await self._read_again(job, kind)
        return await self._writer.patch(kind, job, patch(active(job)))

    async def set_suspended(self, job: Document, kind: JobKind, *, suspended: bool) -> str:
        """Suspend or resume a job; return what was done."""
        if suspended or is_suspended(active(job)):
            await self._refuse_queued(job, refusals.kueue_decides if suspended else refusals.kueue_starts)
        if is_suspended(active(job)) is suspended:
            return f"{full_name(job)} {'is suspended already' if suspended else 'is not suspended'}"
        await self.changed(job, kind, lambda _: SUSPEND if suspended else RESUME)
        return f"{full_name(job)} {'suspended' if suspended else 'resumed'}"

    async def restart(self, job: Document, kind: JobKind, seconds: float) -> str:
        """Suspend a job, wait until the operator has noted it, and resume it: its pods are of a new attempt then.

        A restart that was interrupted is finished. The operator has some seconds to act.
        """
        name = full_name(job)
        await self._refuse_queued(job, refusals.kueue_decides)
        if is_suspended(active(job)):
            await self.changed(job, kind, lambda _: RESUME)
            return f"{name} was suspended, and is resumed"
        if self._is_dry_run:
            await self.changed(job, kind, lambda _: SUSPEND)
            return f"{name} restarted"
        suspended = None
        try:
            suspended = await self.changed(job, kind, lambda _: SUSPEND)
            noted = await self._noted(suspended, kind, seconds)
            # Also if the operator does not act: there is nothing to do then when it comes back.
            # The operator has written it meanwhile, which is what was waited for.
            await self._changed(suspended, kind, lambda _: RESUME, TRIES)
        except (asyncio.CancelledError, ApiError) as error:
            if suspended or isinstance(error, (asyncio.CancelledError, Unavailable)):
                is_ = "is" if suspended else "may be"
                self._say(
                    f"{name} {is_} suspended and not resumed yet: trainshed restart {with_namespace(job)} goes on"
                )
            raise
        if not noted:
            raise NotPossible(f"{name} is not restarted: the operator did not act in time. Does it run?")
        return f"{name} restarted"

    async def delete(self, job: Document, kind: JobKind) -> str:
        """Delete a job with its pods, in the background."""
        await self._writer.delete(kind, job, only_as_read=self._only_as_read)
        return f"{full_name(job)} deleted"

    async def queued_by(self, job: Document) -> tuple[bool, Document | None]:
        """Return whether Kueue starts and stops a job, and the Workload that it has made for it, if it may be read."""
        if kueue_groups.is_grouped(job):
            return False, None
        workload = await self._reader.workload(job)
        labels = as_mapping(job["metadata"].get("labels"))
        return bool(workload) or QUEUE_LABEL in labels, workload

    async def _read_again(self, job: Document, kind: JobKind) -> Document:
        """Return a job as it is now; raises `NoSuchJob` if it is gone."""
        metadata = job["metadata"]
        found = await self._reader.job(kind, metadata["namespace"], metadata["name"])
        if found is None or found["metadata"]["uid"] != metadata["uid"]:
            raise NoSuchJob(f"{full_name(job)} is deleted")
        return found

    async def _refuse_queued(self, job: Document, why: Callable[[str, str, Document | None], str]) -> None:
        """Raise `NotPossible` for a job that Kueue starts and stops: it takes such a change back at once."""
        is_queued, workload = await self.queued_by(job)
        if is_queued:
            raise NotPossible(why(full_name(job), job["metadata"]["namespace"], workload))

    async def _noted(self, job: Document, kind: JobKind, seconds: float) -> bool:
        """Wait until the status says that the job is suspended; return False if the time is over.

        The status has the new attempt then, and every pod of an older one is deleted also after the resume.
        """
        metadata = job["metadata"]
        wanted = Jobs([kind], metadata["namespace"], {"fieldSelector": f"metadata.name={metadata['name']}"})
        known = {(kind.kind, metadata["uid"]): job}
        follow = job_changes(self._reader, wanted, lambda found, _: found, known, self._say)
        try:
            async with asyncio.timeout(seconds), aclosing(follow) as changes:
                async for change in changes:
                    if change.deleted or change.item["metadata"]["uid"] != metadata["uid"]:
                        raise NoSuchJob(f"{full_name(job)} is deleted")
                    if status_codec.parse_status(active(change.item)).true(ConditionType.SUSPENDED):
                        return True
        except TimeoutError:
            pass
        return False


def active(job: Document) -> Document:
    """Return the job; raises `NotPossible` if it is over or being deleted: the operator does not act then."""
    status = status_codec.parse_status(job)
    if status.over:
        raise NotPossible(
            f"{full_name(job)} has ended ({status.current_state}) and does not run again: delete and submit it"
        )
    if "deletionTimestamp" in job["metadata"]:
        raise NotPossible(f"{full_name(job)} is being deleted")
    return job


def is_suspended(job: Document) -> bool:
    """Return whether the spec of a job says that it is suspended."""
    return as_mapping(as_mapping(job.get("spec")).get("runPolicy")).get("suspend") is True
