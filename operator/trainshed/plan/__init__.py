"""The thought: a snapshot in, a plan out; no clock, no wire, no randomness."""

from trainshed.api.actions import Plan
from trainshed.api.snapshot import Snapshot

from . import absent, restarts
from .facts import Facts
from .ladder import LADDER, Rule, converge, restart, settle
from .memory import restored

__all__ = ["awaited", "plan"]

#: The rules that may come to a restart by what the server says of those it is asked for.
_RESTARTS = (settle, restart, converge)


def plan(snapshot: Snapshot) -> Plan:
    """What to remember, say and do about a job, seeing it as it is now: the first rule that speaks decides."""
    return _decided(Facts(restored(snapshot)))[1]


def awaited(snapshot: Snapshot) -> tuple[str, ...]:
    """The names of pods that have vanished unseen: before it is planned for that the server is to be asked for them.

    Before all restart together that is everybody who is missing, be it known or not that they ever were there.
    """
    facts = Facts(restored(snapshot))
    known, missing = absent.awaited(facts), absent.untold(facts)
    # Most who are missing have yet to be made: without a failure nobody has to think twice for them.
    if not missing or restarts.incident(facts) is None or _decided(facts)[0] not in _RESTARTS:
        return known
    return tuple(dict.fromkeys((*known, *missing)))


def _decided(facts: Facts) -> tuple[Rule, Plan]:
    return next((rule, decision) for rule in LADDER if (decision := rule(facts)))
