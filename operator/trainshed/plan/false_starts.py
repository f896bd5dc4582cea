"""Replicas whose pods others delete again and again, and until when they wait."""

from __future__ import annotations

from datetime import datetime, timedelta

from trainshed.api.actions import LostPod
from trainshed.api.job import Replica
from trainshed.api.replicas import replicas_by_name

from .facts import Facts
from .retry_delay import backoff_seconds


def postponed(facts: Facts) -> dict[Replica, datetime]:
    """Return the missing replicas whose last pods were deleted as soon as they were created, and until when they wait.

    The first deletion costs nothing. What is known of them is lost with the operator's process; then they begin again.
    """
    if not facts.snapshot.lost_pods:
        return {}
    ends = {
        replica: pod.time + timedelta(seconds=backoff_seconds(facts.job.uid, pod.count))
        for replica, pod in facts.once(lost).items()
    }
    return {replica: end for replica, end in ends.items() if end > facts.now}


def lost(facts: Facts) -> dict[Replica, LostPod]:
    """Return the missing replicas whose pods were lost."""
    gone = {item.name: item for item in facts.snapshot.lost_pods}
    found = replicas_by_name(facts.job, gone.keys())
    return {replica: gone[name] for name, replica in found.items() if replica in facts.missing}
