"""The thought: a snapshot in, a plan out; no clock, no wire, no randomness."""

from trainshed.api.actions import Plan
from trainshed.api.snapshot import Snapshot

from . import absent, restarts
from .facts import Facts
from .ladder import LADDER
from .memory import restored

__all__ = ["awaited", "plan"]


def plan(snapshot: Snapshot) -> Plan:
    """What to remember, say and do about a job, seeing it as it is now: the first rule that speaks decides."""
    facts = Facts(restored(snapshot))
    return next(decision for rule in LADDER if (decision := rule(facts)))


def awaited(snapshot: Snapshot) -> tuple[str, ...]:
    """The names of pods that have vanished unseen: before it is planned for that the server is to be asked for them.

    Before all restart together that is everybody who is missing, be it known or not that they ever were there.
    """
    facts = Facts(restored(snapshot))
    known, missing = absent.awaited(facts), absent.untold(facts)
    return tuple(dict.fromkeys((*known, *missing))) if missing and restarts.incident(facts) else known
