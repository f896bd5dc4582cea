"""The rule for jobs whose pods Kueue admits as a group: a group of another size is another group."""

from __future__ import annotations

from trainshed.api.actions import Event, EventType, Plan

from . import conditions, pods, restarts
from .facts import Facts
from .messages import job_conditions


def regroup(facts: Facts) -> Plan | None:
    """Begin another attempt of a job in a group of Kueue whose number of replicas has changed.

    Kueue has given it quota for the former number, and deletes pods that are more.
    """
    if not facts.job.grouped or all(pod.group_size == facts.job.size for pod in facts.current.values()):
        return None
    update = job_conditions.regrouped(facts)
    status = conditions.set_condition(restarts.start_attempt(facts.observed, facts.groups), update, facts.now)
    events = (Event(EventType.NORMAL, update.reason, update.message),)
    return Plan(status, events, pods.delete_stale(facts.after(status)), requeue_at=facts.now)
