"""The thought: a snapshot in, a plan out; no clock, no wire, no randomness."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from trainshed.api.actions import Plan
from trainshed.api.snapshot import Snapshot

from . import absent, restarts
from .facts import Facts
from .ladder import LADDER, Rule, converge, restart, settle
from .memory import restored

__all__ = ["Planner", "plan"]

#: The rules that may come to a restart by what the server says of those it is asked for.
_RESTARTS = (settle, restart, converge)


def plan(snapshot: Snapshot) -> Plan:
    """What to remember, say and do about a job, seeing it as it is now: the first rule that speaks decides."""
    return Planner(snapshot).plan()


@dataclass(frozen=True)
class Planner:
    """Decides about a job, seeing it as it is in this snapshot; whatever is asked, its facts are made once."""

    snapshot: Snapshot

    def plan(self) -> Plan:
        """What to remember, say and do."""
        return self._decided[1]

    def awaited(self) -> tuple[str, ...]:
        """The names of pods that have vanished unseen: the server is to be asked for them before the plan is used.

        Before all restart together that is everybody who is missing, be it known or not that they ever were there.
        """
        known, missing = absent.awaited(self._facts), absent.untold(self._facts)
        # Most who are missing have yet to be made: without a failure nobody has to think twice for them.
        if not missing or restarts.incident(self._facts) is None or self._decided[0] not in _RESTARTS:
            return known
        return tuple(dict.fromkeys((*known, *missing)))

    @cached_property
    def _facts(self) -> Facts:
        return Facts(restored(self.snapshot))

    @cached_property
    def _decided(self) -> tuple[Rule, Plan]:
        return next((rule, decision) for rule in LADDER if (decision := rule(self._facts)))
