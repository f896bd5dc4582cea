"""V5: a terminal condition has a cause: the ends of the job's own pods, a deadline, or a limit."""

from __future__ import annotations

import re
from collections.abc import Iterator

from . import api_fields
from .change import DELETED, USER, Change, Object, Violation
from .records import JobRecord, PodRecord, Records

#: The annotation with which a disrupted pod fails its job.
ON_DISRUPTION = "trainshed.dev/on-disruption"
#: The annotation with the seconds within which a pod must run, or its job fails.
STARTUP, UNITS = "trainshed.dev/startup-deadline", {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
#: Exit codes from here on are retried under the restart policy ExitCode.
RETRYABLE = 128
#: The default restart policies of v1 by role.
DEFAULT = {"pytorchjobs": "OnFailure", "paddlejobs": "OnFailure"}


class TerminalCauses:
    """Checks the cause of each new terminal condition."""

    def on_change(self, change: Change, records: Records) -> Iterator[Violation]:
        """Check the first version of a job that has a terminal condition."""
        if change.plural not in api_fields.JOBS or change.verb == DELETED or change.actor == USER:
            return
        assert change.after is not None
        before, after, job = change.before or {}, change.after, records.jobs[api_fields.uid(change.after)]
        if job.forged or any(api_fields.condition(before, kind) for kind in api_fields.OVER):
            return
        specs = [spec for _, spec in job.specs]
        if api_fields.condition(after, "Succeeded") and not any(_won(job, spec) for spec in specs):
            message = "Succeeded, though its success policy is not met: " + _seen(job)
            yield Violation("V5", job.title, change.at, message)
        if api_fields.condition(after, "Failed") and not any(
            _lost(job, spec, _decided_at(before, after)) for spec in specs
        ):
            yield Violation("V5", job.title, change.at, "Failed without a cause: " + _seen(job))


def _seen(job: JobRecord) -> str:
    message = (
        "ended" if pod.succeeded or pod.failed else "alive" if pod.alive else "gone" for pod in job.pods.values()
    )
    return ", ".join(f"{pod.name} {how} {pod.codes}" for pod, how in zip(job.pods.values(), message, strict=True))


def deciders(job: JobRecord, spec: Object) -> tuple[str, frozenset[int], bool]:
    """Return the role and the indexes that define success, and whether one of them is enough, by v1's rules."""
    counts, message = api_fields.counts(job.plural, spec), spec.get("spec") or {}
    for leader in ("launcher", "chief", "master"):
        if leader in counts:
            return leader, frozenset(range(counts[leader])), False
    workers = frozenset(range(counts.get("worker", 0)))
    if job.plural == "tfjobs":
        return "worker", workers if message.get("successPolicy") == "AllWorkers" else frozenset((0,)), False
    return "worker", workers, job.plural == "pytorchjobs" and bool(message.get("elasticPolicy"))


def _won(job: JobRecord, spec: Object) -> bool:
    role, wanted, one = deciders(job, spec)
    attempt = job.attempts.get(role, 0)
    winners = {pod.index for pod in job.pods.values() if pod.role == role and pod.succeeded and pod.attempt >= attempt}
    if not wanted:
        return False
    everyone = frozenset(range(api_fields.counts(job.plural, spec).get(role, 0)))
    return bool(winners & wanted) if one else winners >= wanted or winners >= everyone


def _decided_at(before: Object, after: Object) -> float | None:
    """Return when the end was decided by the operator's clock: of a job of a queue, when it was announced."""
    announced = api_fields.status(before).get("ending")
    end = announced["lastTransitionTime"] if announced else api_fields.status(after).get("completionTime")
    return api_fields.seconds(end) if end else None


def _lost(job: JobRecord, spec: Object, end: float | None) -> bool:
    policy, status = api_fields.policy(spec), api_fields.status(job.document)
    if _expired(policy.get("activeDeadlineSeconds"), status, end):
        return True
    pods = job.pods.values()
    if _exhausted(job, policy.get("backoffLimit")):
        return True
    if (api_fields.meta(spec).get("annotations") or {}).get(ON_DISRUPTION) == "Fail" and any(pod.taken for pod in pods):
        return True
    if _unstarted(job, (api_fields.meta(spec).get("annotations") or {}).get(STARTUP), end):
        return True
    return any(_permanent(pod, job, spec) for pod in pods) or (not pods and "startTime" not in api_fields.status(spec))


def _expired(limit: object, status: Object, end: float | None) -> bool:
    if limit is None or "startTime" not in status or end is None:
        return False
    lasted = end - api_fields.seconds(status["startTime"])
    return lasted >= float(str(limit)) - 1


def _unstarted(job: JobRecord, limit: str | None, end: float | None) -> bool:
    """Return whether a pod is older than the start-up deadline, in an annotation such as `1m30s`."""
    if limit is None or end is None:
        return False
    seconds = sum(float(number) * UNITS[unit] for number, unit in re.findall(r"([\d.]+)(ms|[hms])", limit))
    return any(end - pod.born >= seconds - 1 for pod in job.pods.values())


def _exhausted(job: JobRecord, limit: object) -> bool:
    if limit is None:
        # Without a limit of its own an MPIJob of v2beta1 has one of six.
        limit = 6 if job.document.get("apiVersion") == "kubeflow.org/v2beta1" else None
    if limit is None:
        return False
    tries = sum(pod.restarts for pod in job.pods.values())
    failures = sum(1 for pod in job.pods.values() if pod.countable or (job.plural == "mpijobs" and pod.succeeded))
    return tries >= max(int(str(limit)), 1) or failures > int(str(limit))


def _permanent(pod: PodRecord, job: JobRecord, spec: Object) -> bool:
    message = api_fields.replicas(job.plural, spec).get(pod.role, {}).get("restartPolicy") or DEFAULT.get(
        job.plural, "Never"
    )
    # A worker of an MPIJob that exited, or started again, before its launcher did, has failed with code 0.
    deserted = job.plural == "mpijobs" and (pod.succeeded or pod.restarts > 0)
    if message == "Never":
        return pod.countable or deserted
    return message == "ExitCode" and (deserted or (pod.countable and any(code < RETRYABLE for code in pod.codes)))
