"""The thought: a snapshot in, a plan out; no clock, no wire, no randomness."""

from trainshed.api.actions import Plan
from trainshed.api.snapshot import Snapshot

from .facts import Facts
from .ladder import LADDER

__all__ = ["plan"]


def plan(snapshot: Snapshot) -> Plan:
    """What to remember, say and do about a job, seeing it as it is now: the first rule that speaks decides."""
    facts = Facts(snapshot)
    return next(decision for rule in LADDER if (decision := rule(facts)))
