"""The auditor: passes every change to every check, and runs the final checks once nothing changes any more."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from http import HTTPStatus

from support.replace import replace

from . import api_fields
from .change import CREATED, DELETED, OPERATOR, Change, Request, Violation
from .conditions import Conditions
from .counters import Counters
from .final_state import RunEnd, Summary, WriteCounts
from .leftovers import Leftovers
from .ownership import Ownership
from .prerequisites import NEEDED, Prerequisites
from .records import IN_FLIGHT, Records
from .services import RequiredServices
from .terminal_causes import TerminalCauses
from .unique_replicas import UniqueReplicas
from .write_budget import WriteBudget


class Auditor:
    """Takes changes in the order in which they were committed; `violations` are the violations so far.

    `skew` are the seconds by which the clock of the operator may differ from that of the changes. With `gang` the pods
    of all jobs are placed by a gang scheduler. `in_flight` are the seconds for which the operator may act on what is no
    longer so. `watched` are the kinds of objects that pods need of which all changes are reported.
    """

    def __init__(
        self,
        skew: float = 0.0,
        *,
        gang: bool = False,
        in_flight: float = IN_FLIGHT,
        watched: Collection[str] = NEEDED,
    ) -> None:
        self.violations: list[Violation] = []
        self.records = Records()
        self._counters, self._leftovers, self._write_budget, self._counts = (
            Counters(),
            Leftovers(),
            WriteBudget(),
            WriteCounts(),
        )
        self._services = RequiredServices(in_flight)
        self._oracles = (
            self._services,
            UniqueReplicas(in_flight),
            Prerequisites(watched, gang=gang, in_flight=in_flight),
            Ownership(skew),
            self._counters,
            Conditions(),
            TerminalCauses(),
            self._leftovers,
            self._write_budget,
            self._counts,
        )

    def on_change(self, change: Change) -> None:
        self.records.record(change)
        for oracle in self._oracles:
            self.violations.extend(oracle.on_change(change, self.records))

    def asked(self, request: Request) -> None:
        self._write_budget.asked(request)

    def at_rest(self, since: float) -> None:
        """Check that the operator has written nothing since then, when nothing else did."""
        self.violations.extend(self._write_budget.at_rest(since))

    def close(self, end: RunEnd) -> tuple[Violation, ...]:
        """Run the final checks and return all violations."""
        at, records = end.at, self.records
        self.violations.extend(self._counters.close(records, end.injected or {}, at))
        self.violations.extend(self._leftovers.close(records, at))
        self.violations.extend(self._services.close(records, at))
        self.violations.extend(self._write_budget.close(records, end.faults, end.lives, at))
        self.violations.extend(self._write_budget.budget(records, end.budgets or {}, at))
        self.violations.extend(self._counts.close(records, end))
        return tuple(self.violations)

    def summary(self) -> Summary:
        """Return what can be compared with another run."""
        return self._counts.summary(self.records)


def attributed(changes: Iterable[Change], requests: Iterable[Request]) -> list[Change]:
    """Return the changes, with the operator as actor where it had requested them.

    A watch does not say who did it. Each request that was answered well, or not at all, accounts for one change.
    """
    asked: dict[tuple[str, str], deque[float]] = {}
    for request in requests:
        if request.writes and request.status < HTTPStatus.BAD_REQUEST:
            asked.setdefault((request.verb, _tail(request.path)), deque()).append(request.at)
    return [replace(one, actor=OPERATOR) if not one.actor and _asked(one, asked) else one for one in changes]


def _tail(path: str) -> str:
    return path.partition("?")[0].partition("/namespaces/")[2]


def _asked(change: Change, asked: dict[tuple[str, str], deque[float]]) -> bool:
    meta = api_fields.meta(change.object)
    path = f"{meta.get('namespace', '')}/{change.plural}"
    one = f"{path}/{meta.get('name', '')}"
    keys = [("PATCH", f"{one}/status" if change.plural in api_fields.JOBS else one)]
    if change.verb == DELETED or change.requests_deletion:
        keys = [("DELETE", one)]
    elif change.verb == CREATED:
        keys = [("POST", path)]
    elif change.plural in api_fields.JOBS and api_fields.status(change.before or {}) == api_fields.status(
        change.after or {}
    ):
        return False  # it was its spec, which the operator never writes
    times = next((asked[key] for key in keys if asked.get(key)), None)
    if times is None or times[0] > change.at:
        return False
    times.popleft()
    return True


__all__ = ["Auditor", "attributed"]
