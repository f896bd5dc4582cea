"""V1: one active pod for each replica, none beyond the replicas, one attempt in a job that restarts as a whole."""

from __future__ import annotations

from collections.abc import Iterator

from . import api_fields
from .change import CREATED, DELETED, OPERATOR, Change, Object, Violation
from .records import IN_FLIGHT, Records


class UniqueReplicas:
    """Checks each new pod against the others of its job, by the role and index at its creation.

    `in_flight` are the seconds for which the operator may act on outdated facts.
    """

    def __init__(self, in_flight: float = IN_FLIGHT) -> None:
        self._in_flight = in_flight

    def on_change(self, change: Change, records: Records) -> Iterator[Violation]:
        job = records.job(change) if change.plural == "pods" else None
        if job is None or change.verb == DELETED:
            return
        pod = job.pods[api_fields.uid(change.object)]
        others = [other for other in job.pods.values() if other.alive and other.made and other.uid != pod.uid]
        twins = [other.name for other in others if (other.role, other.index) == (pod.role, pod.index)]
        if pod.alive and pod.made and pod.role and twins:
            message = f"{pod.name} and {', '.join(twins)} are both {pod.role} {pod.index} of {job.title}"
            yield Violation("V1", pod.name, change.at, message)
        if change.verb != CREATED or change.actor != OPERATOR:
            return
        specs = job.known_specs(change.at, self._in_flight)
        if all(api_fields.counts(job.plural, spec).get(pod.role, 0) <= pod.index for spec in specs):
            yield Violation("V1", pod.name, change.at, f"created, though {job.title} does not have that many replicas")
        if not all(restarts_whole(job.plural, spec) for spec in specs):
            return
        known = (other for other in others if other.role == pod.role and not other.lost_identity)
        if earlier := [other.name for other in known if other.attempt < pod.attempt]:
            message = f"made for attempt {pod.attempt} while {', '.join(earlier)} of an earlier one are still there"
            yield Violation("V1", pod.name, change.at, message)


def restarts_whole(plural: str, job: Object) -> bool:
    """Return whether all replicas of this job restart together, by its annotation or its framework."""
    message = (api_fields.meta(job).get("annotations") or {}).get(api_fields.SCOPE, "Auto")
    if message != "Auto":
        return bool(message == "Job")
    spec = job.get("spec") or {}
    if plural == "tfjobs":
        return "ps" not in api_fields.replicas(plural, job) and not spec.get("enableDynamicWorker")
    if plural == "pytorchjobs":
        return not spec.get("elasticPolicy")
    return plural != "mpijobs"  # one that discovers its hosts does not, and only its command says so
