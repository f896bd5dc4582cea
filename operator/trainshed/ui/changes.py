"""What the page does to jobs when its user asks for it: what commands do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from trainshed.api.foreign_text import one_line
from trainshed.api.job import Document
from trainshed.client import UNAUTHORIZED, ApiError, Forbidden
from trainshed.client.job_reader import JobKind, NoSuchJob
from trainshed.job_actions import JobActions, NotPossible
from trainshed.views import refusals

from .feed import Feed
from .model import JobFile

#: Seconds that the operator has to note a restart.
RESTART_WITHIN = 60.0
REJECTED = (
    "The API server rejects the credentials: {error}. Log in to the cluster again, as for kubectl, and try again."
)
GONE = "The job does not exist any more."


class Changes:
    """Carries out what forms ask for, to the end also if the browser does not wait for it."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._under_way: set[asyncio.Task[str]] = set()

    async def act(self, file: JobFile, name: str) -> str:
        """Do this to a job; return why it is not done, empty if it is."""
        kind = self._feed.kind_of(file.document)
        if file.deleted or kind is None:
            return GONE
        task = asyncio.create_task(self._outcome(file.document, kind, name))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)

    async def _outcome(self, job: Document, kind: JobKind, name: str) -> str:
        said: list[str] = []
        try:
            await self._act(JobActions(self._feed.reader, said.append, is_dry_run=False), job, kind, name)
        except Forbidden as error:
            return said_of(error)
        except (ApiError, NoSuchJob, NotPossible) as error:
            return " ".join((said_of(error), *said))
        return ""

    def _act(self, actions: JobActions, job: Document, kind: JobKind, name: str) -> Awaitable[str]:
        match name:
            case "delete":
                return actions.delete(job, kind)
            case "restart":
                return actions.restart(job, kind, RESTART_WITHIN)
        return actions.set_suspended(job, kind, suspended=name == "suspend")


def said_of(error: Exception) -> str:
    """Return why something was not done in one line, with what to do about credentials and rights."""
    if isinstance(error, Forbidden):
        return refusals.sentence(str(error), error.reason)
    rejected = isinstance(error, ApiError) and error.reason == UNAUTHORIZED
    return one_line(REJECTED.format(error=error) if rejected else str(error))
