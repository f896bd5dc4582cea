"""Bad weather: what a schedule has asked for to go wrong between the operators and the server, and nothing else."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from trainshed.client.transport import Request

from .faults import LATENCY, RESET, Ending, Fate, Passage, error_event, refusal

#: Seconds that a request, an answer and a line of a watch are on their way on a fair day, each up to twice as long.
REASONS = {
    403: "Forbidden",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
WRITES = ("POST", "PUT", "PATCH", "DELETE")


@dataclass(frozen=True, slots=True)
class Strike:
    """What becomes of a write: it is answered with `status`, 0 for a broken connection, before or after it was done.

    With `kills` the operator that sent it dies: before the server has it, after, or when the answer has come.
    """

    when: str
    status: int = 0
    kills: bool = False


class Skies:
    """Speaks `faults.Weather`. `kill` is told who dies, and in how many seconds; `done` counts what went wrong.

    `time` and `version` are those of the loop and of the server's storage, once there are any.
    """

    def __init__(self, random: Random, kill: Callable[[str, float], None]) -> None:
        self.done: Counter[str] = Counter()
        self.writes = 0
        self.time: Callable[[], float] = lambda: 0.0
        self.version: Callable[[], int] = lambda: 0
        self._random = random
        self._kill = kill
        self._cut_until: dict[str, float] = {}
        self._strikes: dict[int, Strike] = {}
        self._out_until = self._slow_until = self._late_until = 0.0
        self._slow = self._late = 0.0
        self._repeat = 0
        self._behind: deque[int] = deque()

    # What a schedule asks for ----------------------------------------------------------------------------------------

    def strike(self, after: int, strike: Strike) -> None:
        """Strike the write that comes as so manieth from now."""
        self._strikes[self.writes + after] = strike

    def out(self, seconds: float) -> None:
        """For so long the server answers nobody."""
        self._out_until = self.time() + seconds

    def cut_off(self, process: str, seconds: float) -> None:
        """For so long nothing gets through between this process and the server."""
        self._cut_until[process] = self.time() + seconds

    def slow(self, each: float) -> None:
        """For a while every answer takes so many seconds more."""
        self._slow, self._slow_until = each, self.time() + 4 * each

    def late(self, seconds: float) -> None:
        """For a while what watches tell comes so many seconds later."""
        self._late, self._late_until = seconds, self.time() + 2 * seconds

    def repeat(self) -> None:
        """Tell each of the next lines of watches twice or more."""
        self._repeat = 10

    def behind(self, versions: int) -> None:
        """Answer the next lists by a server that lags so many versions behind."""
        self._behind.extend([versions] * 3)

    def clear(self) -> None:
        """It is a fair day."""
        self._strikes.clear()
        self._behind.clear()
        self._cut_until.clear()
        self._out_until = self._slow_until = self._late_until = 0.0
        self._repeat = 0

    # What the transport asks for -------------------------------------------------------------------------------------

    def exchange(self, process: str, request: Request) -> Fate:
        """What becomes of a request."""
        now = self.time()
        if now < self._cut_until.get(process, 0.0):
            self.done["partition"] += 1
            return Fate(before=None)
        if now < self._out_until:
            self.done["outage"] += 1
            instead = RESET if self._random.random() < 0.5 else refusal(503, REASONS[503])
            return Fate(before=0.0, after=LATENCY, instead=instead)
        extra = self._slow if now < self._slow_until else 0.0
        self.done["slow"] += extra > 0
        before, after = self._some(), self._some() + extra
        if request.verb in WRITES and "/leases" not in request.path:
            self.writes += 1
            if strike := self._strikes.pop(self.writes, None):
                return self._struck(process, strike)
        if request.verb == "GET" and self._behind and "limit" in request.query and "continue" not in request.query:
            self.done["old list"] += 1
            return Fate(before, after, behind=max(100, self.version() - self._behind.popleft()))
        return Fate(before, after)

    def line(self, process: str, path: str, line: bytes) -> Passage:
        """What becomes of a line of a watch."""
        del process, path, line
        delay = self._some()
        if self.time() < self._late_until:
            self.done["delay"] += 1
            delay += self._late * self._random.random()
        if self._repeat > 0:
            self._repeat -= 1
            self.done["repeat"] += 1
            return Passage(delay, self._random.choice((2, 3)))
        return Passage(delay)

    def _struck(self, process: str, strike: Strike) -> Fate:
        if strike.kills:
            self.done[f"death {strike.when}"] += 1
            self._kill(process, LATENCY + 0.0001 if strike.when == "answered" else 0.0)
            if strike.when == "before":
                return Fate(before=None)
            return Fate(before=0.0, after=LATENCY if strike.when == "answered" else None)
        self.done[f"answer {strike.status} {strike.when}"] += 1
        wait = "1" if strike.status == 429 else ""
        answer = refusal(strike.status, REASONS[strike.status], wait=wait) if strike.status else RESET
        if strike.when == "before":
            return Fate(self._some(), self._some(), instead=answer)
        return Fate(self._some(), self._some(), lost=answer)

    def _some(self) -> float:
        return LATENCY * (0.5 + self._random.random())


def ending(status: int) -> Ending:
    """A watch that ends in an error event."""
    return Ending(error_event(status, REASONS[status]))
