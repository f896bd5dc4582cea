"""V3: counters only rise, are stored before the deletes that they justify, and count every failure that counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from . import api_fields
from .change import OPERATOR, USER, Change, Violation
from .records import IN_FLIGHT, JobRecord, PodRecord, Records


class Counters:
    """Compares each status with the one before, and each pod that the operator deletes with the stored status."""

    def on_change(self, change: Change, records: Records) -> Iterator[Violation]:
        if change.plural in api_fields.JOBS and change.before and change.after and change.actor != USER:
            job = records.jobs[api_fields.uid(change.after)]
            for message in (*_wrong(change, job), *_beyond(change, job)):
                yield Violation("V3", job.title, change.at, message)
        elif change.plural == "pods" and change.actor == OPERATOR and change.requests_deletion:
            known = records.job(change)
            pod = known.pods.get(api_fields.uid(change.object)) if known else None
            if known and pod and pod.made and not _justified(pod, known):
                message = f"deleted by the operator, though nothing that is stored in {known.title} says why"
                yield Violation("V3", pod.name, change.at, message)

    def close(self, records: Records, injected: Mapping[str, tuple[int, int]], at: float) -> Iterator[Violation]:
        """Compare the counts with the injected failures: their minimum and maximum, by the job's uid."""
        for uid, (least, most) in injected.items():
            job = records.jobs[uid]
            used = int(api_fields.status(job.document).get("restarts", 0))
            if not least <= used <= most and not job.forged:
                message = f"{used} restarts are counted, where there were {least} to {most} failures to count"
                yield Violation("V3", job.title, at, message)


def _wrong(change: Change, job: JobRecord) -> Iterator[str]:
    before, after = api_fields.status(change.before or {}), api_fields.status(change.after or {})
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


def _beyond(change: Change, job: JobRecord) -> Iterator[str]:
    """Return whether a restart beyond the back-off limit was counted; a lowered limit counts from then on."""
    was, now = (int(api_fields.status(one or {}).get("restarts", 0)) for one in (change.before, change.after))
    limits = [api_fields.policy(spec).get("backoffLimit") for spec in job.specs_since(change.at - IN_FLIGHT)]
    if now > was and not job.forged and all(limit is not None and now > int(limit) for limit in limits):
        yield f"{now} restarts are counted, where the back-off limit is {max(map(int, limits))}"


def _forgotten(change: Change, job: JobRecord, attempts: Mapping[str, int]) -> Iterator[str]:
    """Return the completed indexes that were removed though neither the role nor the job was restarted."""
    before, after = api_fields.status(change.before or {}), api_fields.status(change.after or {})
    if job.over or job.forged or api_fields.condition(change.before or {}, "Suspended"):
        return
    counts = api_fields.counts(job.plural, job.document)
    for role, tally in (before.get("replicaStatuses") or {}).items():
        now = (after.get("replicaStatuses") or {}).get(role) or {}
        done, still = (api_fields.indexes(str(one.get("completedIndexes", ""))) for one in (tally, now))
        lost = sorted(index for index in done - still if index < counts.get(role.lower(), 0))
        if lost and attempts.get(role, 0) == int((before.get("attempts") or {}).get(role, 0)):
            yield f"it is forgotten that {role} {lost} had succeeded"


def _countable(job: JobRecord) -> int:
    """Return how many pods have failed by themselves, with the workers of an MPIJob that end before its launcher."""
    early_exits = job.plural == "mpijobs"
    return sum(1 for pod in job.pods.values() if pod.countable or (early_exits and (pod.succeeded or pod.restarts)))


def _justified(pod: PodRecord, job: JobRecord) -> bool:
    if job.gone is not None or "deletionTimestamp" in api_fields.meta(job.document) or job.over or job.forged:
        return True
    return job.suspended >= pod.born or pod.uid in job.replaced or job.given_up(pod) or job.was_surplus(pod)
