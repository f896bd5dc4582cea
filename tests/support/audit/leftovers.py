"""V2: when all is quiet nothing is left of what is gone, and what was asked for is there."""

from __future__ import annotations

from collections.abc import Iterator

from . import words
from .change import CREATED, OPERATOR, Change, Object, Violation
from .ledger import JobFile, Ledger


class Leftovers:
    """Looks at finalizers and at members that were done as they come, and at everything once all is quiet."""

    def hear(self, change: Change, ledger: Ledger) -> Iterator[Violation]:
        """Nothing but a pod bears a finalizer of ours, and nobody who is done is made again."""
        about = words.title(change.plural, change.object)
        if change.plural != "pods":
            if words.held(change.after or {}):
                yield Violation("V2", about, change.at, "it bears a finalizer of the operator")
            return
        job = ledger.job(change)
        if change.actor != OPERATOR or change.verb != CREATED or job is None or job.gone is not None or job.forged:
            return
        if any(words.OURS not in one for one in words.meta(change.object).get("finalizers") or ()):
            yield Violation("V2", about, change.at, "the operator made it with a finalizer of somebody else's")
        if _done_already(change.object, job):
            yield Violation("V9", about, change.at, f"made again, though {job.title} has stored that it is done")
        if _kept(change.object, job):
            yield Violation("V9", about, change.at, "made again, though it had succeeded and was held for that")

    def close(self, ledger: Ledger, at: float) -> Iterator[Violation]:
        """Look at all that is there, now that nothing happens any more."""
        for (plural, _, _), found in ledger.objects.items():
            owner = words.owner(found)
            if not owner or plural in words.EXEMPT:
                continue
            job = ledger.jobs.get(owner)
            if words.held(found) and (job is None or job.gone is not None or job.over):
                yield Violation("V2", words.title(plural, found), at, "a finalizer of the operator is left on it")
            if told := _unwanted(plural, found, job):
                yield Violation("V2", words.title(plural, found), at, told)
        for job in ledger.jobs.values():
            for told in _wanting(job, ledger) if job.gone is None else ():
                yield Violation("V2", job.title, at, told)


def _kept(pod: Object, job: JobFile) -> bool:
    """Whether one before it has succeeded in the same attempt while our finalizer kept it, and kept its seat."""
    seat, attempt = words.seat(pod), words.attempt(pod)
    kept = (one for one in job.pods.values() if one.kept and (one.role, one.index) == seat)
    return job.resumed < job.born and any(one.attempt >= attempt and not job.unseated(one) for one in kept)


def _done_already(pod: Object, job: JobFile) -> bool:
    role, index = words.seat(pod) or ("", -1)
    tallies = words.status(job.document).get("replicaStatuses") or {}
    done = {role.lower(): words.indexes(str(tally.get("completedIndexes", ""))) for role, tally in tallies.items()}
    return index in done.get(role, set()) and words.attempt(pod) <= job.attempts.get(role, 0)


def _unwanted(plural: str, found: Object, job: JobFile | None) -> str:
    if job is None or job.gone is not None:
        return "its job is gone"
    if plural != "pods" or "deletionTimestamp" in words.meta(found):
        return ""
    if words.condition(job.document, "Suspended") and not job.over:
        return f"{job.title} is suspended"
    if job.over:
        return _after_verdict(found, job)
    role, index = words.seat(found) or ("", -1)
    surplus = index >= words.counts(job.plural, job.document).get(role, 0)
    return f"{job.title} has no seat for it any more" if surplus else ""


def _after_verdict(pod: Object, job: JobFile) -> str:
    told = words.clean_pod_policy(job.document)
    if told == "None" and words.limited(job.document) and not job.forged:
        stays = words.phase(pod) in words.OVER or _all_ended(pod)
        return "" if stays else f"{job.title} has reached a limit, and it still runs"
    if told == "None" or (words.seat(pod) or ("",))[0] == "launcher":
        return ""
    stays = told == "Running" and words.phase(pod) in words.OVER
    return "" if stays else f"{job.title} is over, and its cleanPodPolicy is {told}"


def _all_ended(pod: Object) -> bool:
    """Whether no container runs; a kubelet says so of the containers before it does of the pod."""
    states = [one.get("state") or {} for one in words.containers(pod)]
    return bool(states) and all("terminated" in state for state in states)


def _wanting(job: JobFile, ledger: Ledger) -> Iterator[str]:
    """What a job that runs lacks. One that is blocked says so, and one that waits for its next try will have it."""
    document, policy = job.document, words.policy(job.document)
    managed = policy.get("managedBy") not in (None, "", "kubeflow.org/training-operator")
    if managed or job.over or words.condition(document, "Blocked") or "deletionTimestamp" in words.meta(document):
        return
    if bool(policy.get("suspend")) != words.condition(document, "Suspended"):
        yield f"suspend is {bool(policy.get('suspend'))}, and its status does not say so"
        return
    if policy.get("suspend"):
        return
    namespace, name = words.meta(document).get("namespace"), words.meta(document).get("name")
    tallies = {role.lower(): tally for role, tally in (words.status(document).get("replicaStatuses") or {}).items()}
    for role, count in words.counts(job.plural, document).items():
        done = words.indexes(str(tallies.get(role, {}).get("completedIndexes", "")))
        names = ((i, f"{name}-{role}" if role == "launcher" else f"{name}-{role}-{i}") for i in range(count))
        absent = [title for i, title in names if i not in done and ("pods", namespace, title) not in ledger.objects]
        if absent:
            yield f"it runs without {', '.join(absent)}"
