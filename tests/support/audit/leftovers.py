"""V2: at the end nothing is left of deleted jobs, and all objects that jobs need exist."""

from __future__ import annotations

from collections.abc import Iterator

from . import api_fields
from .change import CREATED, OPERATOR, Change, Object, Violation
from .records import JobRecord, Records


class Leftovers:
    """Checks finalizers and repeated replicas at every change, and all objects in the end."""

    def on_change(self, change: Change, records: Records) -> Iterator[Violation]:
        """Check that only pods have the operator's finalizer, and that no completed replica is created again."""
        about = api_fields.title(change.plural, change.object)
        if change.plural != "pods":
            if api_fields.held(change.after or {}):
                yield Violation("V2", about, change.at, "it bears a finalizer of the operator")
            return
        job = records.job(change)
        if change.actor != OPERATOR or change.verb != CREATED or job is None or job.gone is not None or job.forged:
            return
        if any(api_fields.OPERATOR_DOMAIN not in one for one in api_fields.meta(change.object).get("finalizers") or ()):
            yield Violation("V2", about, change.at, "the operator created it with a finalizer that is not its own")
        if _done_already(change.object, job):
            yield Violation("V9", about, change.at, f"created again, though {job.title} has stored that it is done")
        if _kept(change.object, job):
            yield Violation("V9", about, change.at, "created again, though it had succeeded and was held for that")

    def close(self, records: Records, at: float) -> Iterator[Violation]:
        """Check all objects, once nothing changes any more."""
        for (plural, _, _), found in records.objects.items():
            owner = api_fields.owner(found)
            if not owner or plural in api_fields.EXEMPT:
                continue
            job = records.jobs.get(owner)
            if api_fields.held(found) and (job is None or job.gone is not None or job.over):
                yield Violation("V2", api_fields.title(plural, found), at, "a finalizer of the operator is left on it")
            if message := _unwanted(plural, found, job):
                yield Violation("V2", api_fields.title(plural, found), at, message)
        for job in records.jobs.values():
            for message in _wanting(job, records) if job.gone is None else ():
                yield Violation("V2", job.title, at, message)


def _kept(pod: Object, job: JobRecord) -> bool:
    """Return whether an earlier pod of the replica succeeded in the same attempt and had the operator's finalizer."""
    replica, attempt = api_fields.replica_of(pod), api_fields.attempt(pod)
    kept = (one for one in job.pods.values() if one.kept and (one.role, one.index) == replica)
    return job.resumed < job.born and any(one.attempt >= attempt and not job.was_surplus(one) for one in kept)


def _done_already(pod: Object, job: JobRecord) -> bool:
    role, index = api_fields.replica_of(pod) or ("", -1)
    tallies = api_fields.status(job.document).get("replicaStatuses") or {}
    done = {role.lower(): api_fields.indexes(str(tally.get("completedIndexes", ""))) for role, tally in tallies.items()}
    return index in done.get(role, set()) and api_fields.attempt(pod) <= job.attempts.get(role, 0)


def _unwanted(plural: str, found: Object, job: JobRecord | None) -> str:
    if job is None or job.gone is not None:
        return "its job is gone"
    if plural != "pods" or "deletionTimestamp" in api_fields.meta(found):
        return ""
    if api_fields.condition(job.document, "Suspended") and not job.over:
        return f"{job.title} is suspended"
    if job.over:
        ending = any(api_fields.condition(job.document, kind) for kind in api_fields.ENDING)
        return f"{job.title} still ends" if ending else _after_verdict(found, job)
    role, index = api_fields.replica_of(found) or ("", -1)
    surplus = index >= api_fields.counts(job.plural, job.document).get(role, 0)
    return f"{job.title} does not need it any more" if surplus else ""


def _after_verdict(pod: Object, job: JobRecord) -> str:
    message = api_fields.clean_pod_policy(job.document)
    if message == "None" and api_fields.limited(job.document) and not job.forged:
        stays = api_fields.phase(pod) in api_fields.OVER or _all_ended(pod)
        return "" if stays else f"{job.title} has reached a limit, and it still runs"
    if message == "None" or (api_fields.replica_of(pod) or ("",))[0] == "launcher":
        return ""
    stays = message == "Running" and api_fields.phase(pod) in api_fields.OVER
    return "" if stays else f"{job.title} is over, and its cleanPodPolicy is {message}"


def _all_ended(pod: Object) -> bool:
    """Return whether no container runs; a kubelet reports it for the containers before the pod."""
    states = [one.get("state") or {} for one in api_fields.containers(pod)]
    return bool(states) and all("terminated" in state for state in states)


def _wanting(job: JobRecord, records: Records) -> Iterator[str]:
    """Yield the missing objects of a running job, unless it is blocked or waits for its next retry."""
    document, policy = job.document, api_fields.policy(job.document)
    managed = policy.get("managedBy") not in (None, "", "kubeflow.org/training-operator")
    if (
        managed
        or job.over
        or api_fields.condition(document, "Blocked")
        or "deletionTimestamp" in api_fields.meta(document)
    ):
        return
    if bool(policy.get("suspend")) != api_fields.condition(document, "Suspended"):
        yield f"suspend is {bool(policy.get('suspend'))}, and its status does not say so"
        return
    if policy.get("suspend"):
        return
    namespace, name = api_fields.meta(document).get("namespace"), api_fields.meta(document).get("name")
    tallies = {
        role.lower(): tally for role, tally in (api_fields.status(document).get("replicaStatuses") or {}).items()
    }
    for role, count in api_fields.counts(job.plural, document).items():
        done = api_fields.indexes(str(tallies.get(role, {}).get("completedIndexes", "")))
        names = ((i, f"{name}-{role}" if role == "launcher" else f"{name}-{role}-{i}") for i in range(count))
        absent = [title for i, title in names if i not in done and ("pods", namespace, title) not in records.objects]
        if absent:
            yield f"it runs without {', '.join(absent)}"
