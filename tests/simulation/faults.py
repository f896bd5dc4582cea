"""What may go wrong between an operator and the server: each exchange and each line of a watch has a fate.

The weather is asked for it. This one is fair; whoever drives the simulation brings a worse one of the same shape, and
draws from a random source of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from trainshed.client.transport import Answer, Request

from .answers import Refusal

#: Seconds that an answer is on its way when nothing is the matter.
LATENCY = 0.002


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of an exchange.

    The request is `before` seconds on its way, the answer `after`; None is for ever, until the client gives up. The
    answer `instead` is given without the request being carried out, `lost` after that, in the place of the server's
    own; status 0 is a connection that breaks. A body is `cut` after so many bytes. A list is as of version `behind`.
    """

    before: float | None = 0.0
    after: float | None = LATENCY
    instead: Answer | None = None
    lost: Answer | None = None
    cut: int | None = None
    behind: int | None = None


@dataclass(frozen=True, slots=True)
class Passage:
    """What becomes of a line of a watch: so many seconds on its way, told so many times; then the stream may `end`.

    A line told 0 times is a gap. What comes after a line is never faster than it.
    """

    delay: float = LATENCY
    times: int = 1
    end: Ending | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """How a stream ends: with these last bytes, then in good order, or broken off, or `silent`: no byte and no end."""

    last: bytes = b""
    broken: bool = False
    silent: bool = False


FAIR, ON_TIME = Fate(), Passage()
RESET = Answer(0)


class Weather(Protocol):
    """Asked about everything on its way; `process` is the name of the operator's process."""

    def exchange(self, process: str, request: Request) -> Fate:
        """What becomes of a request, a watch's opening included."""
        ...

    def line(self, process: str, path: str, line: bytes) -> Passage:
        """What becomes of a line of a watch."""
        ...


class Fair:
    """Nothing goes wrong."""

    def exchange(self, process: str, request: Request) -> Fate:
        """It arrives."""
        del process, request
        return FAIR

    def line(self, process: str, path: str, line: bytes) -> Passage:
        """It arrives."""
        del process, path, line
        return ON_TIME


def refusal(code: int, reason: str, message: str = "so it is written", wait: str = "") -> Answer:
    """An answer that is an error, as the server would give it."""
    said = Refusal(code, reason, message, wait)
    return Answer(code, said.content, wait)


def error_event(code: int, reason: str, message: str = "so it is written") -> bytes:
    """A line of a watch that is an error."""
    return b'{"type":"ERROR","object":' + Refusal(code, reason, message).content + b"}\n"
