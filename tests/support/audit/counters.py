"""V3: counters only rise, are stored before the deletes that they justify, and count what there was to count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from . import words
from .change import OPERATOR, USER, Change, Violation
from .ledger import UNDER_WAY, JobFile, Ledger, PodFile


class Counters:
    """Compares each status with the one before, and each pod that the operator takes away with what is stored."""

    def hear(self, change: Change, ledger: Ledger) -> Iterator[Violation]:
        """Look at a change of a job's status, or at the deletion of a pod."""
        if change.plural in words.JOBS and change.before and change.after and change.actor != USER:
            job = ledger.jobs[words.uid(change.after)]
            for told in (*_wrong(change, job), *_beyond(change, job)):
                yield Violation("V3", job.title, change.at, told)
        elif change.plural == "pods" and change.actor == OPERATOR and change.vanishing:
            known = ledger.job(change)
            pod = known.pods.get(words.uid(change.object)) if known else None
            if known and pod and pod.made and not _justified(pod, known):
                told = f"deleted by the operator, though nothing that is stored in {known.title} says why"
                yield Violation("V3", pod.name, change.at, told)

    def close(self, ledger: Ledger, injected: Mapping[str, tuple[int, int]], at: float) -> Iterator[Violation]:
        """Compare the counts with the failures that were injected: at least and at most so many, by the job's uid."""
        for uid, (least, most) in injected.items():
            job = ledger.jobs[uid]
            used = int(words.status(job.document).get("restarts", 0))
            if not least <= used <= most and not job.forged:
                told = f"{used} restarts are counted, where there were {least} to {most} failures to count"
                yield Violation("V3", job.title, at, told)


def _wrong(change: Change, job: JobFile) -> Iterator[str]:
    before, after = words.status(change.before or {}), words.status(change.after or {})
    if before is after or before == after:
        return
    was, now = int(before.get("restarts", 0)), int(after.get("restarts", 0))
    if now < was:
        yield f"the count of restarts went back from {was} to {now}"
    if now > was and not job.forged and now > (there := _countable(job)):
        yield f"{now} restarts are counted, where {there} pods have failed"
    attempts = {str(role): int(count) for role, count in (after.get("attempts") or {}).items()}
    for role, count in (before.get("attempts") or {}).items():
        if attempts.get(role, 0) < int(count):
            yield f"the attempt of {role} went back from {count} to {attempts.get(role, 0)}"
    yield from _forgotten(change, job, attempts)


def _beyond(change: Change, job: JobFile) -> Iterator[str]:
    """Whether a restart was counted that the back-off limit does not allow; one that was lowered holds from then on."""
    was, now = (int(words.status(one or {}).get("restarts", 0)) for one in (change.before, change.after))
    limits = [words.policy(spec).get("backoffLimit") for spec in job.specs_since(change.at - UNDER_WAY)]
    if now > was and not job.forged and all(limit is not None and now > int(limit) for limit in limits):
        yield f"{now} restarts are counted, where the back-off limit is {max(map(int, limits))}"


def _forgotten(change: Change, job: JobFile, attempts: Mapping[str, int]) -> Iterator[str]:
    """Who had succeeded, and has not any more, though neither their role nor the job has begun anew."""
    before, after = words.status(change.before or {}), words.status(change.after or {})
    if job.over or job.forged or words.condition(change.before or {}, "Suspended"):
        return
    counts = words.counts(job.plural, job.document)
    for role, tally in (before.get("replicaStatuses") or {}).items():
        now = (after.get("replicaStatuses") or {}).get(role) or {}
        done, still = (words.indexes(str(one.get("completedIndexes", ""))) for one in (tally, now))
        lost = sorted(index for index in done - still if index < counts.get(role.lower(), 0))
        if lost and attempts.get(role, 0) == int((before.get("attempts") or {}).get(role, 0)):
            yield f"it is forgotten that {role} {lost} had succeeded"


def _countable(job: JobFile) -> int:
    """How many pods have failed by themselves. A worker of an MPIJob that ends before its launcher has failed, too."""
    deserters = job.plural == "mpijobs"
    return sum(1 for pod in job.pods.values() if pod.countable or (deserters and (pod.succeeded or pod.restarts)))


def _justified(pod: PodFile, job: JobFile) -> bool:
    if job.gone is not None or "deletionTimestamp" in words.meta(job.document) or job.over or job.forged:
        return True
    return job.suspended >= pod.born or pod.uid in job.replaced or job.given_up(pod) or job.unseated(pod)
