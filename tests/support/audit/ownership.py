"""V6: the operator changes nothing that is not its own, and of the jobs themselves only the status."""

from __future__ import annotations

from collections.abc import Iterator

from . import words
from .change import CREATED, DELETED, OPERATOR, Change, Object, Violation
from .ledger import NEVER, JobFile, Ledger

#: What the server itself moves with every change.
MOVING = ("resourceVersion", "managedFields", "generation")
#: Seconds by which the times in a status may be off: they are whole ones.
ROUNDING = 1.0
#: Seconds that a request may take on its way, and the watch that would have told better. Deletions name the uid and
#: not the version that was seen: a pod that its kubelet is busy with could otherwise never be deleted.
UNDER_WAY = 20.0


class Strangers:
    """Looks at whatever the operator does. A job goes by it at its time only, plus or minus `skew` seconds."""

    def __init__(self, skew: float = 0.0) -> None:
        self._slack = ROUNDING + skew

    def hear(self, change: Change, ledger: Ledger) -> Iterator[Violation]:
        """Ask of a change of the operator's whose object that is."""
        if change.actor != OPERATOR or change.plural in words.EXEMPT:
            return
        if told := self._wrong(change, ledger):
            yield Violation("V6", words.title(change.plural, change.object), change.at, told)

    def _wrong(self, change: Change, ledger: Ledger) -> str:
        if change.plural in words.JOBS:
            return self._job(change, ledger.jobs[words.uid(change.object)])
        whose = change.before if change.before is not None else change.object
        owner = words.owner(whose)
        if not owner:
            return "" if _allowed(change, ledger) else f"{change.verb} by the operator, and no job controls it"
        job = ledger.jobs.get(owner)
        if job is None:
            return f"{change.verb} by the operator for a job {owner} that never was"
        if words.meta(job.document).get("namespace") != words.meta(whose).get("namespace"):
            return f"{change.verb} by the operator for {job.title}, which lives elsewhere"
        return "cleaned up by the operator though it had ended" if _stays(change, job) else ""

    def _job(self, change: Change, job: JobFile) -> str:
        if change.verb == CREATED:
            return "the operator has made a job"
        if change.verb == DELETED or change.vanishing:
            return self._early(change, job)
        assert change.before is not None
        assert change.after is not None
        same = _without_status(change.before) == _without_status(change.after)
        return "" if same else "the operator has changed more of a job than its status"

    def _early(self, change: Change, job: JobFile) -> str:
        ttl, end = words.policy(job.document).get("ttlSecondsAfterFinished"), words.status(job.document)
        if ttl is None or "completionTime" not in end:
            return "deleted by the operator, and nobody had asked for that"
        due = words.seconds(end["completionTime"]) + float(ttl)
        return f"deleted {due - change.at:.1f} s before its time" if change.at < due - self._slack else ""


def _stays(change: Change, job: JobFile) -> bool:
    """Whether cleanPodPolicy Running spares it, or None at a limit: a pod that has ended, of a job that is over.

    One of an attempt that was given up was to go for that, whatever has become of the job since.
    """
    pod = job.pods.get(words.uid(change.object))
    if pod is None or not change.vanishing or job.given_up(pod):
        return False
    policy = words.clean_pod_policy(job.document)
    running = policy == "Running" or (policy == "None" and words.limited(job.document))
    return job.over and running and words.phase(change.before or {}) in words.OVER


def _allowed(change: Change, ledger: Ledger) -> bool:
    """Whether it takes its own finalizer off what has lost its owner, or that had one when it was asked for."""
    let_go = words.held(change.before or {}) and not words.held(change.after or {})
    since = change.at - ledger.released.get(words.uid(change.object), NEVER)
    return let_go or since <= UNDER_WAY + ledger.deaf


def _without_status(job: Object) -> Object:
    meta = {key: value for key, value in words.meta(job).items() if key not in MOVING}
    return {**{key: value for key, value in job.items() if key != "status"}, "metadata": meta}
