"""V1: never two pods at work in one seat, none without a seat, and of a job that restarts whole never two attempts."""

from __future__ import annotations

from collections.abc import Iterator

from . import words
from .change import CREATED, DELETED, OPERATOR, Change, Object, Violation
from .ledger import UNDER_WAY, Ledger


class Seats:
    """Who sits where: by the uid of the job, the role and the index that a pod was born with.

    `under_way` are the seconds for which the operator may act on what is no longer so.
    """

    def __init__(self, under_way: float = UNDER_WAY) -> None:
        self._under_way = under_way

    def hear(self, change: Change, ledger: Ledger) -> Iterator[Violation]:
        """Look at a new pod, and at who else is there."""
        job = ledger.job(change) if change.plural == "pods" else None
        if job is None or change.verb == DELETED:
            return
        pod = job.pods[words.uid(change.object)]
        others = [other for other in job.pods.values() if other.alive and other.made and other.uid != pod.uid]
        twins = [other.name for other in others if (other.role, other.index) == (pod.role, pod.index)]
        if pod.alive and pod.made and pod.role and twins:
            told = f"{pod.name} and {', '.join(twins)} are both {pod.role} {pod.index} of {job.title}"
            yield Violation("V1", pod.name, change.at, told)
        if change.verb != CREATED or change.actor != OPERATOR:
            return
        specs = job.specs_since(change.at - self._under_way)
        if all(words.counts(job.plural, spec).get(pod.role, 0) <= pod.index for spec in specs):
            yield Violation("V1", pod.name, change.at, f"made, though {job.title} has long had no seat for it")
        if not all(restarts_whole(job.plural, spec) for spec in specs):
            return
        known = (other for other in others if other.role == pod.role and not other.astray)
        if earlier := [other.name for other in known if other.attempt < pod.attempt]:
            told = f"made for attempt {pod.attempt} while {', '.join(earlier)} of an earlier one are still there"
            yield Violation("V1", pod.name, change.at, told)


def restarts_whole(plural: str, job: Object) -> bool:
    """Whether all members of this job restart together: as its annotation says, or as its framework needs."""
    told = (words.meta(job).get("annotations") or {}).get(words.SCOPE, "Auto")
    if told != "Auto":
        return bool(told == "Job")
    spec = job.get("spec") or {}
    if plural == "tfjobs":
        return "ps" not in words.replicas(plural, job) and not spec.get("enableDynamicWorker")
    if plural == "pytorchjobs":
        return not spec.get("elasticPolicy")
    return plural != "mpijobs"  # one that discovers its hosts does not, and only its command says so
