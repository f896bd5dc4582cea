"""Jobs and their children from the watches, combined into a Snapshot, and how current they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime

import msgspec
from msgspec.structs import replace

from trainshed.api import framework, gang, parse, status_codec
from trainshed.api.actions import ApiRefusal, SchedulerMessage, Snapshot
from trainshed.api.digest import has_digest
from trainshed.api.framework import Framework, JobDefaults
from trainshed.api.job import Document, Job, JobKey, ProgressSource
from trainshed.api.objects import CONFIG_MAPS, Dependent, Pod, Resource, Service, is_older
from trainshed.api.status import Status
from trainshed.client import Unavailable

from .left_pods import LeftPods
from .observed_pods import ScaleDowns
from .staleness import GonePods, Staleness
from .store import CachedJob, Children, Owner, Store, origin_of, owner_of, with_spec
from .training_reports import TrainingReports

#: Seconds for which the first message of a reason is kept. Each stored status causes another reconcile, so a server
#: whose message differs each time would cause endless requests.
REFUSAL_UPDATE_INTERVAL = 20.0


class _Reported(msgspec.Struct, frozen=True):
    refusal: ApiRefusal
    first_reported: datetime

    def again(self, refusal: ApiRefusal | None, now: datetime) -> bool:
        """Return whether this is the same reason; a different message within REFUSAL_UPDATE_INTERVAL does not count."""
        soon = abs((now - self.first_reported).total_seconds()) < REFUSAL_UPDATE_INTERVAL
        return refusal == (replace(self.refusal, message=refusal.message) if refusal and soon else self.refusal)


class Cache:
    """The cache. `left` is called for each job that has left its name, and then `wake` for each that may have changed.

    It is not if nothing has changed that the operator reads: so no request is repeated because of it.
    Jobs of the kinds in `unsynced` are cached and not woken: they cannot be reconciled before the first lists.
    """

    def __init__(
        self,
        frameworks: Iterable[Framework],
        job_defaults: JobDefaults,
        wake: Callable[[JobKey], None],
        left: Callable[[JobKey], None] = lambda _key: None,
    ) -> None:
        self.frameworks = {framework.kind: framework for framework in frameworks}
        self._job_defaults = job_defaults
        self._enqueue, self._left = wake, left
        #: Called with the namespace of each pod that has ended or is gone: a quota may admit another one.
        self.freed: Callable[[str], None] = lambda _namespace: None
        self.unsynced: set[str] = set()
        #: Whether each job of which a plan is being carried out may have changed.
        self.changed: dict[JobKey, bool] = {}
        self._keys: dict[Owner, JobKey] = {}
        self._current: dict[JobKey, str] = {}
        self._refusals: dict[JobKey, _Reported] = {}
        self._scheduler_messages: dict[JobKey, SchedulerMessage] = {}
        self._staleness, self._gone_pods = Staleness(), GonePods()
        #: The versions of jobs that kopf's watch has delivered and the operator's own has not.
        self._behind: dict[JobKey, str] = {}
        #: The number of jobs by kind and state, of which some are 0.
        self.states: Counter[tuple[str, str]] = Counter()
        self.jobs: dict[str, Store[CachedJob]] = {kind: Store(self._on_job_change) for kind in self.frameworks}
        self.scale_downs = ScaleDowns()
        self.training = TrainingReports(self.wake)
        self.left_pods = LeftPods(self._job_of, releases=job_defaults.track_results)
        self.pods: Children[Pod] = Children(
            self._on_child_change, self._on_list_delete, self.left_pods.lost, self._on_pod_change
        )
        self.pods.on_left = self.left_pods.left
        self.services: Children[Service] = Children(self._on_child_change)
        self.dependents: dict[Resource, Children[Dependent]] = {
            resource: Children(self._on_child_change)
            for resource in (
                *framework.owned_resources(frameworks),
                *gang.resources(job_defaults.gang_scheduler),
                *((CONFIG_MAPS,) if job_defaults.progress_server else ()),
            )
        }
        #: The CAs of the endpoint to which pods report, in PEM.
        self._authorities = ""
        #: By uid: the dependents with digests as they were after the operator wrote them last.
        self._answers: dict[str, Document] = {}

    def record(self, document: Document, framework: Framework) -> CachedJob:
        """Parse a job; its spec, which takes longest, only if it may differ from the cached one.

        Raises `msgspec.DecodeError` if the spec is decoded only now.
        """
        metadata = document.get("metadata") or {}
        origin, status = origin_of(metadata), status_codec.parse_status(document)
        known = self.jobs[framework.kind].items.get(metadata.get("uid", ""))
        if known is None or not known.has_spec_of(metadata):
            spec = parse.parsed_spec(with_spec(document), framework, self._job_defaults)
        elif known.origin == origin:
            return known.at(str(metadata.get("resourceVersion", "")), status)
        else:
            spec = known.spec
        return CachedJob(parse.assembled(metadata, spec, framework, self._job_defaults), status, spec, origin)

    def snapshot(self, key: JobKey, now: datetime) -> Snapshot | None:
        """Return the job with its objects, or None if there is no such job."""
        record = self.jobs[key.kind].items.get(self._current.get(key, ""))
        if record is None:
            return None
        owner = record.as_owner
        dependents = tuple(found for children in self.dependents.values() for found in children.of(owner))
        snapshot = Snapshot(
            job=record.job,
            framework=self.frameworks[key.kind],
            job_defaults=self._job_defaults,
            status=record.status,
            pods=self.pods.of(owner),
            services=self.services.of(owner),
            now=now,
            refusal=reported.refusal if (reported := self._refusals.get(key)) else None,
            dependents=dependents,
            unserved=self._unserved(),
            scheduler_message=self._scheduler_messages.get(key),
            answers={one.uid: self._answers[one.uid] for one in dependents if one.uid in self._answers},
            scale_down=self.scale_downs.last(record.job, now),
            training=self.training.of(record.uid),
            authorities=self._authorities,
            signs=self.training.signs(record.job, now),
        )
        return self.left_pods.in_snapshot(snapshot)

    def on_write(self, found: Dependent) -> None:
        """Store a dependent as it was answered to the operator's own write."""
        store = self.dependents[found.resource].store
        store.on_response(found)
        self._answers.pop(found.uid, None)
        if found.uid in store.items and has_digest(found.document):
            self._answers[found.uid] = found.document

    def stored(self, key: JobKey, document: Document) -> Status:
        """Store the job from the response to the operator's own write; return its status."""
        record = self.read(key, document)
        self.left_pods.stored(record.uid)
        self._staleness.own_write(record.uid, record.version)
        return record.status

    def read(self, key: JobKey, document: Document) -> CachedJob:
        """Store the job from an uncached read, unless the watch was faster.

        Raises `Unavailable` if it cannot be decoded.
        """
        metadata, store = document["metadata"], self.jobs[key.kind]
        if store.has(metadata["uid"], metadata["resourceVersion"]):
            return store.items[metadata["uid"]]
        try:
            record = self.record(document, self.frameworks[key.kind])
        except msgspec.DecodeError as error:
            raise Unavailable(f"cannot decode the response: {error}") from error
        store.on_response(record)
        return record

    def is_stale(self, snapshot: Snapshot) -> bool:
        """Return whether the writer of this status may have seen newer pods than the cache contains."""
        return not snapshot.status.over and self._staleness.is_stale(snapshot.job.uid, self.pods.store.latest)

    def is_up_to_date_about(self, job: Job) -> bool:
        """Return whether a watch, and no list, has delivered this job, and no pod of it can have come and gone since.

        Either the watch of its kind is as far as that of pods, or that has seen all of its pods, and none has gone.
        """
        jobs, pods = self.jobs[job.kind], self.pods.store
        if jobs.listed and not is_older(jobs.listed, job.version):
            return False
        if not is_older(jobs.latest, pods.latest):
            return True
        return is_older(pods.listed, job.version) and self._gone_pods.has_none_of((job.namespace, job.uid), job.version)

    def on_list(self, snapshot: Snapshot, pods: Iterable[Pod], version: str) -> bool:
        """Store a list of the job's pods from the API server; return False if the cache is newer.

        The list has only pods whose label names the job: the others are not gone because it lacks them.
        """
        labelled = (pod for pod in snapshot.pods if pod.job == snapshot.job.name)
        if not self.pods.store.on_list(labelled, pods, version):
            return False
        self._staleness.mark_certain(snapshot.job.uid)
        return True

    def forget(self, key: JobKey, uid: str) -> None:
        """Remove a deleted job; a new job of the same name, delivered by the watch, stays."""
        self.jobs[key.kind].forgotten(uid)

    def refusal(self, key: JobKey, refusal: ApiRefusal | None, now: datetime) -> bool:
        """Remember why the API server refused a request, or None; return whether that changed."""
        reported = self._refusals.get(key)
        again = reported.again(refusal, now) if reported else refusal is None
        if again:
            return False
        self._refusals.pop(key, None)
        if refusal and key in self._current:
            self._refusals[key] = _Reported(refusal, now)
        return True

    def scheduler_said(self, key: JobKey, message: SchedulerMessage) -> None:
        """Remember what the scheduler said about the PodGroup of a job."""
        if key in self._current:
            self._scheduler_messages[key] = message

    def owner(self, child: Dependent) -> JobKey | None:
        """Return the key of the cached job that owns an object, None if there is none."""
        return self._keys.get(owner_of(child))

    def job_of_pod(self, namespace: str, name: str, uid: str) -> Job | None:
        """Return the job that controls a pod, None if one of both is not known."""
        pod = self.pods.store.items.get(uid)
        found = self._job_of(owner_of(pod)) if pod and (pod.namespace, pod.name) == (namespace, name) else None
        return found[0] if found else None

    def jobs_of_name(self, namespace: str, name: str) -> tuple[Job, ...]:
        """Return the jobs of this name, of all kinds."""
        keys = (JobKey(namespace, kind, name) for kind in self.frameworks)
        records = (self.jobs[key.kind].items.get(self._current.get(key, "")) for key in keys)
        return tuple(record.job for record in records if record)

    def trust(self, authorities: str) -> None:
        """Give the pods of jobs that report to the endpoint these CAs."""
        self._authorities = authorities
        for key in self.known():
            if any(job.progress is ProgressSource.ENDPOINT for job in self.jobs_of_name(key.namespace, key.name)):
                self.wake(key)

    def orphans(self) -> list[Pod]:
        """Return the finalizer-protected pods without an owner, and the terminating ones whose job is not cached."""
        pods = (pod for pod in self.pods.store.items.values() if pod.has_finalizer)
        return [pod for pod in pods if not pod.owner or (pod.deleting and owner_of(pod) not in self._keys)]

    def seen(self, key: JobKey, version: str) -> None:
        """Enqueue a job of which another watch has delivered this version, if the cache lacks it."""
        if key.kind not in self.unsynced and self._lacks(key, version):
            self._behind[key] = version
            self.wake(key)

    def behind(self, key: JobKey) -> Framework | None:
        """Return the framework of a job that has to be read, because the cache lacks a version of it."""
        version = self._behind.get(key)
        if version is None:
            return None
        if self._lacks(key, version):
            return self.frameworks[key.kind]
        del self._behind[key]
        return None

    def caught_up(self, key: JobKey, before: str, document: Document | None) -> None:
        """Store the response to the read of a job that was behind; None: there is no job of that name.

        `before` is the uid that was cached when the job was read: a job that the watch has delivered since stays.
        """
        self._behind.pop(key, None)
        if document is None or document["metadata"]["uid"] != before:
            self.forget(key, before)
        if document is not None:
            self.read(key, document)

    def uid(self, key: JobKey) -> str:
        """Return the uid of the cached job of this name, empty if there is none."""
        return self._current.get(key, "")

    def _lacks(self, key: JobKey, version: str) -> bool:
        """Return whether neither the cached job nor the watch of its kind has come as far as this version."""
        store = self.jobs[key.kind]
        record = store.items.get(self._current.get(key, ""))
        return is_older(store.latest, version) and (record is None or is_older(record.version, version))

    def wake(self, key: JobKey) -> None:
        """Enqueue a job that may have changed."""
        if key in self.changed:
            self.changed[key] = True
        if key.kind not in self.unsynced:
            self._enqueue(key)

    def known(self) -> list[JobKey]:
        """Return the keys of all jobs that can be reconciled."""
        return [key for key in self._current if key.kind not in self.unsynced]

    def _on_job_change(self, before: CachedJob | None, after: CachedJob | None) -> None:
        record = self._counted(before, after)
        if record is None:
            return
        key = record.job.key
        known = self._current.get(key)
        if after:
            self._keys[record.as_owner] = key
            other = self.jobs[key.kind].items.get(known or "")
            if other is None or not is_older(
                record.version, other.version
            ):  # a direct read may be newer than the watch
                self._current[key] = record.uid
            if after.status.conditions and (before is None or before.status != after.status):
                self._staleness.observed_write(record.uid, record.version)
            self.left_pods.changed(after.job, after.status)
        else:
            self._keys.pop(record.as_owner, None)
            self.left_pods.forget(record.as_owner)
            self._staleness.forget(record.uid)
            self.training.forget(record.uid)
            if known == record.uid:
                del self._current[key]
        is_other = self._current.get(key) != known
        if is_other:
            self._refusals.pop(key, None)
            self._scheduler_messages.pop(key, None)
            self.scale_downs.forget(key)
            if known:
                self._left(key)
        if is_other or not (before and after) or before.differs(after):
            self.wake(key)

    def _counted(self, before: CachedJob | None, after: CachedJob | None) -> CachedJob | None:
        """Count the state of a job; return its last version."""
        for version, step in ((before, -1), (after, 1)):
            if version:
                self.states[version.job.kind, version.status.current_state] += step
        return after or before

    def _unserved(self) -> tuple[Resource, ...]:
        """Return the kinds of PodGroup of Kubernetes that have never been listed: the API server may not serve them."""
        groups = ((kind, self.dependents.get(kind)) for kind in gang.OPTIONAL)
        return tuple(kind for kind, children in groups if children and not children.store.listed)

    def _job_of(self, owner: Owner) -> tuple[Job, Status] | None:
        key = self._keys.get(owner)
        record = self.jobs[key.kind].items.get(owner[1]) if key else None
        return (record.job, record.status) if record else None

    def _on_pod_change(self, before: Pod, after: Pod) -> None:
        if after.attempt < before.attempt:
            self.left_pods.spoiled(after)

    def _on_list_delete(self, pod: Pod) -> None:
        if owner_of(pod) in self._keys:
            self._staleness.mark_uncertain(pod.owner)

    def _on_child_change(self, child: Pod | Service | Dependent) -> None:
        if isinstance(child, Dependent) and child.uid not in self.dependents[child.resource].store.items:
            self._answers.pop(child.uid, None)
        if isinstance(child, Pod):
            is_gone = child.uid not in self.pods.store.items
            if is_gone:
                self._gone_pods.add(owner_of(child), self.pods.store.latest)
            else:
                self.left_pods.watched(child)
            if child.over or is_gone:
                self.freed(child.namespace)
        key = self._keys.get(owner_of(child))
        if key:
            self.wake(key)
            return
        # Owned by another object or by a deleted job: a job of that name may be waiting for this name.
        for kind in self.frameworks:
            same_name = JobKey(child.namespace, kind, child.job)
            if same_name in self._current:
                self.wake(same_name)
