"""The state that the checks share: every object as it is now, and the history of each job and pod."""

from __future__ import annotations

from dataclasses import dataclass, field

from . import api_fields
from .change import DELETED, OPERATOR, Change, Object

NEVER = float("-inf")
#: Seconds for which a request of the operator may be under way.
IN_FLIGHT = 90.0
#: The age in seconds until which the operator takes a job to exist as its watch delivered it, and a second to act.
NEW = 3.0 + 1.0
#: Reasons in a pod's `status.reason` of pods that were evicted.
TAKEN = frozenset({"Evicted", "Preempting", "Preempted", "Shutdown", "NodeShutdown", "Terminated", "NodeLost"})


@dataclass(slots=True)
class PodRecord:
    """The history of one pod; `codes` are the exit codes with which it failed by itself.

    `made` is true if the operator may have created it. `kept` is true if it had a finalizer of the operator when it
    succeeded, was not being deleted, and did not lose its owner later. `lost_identity` is true if it lost its labels
    or its owner while it was terminating: the operator cannot wait for its end. `never_bound` is true if it terminates
    without a node: it gets none any more, and holds no resources. `labelled` is false while its labels or its owner are
    removed: the operator does not see it.
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
    lost_identity: bool = False
    never_bound: bool = False
    labelled: bool = True
    failed: bool = False
    taken: bool = False
    countable: bool = False
    codes: tuple[int, ...] = ()
    restarts: int = 0


@dataclass(slots=True)
class JobRecord:
    """The history of one job: its versions, the stored status, and its pods by uid.

    `suspended` is when it was last stored as suspended, and `ended` when its terminal condition was stored or
    announced. `forged` is true if another client wrote its status; `others` counts the changes of other clients to it
    and its objects.
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
    pods: dict[str, PodRecord] = field(default_factory=dict)
    others: int = 0

    @property
    def title(self) -> str:
        return api_fields.title(self.plural, self.document)

    @property
    def attempts(self) -> dict[str, int]:
        """The attempts in its status by role, in lower case."""
        found = api_fields.status(self.document).get("attempts") or {}
        return {str(role).lower(): int(count) for role, count in found.items()}

    @property
    def over(self) -> bool:
        """True if it has a terminal condition, or one that announces it."""
        return _decided(self.document)

    def given_up(self, pod: PodRecord) -> bool:
        """Return whether a later attempt than this pod's is stored."""
        return self.attempts.get(pod.role, 0) > pod.attempt

    def was_surplus(self, pod: PodRecord) -> bool:
        """Return whether the index of this pod was beyond the replicas at some time since its creation."""
        return any(
            api_fields.counts(self.plural, spec).get(pod.role, 0) <= pod.index for spec in self.specs_since(pod.born)
        )

    def known_specs(self, at: float, in_flight: float) -> list[Object]:
        """Return the versions of its spec on which the operator may act at this time; it does not read a NEW job."""
        return self.specs_since(self.born if at - self.born < NEW else at - in_flight)

    def specs_since(self, at: float) -> list[Object]:
        """Return the versions of its spec that were current at some time from `at` on, those replaced at `at` too."""
        later = [spec for since, spec in self.specs if since >= at]
        before = [spec for since, spec in self.specs if since < at]
        return before[-1:] + later


class Records:
    """Records changes. Objects are found by plural, namespace and name, jobs by uid, whether they are gone or not.

    `released` is when objects, by uid, have lost the job that owned them. `watch_silence` are the seconds for which
    watches may have delivered nothing, besides their usual latency.
    """

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Object] = {}
        self.jobs: dict[str, JobRecord] = {}
        self.released: dict[str, float] = {}
        self.watch_silence = 0.0

    def record(self, change: Change) -> None:
        found, meta = change.object, api_fields.meta(change.object)
        key = (change.plural, str(meta.get("namespace", "")), str(meta.get("name", "")))
        if change.verb == DELETED:
            self.objects.pop(key, None)
        else:
            self.objects[key] = found
        if api_fields.owner(change.before or {}) and not api_fields.owner(found):
            self.released[api_fields.uid(found)] = change.at
        if change.plural in api_fields.JOBS:
            self._take_job(change)
            return
        job = self.job(change)
        if job is None:
            return
        job.others += change.actor != OPERATOR
        if change.plural == "pods":
            _take_pod(change, job)

    def job(self, change: Change) -> JobRecord | None:
        """Return the job that owns this object, by the uid of its controller."""
        return self.jobs.get(api_fields.owner(change.object) or api_fields.owner(change.before or {}))

    def _take_job(self, change: Change) -> None:
        found, uid = change.object, api_fields.uid(change.object)
        job = self.jobs.setdefault(uid, JobRecord(uid, change.plural, found, change.at))
        if change.verb == DELETED:
            job.document, job.gone = found, change.at
            return
        before = change.before or {}
        edited = not job.specs or job.specs[-1][1].get("spec") != found.get("spec")
        if edited or api_fields.meta(before).get("annotations") != api_fields.meta(found).get("annotations"):
            job.specs.append((change.at, found))
        if change.actor not in (OPERATOR, ""):
            job.others += 1
            job.forged = job.forged or api_fields.status(before) != api_fields.status(found)
        if api_fields.condition(before, "Suspended") or api_fields.condition(found, "Suspended"):
            job.suspended = change.at
        if api_fields.condition(before, "Suspended") and not api_fields.condition(found, "Suspended"):
            job.resumed = change.at
        if _decided(found) and not _decided(before):
            job.ended = change.at
        job.replaced.update(api_fields.status(found).get("podsPendingReplacement") or ())
        job.document = found


def _decided(job: Object) -> bool:
    return any(api_fields.condition(job, kind) for kind in (*api_fields.OVER, *api_fields.ENDING))


def _take_pod(change: Change, job: JobRecord) -> None:
    pod, uid = change.object, api_fields.uid(change.object)
    record = job.pods.get(uid)
    if record is None:
        role, index = api_fields.replica_of(pod) or ("", -1)
        name, made = str(api_fields.meta(pod).get("name")), change.actor in (OPERATOR, "")
        record = PodRecord(uid, name, role, index, api_fields.attempt(pod), change.at, made)
        job.pods[uid] = record
    phase = api_fields.phase(pod)
    record.alive = change.verb != DELETED and phase not in api_fields.OVER and api_fields.owner(pod) == job.uid
    record.succeeded = record.succeeded or phase == "Succeeded"
    kept = record.kept or (phase == "Succeeded" and api_fields.held(pod) and not _taken(pod))
    record.kept = kept and api_fields.owner(pod) == job.uid
    record.lost_identity = "deletionTimestamp" in api_fields.meta(pod) and not api_fields.recognizable(pod)
    record.labelled = api_fields.recognizable(pod)
    record.never_bound = "deletionTimestamp" in api_fields.meta(pod) and not (pod.get("spec") or {}).get("nodeName")
    record.failed = record.failed or phase == "Failed"
    record.taken = record.taken or _taken(pod)
    record.restarts = max(record.restarts, api_fields.restarts(pod))
    if phase == "Failed" and (codes := api_fields.exit_codes(pod)):
        record.codes = codes
        record.countable = record.countable or not _taken(pod)


def _taken(pod: Object) -> bool:
    """Return whether it is evicted or deleted, or has lost its labels or its owner."""
    gone = "deletionTimestamp" in api_fields.meta(pod) or api_fields.status(pod).get("reason") in TAKEN
    return gone or api_fields.condition(pod, "DisruptionTarget") or not api_fields.recognizable(pod)
