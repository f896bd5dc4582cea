"""What schedules that are written down have in common: how a job is made, and what it may ask for."""

from __future__ import annotations

from typing import Any

from .orders import Order
from .schedule import Step

KEEP, FATAL = ("trainshed.dev/track-results", "true"), ("trainshed.dev/on-disruption", "Fail")
ALONE, WITH_ROLE, TOGETHER = (("trainshed.dev/restart-scope", scope) for scope in ("Replica", "Role", "Job"))


def create(*order: Any, **fields: Any) -> Step:
    """The first step: somebody makes a job, as an `Order` of these words says."""
    return Step(after=0.0, what="create", how=Order(*order, **fields))
