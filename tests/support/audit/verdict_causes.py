"""V5: a verdict is justified by what the job's own pods have done, by a time that was up, or by a limit reached."""

from __future__ import annotations

import re
from collections.abc import Iterator

from . import words
from .change import DELETED, USER, Change, Object, Violation
from .ledger import JobFile, Ledger, PodFile

#: An annotation: that a pod that is taken away fails its job.
ON_DISRUPTION = "trainshed.dev/on-disruption"
#: An annotation: the seconds within which a pod must run, or its job fails.
STARTUP, UNITS = "trainshed.dev/startup-deadline", {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
#: Exit codes from here on are worth another try under the restart policy ExitCode.
RETRYABLE = 128
#: What a role's restart policy is if nothing is said: v1's.
DEFAULT = {"pytorchjobs": "OnFailure", "paddlejobs": "OnFailure"}


class Justice:
    """Asks of each new verdict why it was given."""

    def hear(self, change: Change, ledger: Ledger) -> Iterator[Violation]:
        """Look at a version of a job that has a verdict for the first time."""
        if change.plural not in words.JOBS or change.verb == DELETED or change.actor == USER:
            return
        assert change.after is not None
        before, after, job = change.before or {}, change.after, ledger.jobs[words.uid(change.after)]
        if job.forged or any(words.condition(before, kind) for kind in words.OVER):
            return
        specs = [spec for _, spec in job.specs]
        if words.condition(after, "Succeeded") and not any(_won(job, spec) for spec in specs):
            told = "Succeeded, and those who decide have not: " + _seen(job)
            yield Violation("V5", job.title, change.at, told)
        if words.condition(after, "Failed") and not any(_lost(job, spec) for spec in specs):
            yield Violation("V5", job.title, change.at, "Failed, and nothing says why: " + _seen(job))


def _seen(job: JobFile) -> str:
    told = ("ended" if pod.succeeded or pod.failed else "alive" if pod.alive else "gone" for pod in job.pods.values())
    return ", ".join(f"{pod.name} {how} {pod.codes}" for pod, how in zip(job.pods.values(), told, strict=True))


def deciders(job: JobFile, spec: Object) -> tuple[str, frozenset[int], bool]:
    """Whose success is the job's: their role, their indexes, and whether one of them is enough. v1's rules."""
    counts, told = words.counts(job.plural, spec), spec.get("spec") or {}
    for leader in ("launcher", "chief", "master"):
        if leader in counts:
            return leader, frozenset(range(counts[leader])), False
    workers = frozenset(range(counts.get("worker", 0)))
    if job.plural == "tfjobs":
        return "worker", workers if told.get("successPolicy") == "AllWorkers" else frozenset((0,)), False
    return "worker", workers, job.plural == "pytorchjobs" and bool(told.get("elasticPolicy"))


def _won(job: JobFile, spec: Object) -> bool:
    role, wanted, one = deciders(job, spec)
    attempt = job.attempts.get(role, 0)
    winners = {pod.index for pod in job.pods.values() if pod.role == role and pod.succeeded and pod.attempt >= attempt}
    if not wanted:
        return False
    everyone = frozenset(range(words.counts(job.plural, spec).get(role, 0)))
    return bool(winners & wanted) if one else winners >= wanted or winners >= everyone


def _lost(job: JobFile, spec: Object) -> bool:
    policy, status = words.policy(spec), words.status(job.document)
    if _expired(policy.get("activeDeadlineSeconds"), status):
        return True
    pods = job.pods.values()
    if _exhausted(job, policy.get("backoffLimit")):
        return True
    if (words.meta(spec).get("annotations") or {}).get(ON_DISRUPTION) == "Fail" and any(pod.taken for pod in pods):
        return True
    if _unstarted(job, (words.meta(spec).get("annotations") or {}).get(STARTUP)):
        return True
    return any(_permanent(pod, job, spec) for pod in pods) or (not pods and "startTime" not in words.status(spec))


def _expired(limit: object, status: Object) -> bool:
    if limit is None or "startTime" not in status or "completionTime" not in status:
        return False
    lasted = words.seconds(status["completionTime"]) - words.seconds(status["startTime"])
    return lasted >= float(str(limit)) - 1


def _unstarted(job: JobFile, limit: str | None) -> bool:
    """Whether a pod was made so long ago, by an annotation such as `1m30s`, that it may have missed its deadline."""
    if limit is None or "completionTime" not in words.status(job.document):
        return False
    seconds = sum(float(number) * UNITS[unit] for number, unit in re.findall(r"([\d.]+)(ms|[hms])", limit))
    end = words.seconds(words.status(job.document)["completionTime"])
    return any(end - pod.born >= seconds - 1 for pod in job.pods.values())


def _exhausted(job: JobFile, limit: object) -> bool:
    if limit is None:
        # Without a limit of its own an MPIJob of v2beta1 has one of six.
        limit = 6 if job.document.get("apiVersion") == "kubeflow.org/v2beta1" else None
    if limit is None:
        return False
    tries = sum(pod.restarts for pod in job.pods.values())
    failures = sum(1 for pod in job.pods.values() if pod.countable or (job.plural == "mpijobs" and pod.succeeded))
    return tries >= max(int(str(limit)), 1) or failures > int(str(limit))


def _permanent(pod: PodFile, job: JobFile, spec: Object) -> bool:
    told = words.replicas(job.plural, spec).get(pod.role, {}).get("restartPolicy") or DEFAULT.get(job.plural, "Never")
    # A worker of an MPIJob that was done, or began again, before its launcher was, has failed with code 0.
    deserted = job.plural == "mpijobs" and (pod.succeeded or pod.restarts > 0)
    if told == "Never":
        return pod.countable or deserted
    return told == "ExitCode" and (deserted or (pod.countable and any(code < RETRYABLE for code in pod.codes)))
