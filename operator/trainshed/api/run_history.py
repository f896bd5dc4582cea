"""What a run on a machine leaves for `trainshed report`: its jobs, their pods, Events, and what trainings reported."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated

import msgspec

from .job import Document

#: The name of the file in the folder of a run, and the most bytes of one that is read.
FILE, MOST_BYTES = "history.json", 256 << 20
#: The most pods that are kept: a run has 2,000 replicas at most, and those that were replaced. The oldest go.
MOST_PODS = 4_000


class LastPod(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pod as it was last, and when it was removed; None if it was there at the end."""

    document: Document
    removed: datetime | None = None


class RunHistory(msgspec.Struct, frozen=True, omit_defaults=True):
    """A run: when it ended, its jobs and pods as they were last, Events, and what trainings reported.

    `reports` has a job's field `status.trainerStatus` as it was from time to time, by the uid of the job.
    """

    ended: Annotated[datetime, msgspec.Meta(tz=True)]
    jobs: tuple[Document, ...]
    pods: tuple[LastPod, ...] = ()
    events: tuple[Document, ...] = ()
    reports: Mapping[str, tuple[Document, ...]] = {}


def encode(history: RunHistory) -> bytes:
    """Return a history as JSON."""
    return msgspec.json.encode(history)


def decode(content: bytes) -> RunHistory:
    """Return the history that JSON has; raises `msgspec.DecodeError`."""
    try:
        return msgspec.json.decode(content, type=RunHistory)
    except (UnicodeDecodeError, RecursionError) as error:
        raise msgspec.DecodeError(str(error)) from error
