"""Lines of logs as HTML: the replica with its colour, the time, and the text with the colours of the program."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec
from markupsafe import Markup, escape

from trainshed.api.foreign_text import ATTRIBUTES, one_line
from trainshed.ui.drawings import ansi
from trainshed.ui.replica_logs import RawLine
from trainshed.views.log_lines import COLOURS

#: The characters of a line that are shown, and those in which a word tells how bad it is.
MOST_CHARACTERS, HEAD = 2_000, 160
#: Words of errors and of warnings, and the marks of klog and glog, in what is shown of a line first.
ERROR = re.compile(
    r"\b(?:ERROR|FATAL|CRITICAL|PANIC|Traceback|Segmentation fault)\b|\b\w*(?:Error|Exception): |^[EF]\d{4} "
)
WARNING = re.compile(r"\bWARN(?:ING)?\b|\b\w*Warning: |^W\d{4} ")
#: Characters of a time up to its milliseconds, without the day.
DAY, MILLISECONDS = len("2026-01-01T"), len("2026-01-01T12:00:00.000")


class ReplicaColours(msgspec.Struct, frozen=True):
    """How the lines of replicas are distinguished: the numbers of their colours by name."""

    colours: dict[str, int]

    @classmethod
    def of(cls, replicas: Sequence[str]) -> ReplicaColours:
        """Return the colours in turn, in the order of the replicas."""
        return cls({name: number % len(COLOURS) for number, name in enumerate(replicas)})


def html(lines: Iterable[RawLine], shown: ReplicaColours) -> Markup:
    """Return the lines as HTML, each one an element."""
    # Ten thousand lines as a tree of elements would take seconds.
    return Markup("".join(_line(line, shown) for line in lines))  # noqa: S704 # nosec B704 - each part is escaped


def left_out(count: int) -> Markup:
    """Return what is said in place of lines that could not be sent in time; empty if there are none."""
    if not count:
        return Markup("")
    lines, were = ("line", "was") if count == 1 else ("lines", "were")
    return Markup('<p class="line left-out">{:,} {} {} left out: more came than can be shown</p>').format(
        count, lines, were
    )


def severity(text: str) -> str:
    """Return the class of a line by its words, with a space before it; empty for most."""
    head = ATTRIBUTES.sub("", text[:HEAD])
    return " error" if ERROR.search(head) else " warning" if WARNING.search(head) else ""


def _line(line: RawLine, shown: ReplicaColours) -> str:
    kind, colour = severity(line.text), shown.colours.get(line.replica, 0)
    time = escape(one_line(line.time[DAY:MILLISECONDS].rstrip("Z")))
    head = f'<p class="line{kind}"><b class="who who-{colour}">{escape(line.replica)}</b><time>{time}</time>'
    return f"{head}<span>{ansi.html(line.text, MOST_CHARACTERS)}</span></p>"
