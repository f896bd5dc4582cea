"""A network with the faults of a schedule: errors, outages, partitions, delays, duplicates, and crashes at a write."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from trainshed.client.transport import Request

from .decision_rings import uid_of
from .transport import LATENCY, RESET, EventOutcome, RequestOutcome, StreamEnd, error_event, error_response

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
class WriteFault:
    """A fault at a write: the response is `status`, 0 for a connection reset, before or after the write is executed.

    With `kills` the operator that sent it is killed: `when` it is sent (before), executed (after) or answered.
    """

    when: str
    status: int = 0
    kills: bool = False


class FaultyNetwork:
    """A `transport.Network`; `kill` is called with the name of a process and seconds, `injected` counts the faults.

    `time` and `version` return the time of the loop and the version of the store.
    """

    def __init__(self, random: Random, kill: Callable[[str, float], None]) -> None:
        self.injected: Counter[str] = Counter()
        self.time: Callable[[], float] = lambda: 0.0
        self.version: Callable[[], int] = lambda: 0
        self._writes = 0
        self._random = random
        self._kill = kill
        self._partitioned_until: dict[str, float] = {}
        self._write_faults: dict[int, WriteFault] = {}
        self._outage_until = self._slow_until = self._delayed_until = 0.0
        self._slow = self._delay = 0.0
        self._duplicates_left = 0
        self._stale_lists: deque[int] = deque()
        self._record_faults: deque[WriteFault] = deque()
        #: The time of the last request that did not reach the server.
        self.lost_at = -math.inf
        #: Called with each request for the decisions about a job, and its outcome.
        self.records: Callable[[Request, RequestOutcome], None] = lambda _request, _outcome: None

    # --------------------------------------------------------------------------------------------- faults of a schedule

    def fail_write(self, number: int, fault: WriteFault) -> None:
        """Inject this fault at a write; the next one has number 1."""
        self._write_faults[self._writes + number] = fault

    def fail_record(self, fault: WriteFault) -> None:
        """Inject this fault at the next write of decisions about a job."""
        self._record_faults.append(fault)

    def stop_server(self, seconds: float) -> None:
        """Answer nothing for this time."""
        self._outage_until = self.time() + seconds

    def partition(self, process: str, seconds: float) -> None:
        """Let nothing pass between this process and the server for this time."""
        self._partitioned_until[process] = self.time() + seconds

    def delay_responses(self, seconds: float) -> None:
        """Delay each response by this time, for four times as long."""
        self._slow, self._slow_until = seconds, self.time() + 4 * seconds

    def delay_watches(self, seconds: float) -> None:
        """Delay watch events by up to this time, for twice as long."""
        self._delay, self._delayed_until = seconds, self.time() + 2 * seconds

    def duplicate_events(self) -> None:
        """Send each of the next ten lines of watches two or three times."""
        self._duplicates_left = 10

    def serve_stale_lists(self, versions: int) -> None:
        """Answer the next three lists as a server that is behind by this number of versions."""
        self._stale_lists.extend([versions] * 3)

    def clear(self) -> None:
        """End all faults but those at the next writes of decisions, which may be half a minute away."""
        self._write_faults.clear()
        self._stale_lists.clear()
        self._partitioned_until.clear()
        self._outage_until = self._slow_until = self._delayed_until = 0.0
        self._duplicates_left = 0

    # ------------------------------------------------------------------------------------------------ transport.Network

    def exchange(self, process: str, request: Request) -> RequestOutcome:
        """Return the outcome of a request."""
        outcome = self._outcome(process, request)
        if outcome.before is None or outcome.instead:
            self.lost_at = self.time()
        if uid_of(request):
            self.records(request, outcome)
        return outcome

    def _outcome(self, process: str, request: Request) -> RequestOutcome:
        now = self.time()
        if now < self._partitioned_until.get(process, 0.0):
            self.injected["partition"] += 1
            return RequestOutcome(before=None)
        if now < self._outage_until:
            self.injected["outage"] += 1
            instead = RESET if self._random.random() < 0.5 else error_response(503, REASONS[503])
            return RequestOutcome(before=0.0, after=LATENCY, instead=instead)
        extra = self._slow if now < self._slow_until else 0.0
        self.injected["slow"] += extra > 0
        before, after = self._latency(), self._latency() + extra
        if request.verb in WRITES and "/leases" not in request.path:
            self._writes += 1
            if fault := self._write_faults.pop(self._writes, None):
                return self._fail(process, fault)
            if self._record_faults and uid_of(request):
                return self._fail(process, self._record_faults.popleft())
        if request.verb == "GET" and self._stale_lists and "limit" in request.query and "continue" not in request.query:
            self.injected["stale list"] += 1
            behind = max(100, self.version() - self._stale_lists.popleft())
            return RequestOutcome(before, after, behind=behind)
        return RequestOutcome(before, after)

    def line(self, process: str, path: str, line: bytes) -> EventOutcome:
        """Return the outcome of a line of a watch."""
        del process, path, line
        delay = self._latency()
        if self.time() < self._delayed_until:
            self.injected["delay"] += 1
            delay += self._delay * self._random.random()
        if self._duplicates_left > 0:
            self._duplicates_left -= 1
            self.injected["duplicate"] += 1
            return EventOutcome(delay, self._random.choice((2, 3)))
        return EventOutcome(delay)

    def _fail(self, process: str, fault: WriteFault) -> RequestOutcome:
        if fault.kills:
            self.injected[f"killed {fault.when} a write"] += 1
            self._kill(process, LATENCY + 0.0001 if fault.when == "answered" else 0.0)
            if fault.when == "before":
                return RequestOutcome(before=None)
            return RequestOutcome(before=0.0, after=LATENCY if fault.when == "answered" else None)
        self.injected[f"status {fault.status} {fault.when} a write"] += 1
        wait = "1" if fault.status == 429 else ""
        status = fault.status
        response = error_response(status, REASONS[status], retry_after=wait) if status else RESET
        if fault.when == "before":
            return RequestOutcome(self._latency(), self._latency(), instead=response)
        return RequestOutcome(self._latency(), self._latency(), lost=response)

    def _latency(self) -> float:
        return LATENCY * (0.5 + self._random.random())


def error_end(status: int) -> StreamEnd:
    """Return the end of a watch by an error event."""
    return StreamEnd(error_event(status, REASONS[status]))
