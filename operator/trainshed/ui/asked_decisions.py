"""The decisions about a job for its page: read when it asks for them, and kept for a moment, as a slider asks often."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import msgspec

from trainshed.api.coerce import parse_text
from trainshed.api.foreign_text import one_line
from trainshed.client import ApiError
from trainshed.client.job_reader import NoSuchJob
from trainshed.decisions.recording import Recording
from trainshed.decisions.ring_reader import GO_WITH_IT, read_recording
from trainshed.decisions.steps import Step, about_pod, steps, why_deleted
from trainshed.plan.messages.phrases import plural
from trainshed.views.rows import metadata

from .changes import GONE, said_of
from .feed import Feed
from .model import JobFile
from .pages.decisions_page import LONGEST_POD, ShownDecisions

#: How long what was read is shown, and of how many jobs it is kept.
LASTS, MOST_JOBS = timedelta(seconds=5), 4
#: The most steps, the last ones; and of each the sentences of a kind, and their characters; the most pods to choose.
MOST_STEPS, MOST_SENTENCES, LONGEST, MOST_PODS = 2_000, 50, 1_000, 500
#: Reads the decisions about a job; raises `NoSuchJob`, which says why there are none, OSError and `ApiError`.
ReadDecisions = Callable[[JobFile], Awaitable[Recording]]


class AskedDecisions:
    """Reads decisions from the cluster, unless `read` says from where; one reading at a time."""

    def __init__(self, feed: Feed, read: ReadDecisions | None = None) -> None:
        self._feed, self._read = feed, read or self._of_cluster
        self._kept: dict[tuple[str, str], tuple[datetime | None, ShownDecisions]] = {}
        self._turn = asyncio.Lock()

    async def about(self, file: JobFile, pod: str) -> ShownDecisions:
        """Return the decisions about a job, or those about one of its pods; of a job that is gone those known last."""
        key = parse_text(metadata(file.document).get("uid")), pod
        async with self._turn:
            time, known = self._kept.get(key, (None, ShownDecisions()))
            if time and self._feed.now() - time < LASTS:
                return known
            now, found = self._feed.now(), await self._found(file, pod)
            if file.deleted and known.steps and not found.steps:
                found = known
            self._kept.pop(key, None)
            self._kept[key] = now, found
            for old in list(self._kept)[:-MOST_JOBS]:
                del self._kept[old]
        return found

    async def _found(self, file: JobFile, pod: str) -> ShownDecisions:
        try:
            return await asyncio.to_thread(shown, await self._read(file), pod)
        except (ApiError, NoSuchJob) as error:
            return ShownDecisions(problem=said_of(error))
        except OSError as error:
            return ShownDecisions(problem=one_line(str(error)))

    async def _of_cluster(self, file: JobFile) -> Recording:
        if file.deleted:
            raise NoSuchJob(f"{GONE.rstrip('.')}; {GO_WITH_IT}")
        return await read_recording(self._feed.reader, file.document)


def shown(recording: Recording, pod: str) -> ShownDecisions:
    """Return decisions as the page shows them, all of it printable and bounded."""
    all_steps = [*steps(recording.decisions)]
    names = sorted(
        {name for step in all_steps for name in step.pods if name.isprintable() and len(name) <= LONGEST_POD}
    )
    chosen = about_pod(all_steps, pod) if pod else all_steps
    return ShownDecisions(
        steps=tuple(map(_printable, chosen[-MOST_STEPS:])),
        left=max(0, len(chosen) - MOST_STEPS),
        pods=tuple(names[:MOST_PODS]),
        answers=_sentences(why_deleted(recording.decisions, pod)) if pod else (),
    )


def _printable(step: Step) -> Step:
    return msgspec.structs.replace(
        step,
        facts=_sentences(step.facts),
        rule=one_line(step.rule, LONGEST),
        why=one_line(step.why),
        actions=_sentences(step.actions),
        pods=frozenset(),
        notes=_sentences(step.notes),
    )


def _sentences(found: list[str] | tuple[str, ...]) -> tuple[str, ...]:
    more = len(found) - MOST_SENTENCES
    sentences = tuple(one_line(sentence, LONGEST) for sentence in found[:MOST_SENTENCES])
    return (*sentences, f"and {plural(more, 'more line')}") if more > 0 else sentences
