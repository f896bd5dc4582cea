"""Keeps what the planner decides in a run, and what it saw, in the folder of the run."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from trainshed.api.actions import Plan, Snapshot
from trainshed.controller.observer import Observer
from trainshed.decisions.recording import FILE, Encoder, worth_keeping

#: The most bytes of the file: what is decided then is not kept any more.
MOST_BYTES = 64 << 20


class DecisionLog(Observer):
    """Appends each decision at once, so that a run that is killed leaves all but the last one.

    What cannot be written ends it, not the run: `say` gets one sentence. Call `close` at the end.
    """

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self._say = say
        self._encoders: dict[str, Encoder] = {}
        self._version = version("trainshed")
        self._left = MOST_BYTES
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file: int | None = os.open(folder / FILE, flags, 0o600)

    def on_decision(self, snapshot: Snapshot, plan: Plan) -> None:
        """Keep a decision that does anything."""
        if self._file is None:
            return
        encoder = self._encoders.setdefault(snapshot.job.uid, Encoder(self._version))
        if not worth_keeping(snapshot, plan, encoder.rule):
            return
        line = encoder.line(snapshot, plan)
        self._left -= len(line)
        if self._left < 0:
            self._end(f"they have {MOST_BYTES >> 20} MiB")
            return
        try:
            while line:
                line = line[os.write(self._file, line) :]
        except OSError as error:
            self._end(error.strerror or "it cannot be written")

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
        self._file = None

    def _end(self, why: str) -> None:
        self.close()
        self._say(f"note: decisions are no longer kept in {FILE}: {why}")
