"""Parts of sentences: numbers of things, durations, lists, and the lines of others' messages that they quote."""

from __future__ import annotations

from collections.abc import Sequence

#: The maximum length in bytes of the line of another's message that a sentence quotes.
LINE = 240
#: Container runtimes write several names of their own parts up to this, and then the cause.
RUNTIME_PREFIX = "unable to start container process: "
#: From this number of seconds, or minutes, on, a duration is written with the next larger unit.
NEXT_UNIT = 120


def plural(number: int, noun: str) -> str:
    """Return a number of things: `1 pod`, `2 pods`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def share(part: int, whole: int, noun: str, kind: str = "") -> str:
    """Return some of things with their verb: `1 of 3 replicas is`, `2 of 3 replicas are`, `0 of 1 replica is`."""
    return f"{part} of {plural(whole, noun)}{kind} {'is' if 1 in (part, whole) else 'are'}"


def enumeration(names: Sequence[str], most: int) -> str:
    """Return the first names, `most` at most, and how many there are besides: `a, b and 3 more (5 in total)`."""
    others = len(names) - most
    more = f" and {others} more ({len(names)} in total)" if others > 0 else ""
    return f"{', '.join(names[:most])}{more}"


def duration(seconds: int) -> str:
    """Return a duration in at most two units, in the form of kubectl's ages: `14s`, `3m5s`, `26h10m`, `60m`."""
    minutes, left = divmod(seconds, 60)
    if seconds < NEXT_UNIT:
        return f"{seconds}s"
    if minutes < NEXT_UNIT:
        return f"{minutes}m{left}s" if left else f"{minutes}m"
    return f"{minutes // 60}h{minutes % 60}m" if minutes % 60 else f"{minutes // 60}h"


def ended_early(*, exited: bool, winner: str) -> str:
    """Return what follows the failure of a pod that exited, or else was restarted, before pod `winner` succeeded."""
    what = "it exited" if exited else "it was restarted"
    return f"{what} before {winner} succeeded, so the success of {winner} is not accepted"


def last_line(text: str) -> str:
    """Return the last line that is not blank, without the space around it and RUNTIME_PREFIX; "" if there is none."""
    line = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
    return without_runtime_prefix(line)


def without_runtime_prefix(text: str) -> str:
    """Return the text from the cause on, if it is a runtime's message about a container that it cannot start."""
    return text.rpartition(RUNTIME_PREFIX)[2] or text
