"""Lines of the logs of replicas: the time that the API server puts before each, and the replica's name."""

from __future__ import annotations

import re

import msgspec

from trainshed.api.foreign_text import harmless

#: The colours of replicas, in turn.
COLOURS = ("cyan", "green", "yellow", "blue", "magenta", "bright_cyan", "bright_green", "bright_yellow", "bright_blue")

#: The time before a line, as RFC 3339.
TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)")


class LogLine(msgspec.Struct, frozen=True, order=True):
    """A line of a log: when it was written, as RFC 3339 with nanoseconds in UTC, which sorts as text."""

    time: str
    replica: str
    text: str


def parse(replica: str, line: bytes, *, colour: bool) -> LogLine:
    """Return the line that the API server gives with `timestamps`; what acts on a terminal is left out, as it says.

    The time is empty if there is none: kubelets write lines of their own, such as "unable to retrieve container logs".
    """
    time, _, text = line.partition(b" ")
    if not TIME.fullmatch(time):
        time, text = b"", line
    return LogLine(time.decode(), replica, harmless(_last_part(text).decode(errors="replace"), colour=colour))


def _last_part(text: bytes) -> bytes:
    """Return what a terminal shows of a line at its end: a progress bar goes back to the start of its line."""
    return text.rstrip(b"\r").rpartition(b"\r")[2]
