"""The auditor: asks every oracle about every change, and for its last word once all is quiet."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import replace
from http import HTTPStatus

from . import words
from .change import CREATED, DELETED, OPERATOR, Change, Request, Violation
from .counters import Counters
from .ending import Counts, Ending, Portrait
from .ledger import UNDER_WAY, Ledger
from .leftovers import Leftovers
from .ownership import Strangers
from .prerequisites import NEEDED, Prerequisites
from .seats import Seats
from .verdict_causes import Justice
from .verdicts import Verdicts
from .write_budget import Thrift


class Auditor:
    """Is told of changes in the order in which they were committed; `violations` are the promises broken so far.

    `skew` are the seconds by which the clock of the operator may differ from that of the changes. With `gang` the pods
    of all jobs are placed by a gang scheduler. `under_way` are the seconds for which the operator may act on what is no
    longer so. `watched` are the kinds of objects that pods need of which all changes are reported.
    """

    def __init__(
        self,
        skew: float = 0.0,
        *,
        gang: bool = False,
        under_way: float = UNDER_WAY,
        watched: Collection[str] = NEEDED,
    ) -> None:
        self.violations: list[Violation] = []
        self.ledger = Ledger()
        self._counters, self._leftovers, self._thrift, self._counts = Counters(), Leftovers(), Thrift(), Counts()
        self._oracles = (
            Seats(under_way),
            Prerequisites(watched, gang=gang, under_way=under_way),
            Strangers(skew),
            self._counters,
            Verdicts(),
            Justice(),
            self._leftovers,
            self._thrift,
            self._counts,
        )

    def hear(self, change: Change) -> None:
        """Something was changed."""
        self.ledger.take(change)
        for oracle in self._oracles:
            self.violations.extend(oracle.hear(change, self.ledger))

    def asked(self, request: Request) -> None:
        """The operator has asked for something."""
        self._thrift.asked(request)

    def at_rest(self, since: float) -> None:
        """Nothing but the operator has done anything since then: it must not have written, either."""
        self.violations.extend(self._thrift.at_rest(since))

    def close(self, ending: Ending) -> tuple[Violation, ...]:
        """All is quiet: look at what is left. All violations there were."""
        at, ledger = ending.at, self.ledger
        self.violations.extend(self._counters.close(ledger, ending.injected or {}, at))
        self.violations.extend(self._leftovers.close(ledger, at))
        self.violations.extend(self._thrift.close(ledger, ending.faults, ending.lives, at))
        self.violations.extend(self._thrift.budget(ledger, ending.budgets or {}, at))
        self.violations.extend(self._counts.close(ledger, ending))
        return tuple(self.violations)

    def portrait(self) -> Portrait:
        """What another run may be compared with."""
        return self._counts.portrait(self.ledger)


def attributed(changes: Iterable[Change], requests: Iterable[Request]) -> list[Change]:
    """The changes with their actor, where the operator is known to have asked for just that before.

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
    meta = words.meta(change.object)
    path = f"{meta.get('namespace', '')}/{change.plural}"
    one = f"{path}/{meta.get('name', '')}"
    keys = [("PATCH", f"{one}/status" if change.plural in words.JOBS else one)]
    if change.verb == DELETED or change.vanishing:
        keys = [("DELETE", one)]
    elif change.verb == CREATED:
        keys = [("POST", path)]
    elif change.plural in words.JOBS and words.status(change.before or {}) == words.status(change.after or {}):
        return False  # it was its spec, which the operator never writes
    times = next((asked[key] for key in keys if asked.get(key)), None)
    if times is None or times[0] > change.at:
        return False
    times.popleft()
    return True


__all__ = ["Auditor", "attributed"]
