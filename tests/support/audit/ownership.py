"""V6: the operator changes only objects of jobs, and of jobs themselves only the status."""

from __future__ import annotations

from collections.abc import Iterator

from . import api_fields
from .change import CREATED, DELETED, OPERATOR, Change, Object, Violation
from .records import NEVER, JobRecord, Records

#: Fields that the server itself changes with every write.
MOVING = ("resourceVersion", "managedFields", "generation")
#: The accuracy of the times in a status in seconds: they have whole seconds.
ROUNDING = 1.0
#: Seconds for which a request, or the watch event that would have prevented it, may be under way. Deletes name the uid
#: and not the version: a pod whose status changes all the time could otherwise never be deleted.
IN_FLIGHT = 20.0


class Ownership:
    """Checks each write of the operator. It deletes a job only after its TTL, plus or minus `skew` seconds."""

    def __init__(self, skew: float = 0.0) -> None:
        self._slack = ROUNDING + skew

    def on_change(self, change: Change, records: Records) -> Iterator[Violation]:
        """Check the owner of the object that the operator changed."""
        if change.actor != OPERATOR or change.plural in api_fields.EXEMPT:
            return
        if message := self._wrong(change, records):
            yield Violation("V6", api_fields.title(change.plural, change.object), change.at, message)

    def _wrong(self, change: Change, records: Records) -> str:
        if change.plural in api_fields.JOBS:
            return self._job(change, records.jobs[api_fields.uid(change.object)])
        whose = change.before if change.before is not None else change.object
        owner = api_fields.owner(whose) or api_fields.recorded(whose)
        if not owner:
            return "" if _allowed(change, records) else f"{change.verb} by the operator, and no job controls it"
        job = records.jobs.get(owner)
        if job is None:
            return f"{change.verb} by the operator for a job {owner} that never was"
        if api_fields.meta(job.document).get("namespace") != api_fields.meta(whose).get("namespace"):
            return f"{change.verb} by the operator for {job.title}, which lives elsewhere"
        return "cleaned up by the operator though it had ended" if _stays(change, job) else ""

    def _job(self, change: Change, job: JobRecord) -> str:
        if change.verb == CREATED:
            return "the operator has made a job"
        if change.verb == DELETED or change.requests_deletion:
            return self._early(change, job)
        assert change.before is not None
        assert change.after is not None
        same = _without_status(change.before) == _without_status(change.after)
        return "" if same else "the operator has changed more of a job than its status"

    def _early(self, change: Change, job: JobRecord) -> str:
        ttl, end = api_fields.policy(job.document).get("ttlSecondsAfterFinished"), api_fields.status(job.document)
        if ttl is None or "completionTime" not in end:
            return "deleted by the operator without a reason"
        due = api_fields.seconds(end["completionTime"]) + float(ttl)
        return f"deleted {due - change.at:.1f} s before its time" if change.at < due - self._slack else ""


def _stays(change: Change, job: JobRecord) -> bool:
    """Return whether cleanPodPolicy Running keeps it, or None at a limit: a pod that has ended, of a job that is over.

    One of an attempt that was given up was to go for that, whatever has become of the job since.
    """
    pod = job.pods.get(api_fields.uid(change.object))
    if pod is None or not change.requests_deletion or job.given_up(pod):
        return False
    policy = api_fields.clean_pod_policy(job.document)
    running = policy == "Running" or (policy == "None" and api_fields.limited(job.document))
    return job.over and running and api_fields.phase(change.before or {}) in api_fields.OVER


def _allowed(change: Change, records: Records) -> bool:
    """Return whether it removes its own finalizer from an object without owner, or with one at the request."""
    let_go = api_fields.held(change.before or {}) and not api_fields.held(change.after or {})
    since = change.at - records.released.get(api_fields.uid(change.object), NEVER)
    return let_go or since <= IN_FLIGHT + records.watch_silence


def _without_status(job: Object) -> Object:
    meta = {key: value for key, value in api_fields.meta(job).items() if key not in MOVING}
    return {**{key: value for key, value in job.items() if key != "status"}, "metadata": meta}
