"""The result of a reconcile."""

from __future__ import annotations

from datetime import datetime

import msgspec

from trainshed.client import ApiError


class Result(msgspec.Struct, frozen=True):
    """The result of a reconcile: when to requeue, what was done, for the log, and the error that needs a back-off.

    A `known` error was reported before, also if its message differs. `pods` is the number of pods that the job has.
    `waits` is whether its status has changed and is not to be written yet: that is no success of a write. A job is
    `blocked` if new objects are refused, and nothing else has failed.
    """

    requeue_at: datetime | None = None
    message: str = ""
    error: ApiError | None = None
    known: bool = False
    pods: int = 0
    waits: bool = False
    blocked: bool = False
