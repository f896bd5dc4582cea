"""What an auditor writes down: every object as it is now, and of each job and each of its pods what has been seen."""

from __future__ import annotations

from dataclasses import dataclass, field

from . import words
from .change import DELETED, OPERATOR, Change, Object

NEVER = float("-inf")
#: Seconds that a request of the operator may be under way, from what it has read to what comes of it.
UNDER_WAY = 90.0
#: Reasons in a pod's `status.reason` that say that somebody took it away.
TAKEN = frozenset({"Evicted", "Preempting", "Preempted", "Shutdown", "NodeShutdown", "Terminated", "NodeLost"})


@dataclass(slots=True)
class PodFile:
    """What has been seen of one pod; `codes` are the exit codes with which it failed by itself.

    `made` is whether the operator may have made it; others can say of a pod what they like. `kept` is whether a
    finalizer of the operator held it when it had succeeded, and nobody was taking it away, or took it from its job
    later. `astray` is whether it lost what it is known by while it was leaving: nobody can wait for its end.
    """

    uid: str
    name: str
    role: str
    index: int
    attempt: int
    born: float
    made: bool
    alive: bool = True
    succeeded: bool = False
    kept: bool = False
    astray: bool = False
    failed: bool = False
    taken: bool = False
    countable: bool = False
    codes: tuple[int, ...] = ()
    restarts: int = 0


@dataclass(slots=True)
class JobFile:
    """What has been seen of one job: its versions, what was stored in its status, and its pods by uid.

    `suspended` is when it was last stored as suspended, and `ended` when its terminal condition was stored. `forged` is
    whether somebody else wrote its status, and `others` counts what others did to it and to what it owns.
    """

    uid: str
    plural: str
    document: Object
    born: float
    gone: float | None = None
    forged: bool = False
    suspended: float = NEVER
    resumed: float = NEVER
    ended: float = NEVER
    specs: list[tuple[float, Object]] = field(default_factory=list)
    replaced: set[str] = field(default_factory=set)
    pods: dict[str, PodFile] = field(default_factory=dict)
    others: int = 0

    @property
    def title(self) -> str:
        """What to call it."""
        return words.title(self.plural, self.document)

    @property
    def attempts(self) -> dict[str, int]:
        """The attempts in its status by role, in lower case."""
        found = words.status(self.document).get("attempts") or {}
        return {str(role).lower(): int(count) for role, count in found.items()}

    @property
    def over(self) -> bool:
        """Whether it has its verdict."""
        return any(words.condition(self.document, kind) for kind in words.OVER)

    def given_up(self, pod: PodFile) -> bool:
        """Whether a later attempt than this pod's is stored."""
        return self.attempts.get(pod.role, 0) > pod.attempt

    def unseated(self, pod: PodFile) -> bool:
        """Whether the job had no seat for this pod at some time since it was made."""
        return any(words.counts(self.plural, spec).get(pod.role, 0) <= pod.index for spec in self.specs_since(pod.born))

    def specs_since(self, at: float) -> list[Object]:
        """The versions of its spec that were there at some time from `at` on."""
        later = [spec for since, spec in self.specs if since > at]
        before = [spec for since, spec in self.specs if since <= at]
        return before[-1:] + later


class Ledger:
    """Takes in changes. Objects are found by plural, namespace and name, jobs by uid, whether they are gone or not.

    `released` is when objects, by uid, have lost the job that owned them. `deaf` are the seconds for which the operator
    may have heard of nothing, besides those that a watch takes anyhow.
    """

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Object] = {}
        self.jobs: dict[str, JobFile] = {}
        self.released: dict[str, float] = {}
        self.deaf = 0.0

    def take(self, change: Change) -> None:
        """Write down a change."""
        found, meta = change.object, words.meta(change.object)
        key = (change.plural, str(meta.get("namespace", "")), str(meta.get("name", "")))
        if change.verb == DELETED:
            self.objects.pop(key, None)
        else:
            self.objects[key] = found
        if words.owner(change.before or {}) and not words.owner(found):
            self.released[words.uid(found)] = change.at
        if change.plural in words.JOBS:
            self._take_job(change)
            return
        job = self.job(change)
        if job is None:
            return
        job.others += change.actor != OPERATOR
        if change.plural == "pods":
            _take_pod(change, job)

    def job(self, change: Change) -> JobFile | None:
        """The job whose object this is, by the uid of its controller."""
        return self.jobs.get(words.owner(change.object) or words.owner(change.before or {}))

    def _take_job(self, change: Change) -> None:
        found, uid = change.object, words.uid(change.object)
        job = self.jobs.setdefault(uid, JobFile(uid, change.plural, found, change.at))
        if change.verb == DELETED:
            job.document, job.gone = found, change.at
            return
        before = change.before or {}
        edited = not job.specs or job.specs[-1][1].get("spec") != found.get("spec")
        if edited or words.meta(before).get("annotations") != words.meta(found).get("annotations"):
            job.specs.append((change.at, found))
        if change.actor not in (OPERATOR, ""):
            job.others += 1
            job.forged = job.forged or words.status(before) != words.status(found)
        if words.condition(before, "Suspended") or words.condition(found, "Suspended"):
            job.suspended = change.at
        if words.condition(before, "Suspended") and not words.condition(found, "Suspended"):
            job.resumed = change.at
        if any(words.condition(found, kind) and not words.condition(before, kind) for kind in words.OVER):
            job.ended = change.at
        job.replaced.update(words.status(found).get("podsPendingReplacement") or ())
        job.document = found


def _take_pod(change: Change, job: JobFile) -> None:
    pod, uid = change.object, words.uid(change.object)
    file = job.pods.get(uid)
    if file is None:
        role, index = words.seat(pod) or ("", -1)
        name, made = str(words.meta(pod).get("name")), change.actor in (OPERATOR, "")
        file = PodFile(uid, name, role, index, words.attempt(pod), change.at, made)
        job.pods[uid] = file
    phase = words.phase(pod)
    file.alive = change.verb != DELETED and phase not in words.OVER and words.owner(pod) == job.uid
    file.succeeded = file.succeeded or phase == "Succeeded"
    kept = file.kept or (phase == "Succeeded" and words.held(pod) and not _taken(pod))
    file.kept = kept and words.owner(pod) == job.uid
    file.astray = "deletionTimestamp" in words.meta(pod) and not words.recognizable(pod)
    file.failed = file.failed or phase == "Failed"
    file.taken = file.taken or _taken(pod)
    file.restarts = max(file.restarts, words.restarts(pod))
    if phase == "Failed" and (codes := words.exit_codes(pod)):
        file.codes = codes
        file.countable = file.countable or not _taken(pod)


def _taken(pod: Object) -> bool:
    """Whether somebody takes it off its node, or has taken off it what it is known by."""
    gone = "deletionTimestamp" in words.meta(pod) or words.status(pod).get("reason") in TAKEN
    return gone or words.condition(pod, "DisruptionTarget") or not words.recognizable(pod)
