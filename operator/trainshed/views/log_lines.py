"""Lines of the logs of replicas: when each was written, by which replica, and what a terminal shows of it."""

from __future__ import annotations

import msgspec

from trainshed.api.foreign_text import harmless

#: The colours of replicas, in turn.
COLOURS = ("cyan", "green", "yellow", "blue", "magenta", "bright_cyan", "bright_green", "bright_yellow", "bright_blue")


class LogLine(msgspec.Struct, frozen=True, order=True):
    """A line of a log: when it was written, as RFC 3339 with nanoseconds in UTC, which sorts as text."""

    time: str
    replica: str
    text: str


def parse(replica: str, time: str, text: bytes, *, colour: bool) -> LogLine:
    """Return a line that was written at a time, without what acts on a terminal; the time is empty if not known."""
    return LogLine(time, replica, harmless(last_part(text).decode(errors="replace"), colour=colour))


def last_part(text: bytes) -> bytes:
    """Return what a terminal shows of a line at its end: a progress bar goes back to the start of its line."""
    return text.rstrip(b"\r").rpartition(b"\r")[2]
