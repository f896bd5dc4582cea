"""What reconciles jobs, in a cluster and in a local run: caches and informers by namespace, queue, worker, Events."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, Protocol

import msgspec

from trainshed.api import gang
from trainshed.api.framework import Framework, JobDefaults
from trainshed.api.job import JobKey
from trainshed.api.objects import JOB_NAME_LABEL, POD_GROUP, Resource, is_older
from trainshed.client import Client, NotFound, TooManyRequests, Unavailable
from trainshed.client.client import CORE, ApiClient
from trainshed.client.informer import Informer
from trainshed.client.lists import PARTS, PODS, SERVICES, Decoder, dependent_decoder, job_document
from trainshed.client.transport import Path, RestClient

from .cache import Cache
from .events import EventRecorder
from .observer import Observer
from .reconciler import Reconciler
from .store import CachedJob
from .workqueue import Worker, WorkQueue

#: Seconds between tries while the API server does not respond.
DISCOVERY_RETRY = 2.0
#: Readiness limits in seconds: the maximum silence of a watch, and for how long it may fail. The API server sends a
#: bookmark about once a minute.
MAX_SILENCE, MAX_FAILING = 150.0, 30.0
#: Seconds between two checks which of several namespaces are refused.
CHECK = 0.5

log = logging.getLogger(__name__)


class Discovery(Protocol):
    """Discovers which kinds are served; may raise any `trainshed.client.ApiError`."""

    async def serves(self, resource: Resource) -> bool:
        """Return whether the API server serves this kind."""
        ...


async def discover_gang_resources(discovery: Discovery, scheduler: str) -> tuple[Resource, ...]:
    """Return the kinds of PodGroup to watch for this scheduler: the newest one that the API server serves.

    If it serves none, raise `NotFound`, or return all kinds if Kubernetes may serve them later. Retries without end
    while the API server does not respond.
    """
    kinds = gang.resources(scheduler)
    for kind in kinds:
        if await _served(discovery, kind):
            return (kind,)
    if not kinds:
        return ()
    what = f"the API server does not serve {POD_GROUP} in {' or '.join(kind.api_version for kind in kinds)}"
    if not gang.is_kubernetes(scheduler):
        raise NotFound(f"--gang-scheduler-name={scheduler}: {what}; install its CRD first or omit the flag")
    log.warning("--gang-scheduler-name=%s: %s; no job gets pods until it does", scheduler, what)
    return kinds


async def _served(discovery: Discovery, kind: Resource) -> bool:
    logged = False
    while True:
        try:
            return await discovery.serves(kind)
        except (Unavailable, TooManyRequests) as error:
            log.log(logging.DEBUG if logged else logging.WARNING, "cannot discover %s: %s", kind.api_version, error)
            logged = True
        await asyncio.sleep(DISCOVERY_RETRY)


def make_informers(
    rest: RestClient, cache: Cache, frameworks: Iterable[Framework], namespace: str
) -> Iterator[Informer[Any]]:
    """Yield the informers of one namespace (empty: all): one per kind of job, then pods, Services and dependents."""
    for kind in frameworks:
        yield _job_informer(rest, cache, kind, namespace)
    yield Informer(rest, Path(CORE, "pods", namespace), PODS, cache.pods.store, JOB_NAME_LABEL)
    yield Informer(rest, Path(CORE, "services", namespace), SERVICES, cache.services.store, JOB_NAME_LABEL)
    for found, children in cache.dependents.items():
        path = Path(found.prefix, found.plural, namespace)
        yield Informer(rest, path, dependent_decoder(found), children.store, JOB_NAME_LABEL)


def _job_informer(rest: RestClient, cache: Cache, framework: Framework, namespace: str) -> Informer[CachedJob]:
    path = Path(framework.prefix, framework.plural, namespace)
    # Each job of a list is parsed before the next one is decoded.
    decoder = Decoder(PARTS, lambda found, _: cache.record(job_document(found), framework))
    return Informer(rest, path, decoder, cache.jobs[framework.kind])


class Dependencies(msgspec.Struct, frozen=True):
    """The dependencies that all namespace caches share; `wake`, `left` and `freed` are those of a `Cache`."""

    rest: RestClient
    client: Client
    recorder: EventRecorder
    observer: Observer
    wake: Callable[[JobKey], None]
    left: Callable[[JobKey], None] = lambda _key: None
    freed: Callable[[str], None] = lambda _namespace: None


class NamespaceCache:
    """One namespace, or the whole cluster if the name is empty.

    The cache wakes the jobs of a kind once that kind is in sync, and `ready` is set when all are. A kind does not wait
    for the others: the first list of one may take long, as that of a new CRD.
    """

    def __init__(
        self, namespace: str, frameworks: tuple[Framework, ...], job_defaults: JobDefaults, dependencies: Dependencies
    ) -> None:
        self.namespace = namespace
        self.ready = asyncio.Event()
        self.cache = Cache(frameworks, job_defaults, dependencies.wake, dependencies.left)
        self.cache.freed = dependencies.freed
        self.reconciler = Reconciler(dependencies.client, self.cache, dependencies.recorder, dependencies.observer)
        self.informers: tuple[Informer[Any], ...] = tuple(
            make_informers(dependencies.rest, self.cache, frameworks, namespace)
        )
        self._kinds = {framework.plural: framework.kind for framework in frameworks}
        self.cache.unsynced.update(self._kinds.values())

    def watch_pod_groups(self, kinds: tuple[Resource, ...]) -> None:
        """Of the kinds of PodGroup, watch only these; to be called before the informers run."""
        others = {kind.prefix for kind in gang.OPTIONAL if kind not in kinds}
        self.informers = tuple(informer for informer in self.informers if informer.prefix not in others)

    async def sync(self, any_synced: Callable[[], None]) -> None:
        """Wait for the cache sync, and enqueue the jobs of each kind that is in sync; then call `any_synced`."""
        for informer in self.informers:
            if informer.plural not in self._kinds:
                await informer.synced.wait()
        kinds = (informer for informer in self.informers if informer.plural in self._kinds)
        await asyncio.gather(*(self._sync(informer, any_synced) for informer in kinds))
        if missing := self._without_any_kind() or self.missing_crds():
            log.warning("%s", missing)
        where = f"namespace {self.namespace}: " if self.namespace else ""
        log.info("ready: %s%d jobs, %d pods", where, len(self.cache.known()), self.cache.pods.store.count())
        self.ready.set()

    async def _sync(self, informer: Informer[Any], any_synced: Callable[[], None]) -> None:
        await informer.synced.wait()
        kind = self._kinds[informer.plural]
        self.cache.unsynced.discard(kind)
        for key in self.cache.known():
            if key.kind == kind:
                self.cache.wake(key)
        any_synced()

    def problem(self) -> str:
        """Return why the caches are not in sync, or an empty string.

        Problems that need an administrator come before those that may pass.
        """
        return self.refused() or next((problem for problem, _ in self._problems()), "")

    def refused(self) -> str:
        """Return what an administrator must resolve, such as a missing right, or an empty string."""
        return self._without_any_kind() or next((problem for problem, permanent in self._problems() if permanent), "")

    def _problems(self) -> Iterator[tuple[str, bool]]:
        return (problem for informer in self.informers if (problem := self._problem(informer)))

    def missing_crds(self) -> str:
        """Return which CRDs are not installed, or an empty string; the other kinds are managed regardless."""
        missing = ", ".join(informer.what for informer in self._missing())
        if not missing:
            return ""
        return f"CRDs not installed: {missing}; their jobs are reconciled once the CRDs are installed"

    def _without_any_kind(self) -> str:
        missing = self._missing()
        if len(missing) < len(self._kinds):
            return ""
        return f"the API server serves none of {', '.join(informer.what for informer in missing)}: install the CRDs"

    def _missing(self) -> list[Informer[Any]]:
        return [informer for informer in self.informers if informer.missing and informer.plural in self._kinds]

    def _problem(self, informer: Informer[Any]) -> tuple[str, bool] | None:
        """Return the problem of an informer and whether an administrator must solve it, or None."""
        if informer.refused:
            return f"cannot list and watch {informer.what}: {informer.refused}", True
        if not informer.synced.is_set():
            why = f": {informer.error}" if informer.error else ""
            return f"the cache of {informer.what} has not synced yet{why}", False
        if informer.missing:
            optional = informer.plural in self._kinds or informer.prefix in {kind.prefix for kind in gang.OPTIONAL}
            return None if optional else (f"the API server does not serve {informer.what}", True)
        now = asyncio.get_running_loop().time()
        if (failing := informer.failing(now)) > MAX_FAILING:
            return f"the watch of {informer.what} has failed for {failing:.0f} s: {informer.error}", False
        silence = now - informer.heard
        if silence <= MAX_SILENCE:
            return None
        return f"the watch of {informer.what} has received nothing for {silence:.0f} s", False


class NamespaceCaches:
    """All namespace caches; each call that concerns a job goes to the cache of its namespace."""

    def __init__(self, caches: Iterable[NamespaceCache]) -> None:
        self.all = {namespaced.namespace: namespaced for namespaced in caches}
        self.any_ready = asyncio.Event()

    async def sync(self) -> None:
        """Wait until all are ready; `any_ready` is set when the first kind is in sync in one of them."""
        await asyncio.gather(*(namespaced.sync(self.any_ready.set) for namespaced in self.all.values()))

    def seen(self, key: JobKey, version: str) -> None:
        """Read and reconcile a job of which kopf's watch has delivered this version, if the cache lacks it."""
        if namespaced := self.all.get(key.namespace) or self.all.get(""):
            namespaced.cache.seen(key, version)

    def is_known(self, uid: str, version: str) -> bool:
        """Return whether a job is cached at this version or a newer one."""
        return any(
            record.version == version or is_older(version, record.version)
            for namespaced in self.all.values()
            for store in namespaced.cache.jobs.values()
            if (record := store.items.get(uid))
        )

    def lead(self) -> None:
        """Drop what was noticed while another replica led."""
        for namespaced in self.all.values():
            namespaced.cache.left_pods.forget_lost_pods()

    def step_down(self) -> None:
        """Drop what only a leader keeps; another replica leads now."""
        for namespaced in self.all.values():
            namespaced.reconciler.step_down()

    def known(self) -> list[JobKey]:
        """Return the keys of all jobs that can be reconciled."""
        return [key for namespaced in self.all.values() for key in namespaced.cache.known()]

    def problem(self) -> str:
        """Return why the operator is not ready, one line for each namespace cache, or an empty string.

        Who administers one of several namespaces may take the operator's rights there, or delete it: as long as another
        is served, that is no reason to keep a new replica from getting ready.
        """
        found = {name: problem for name, namespaced in self.all.items() if (problem := namespaced.problem())}
        is_served = len(found) < len(self.all)
        return "" if is_served and found.keys() <= self.refused().keys() else "\n".join(found.values())

    def refused(self) -> dict[str, str]:
        """Return the namespaces that cannot be served until an administrator acts, each with the reason."""
        return {name: refused for name, namespaced in self.all.items() if (refused := namespaced.refused())}

    def served(self) -> dict[str, bool]:
        """Return whether each namespace is served; nothing if there is one cache for the whole cluster."""
        found = {name: namespaced.ready.is_set() and not namespaced.problem() for name, namespaced in self.all.items()}
        return {name: is_served for name, is_served in found.items() if name}

    def is_settled(self) -> bool:
        """Return whether a namespace is ready, and each other one, too, unless it is refused."""
        waiting = {name for name, namespaced in self.all.items() if not namespaced.ready.is_set()}
        return len(waiting) < len(self.all) and waiting <= self.refused().keys()

    def remarks(self) -> str:
        """Return what an administrator has to know of an operator that is ready, one line for each namespace cache.

        These are the namespaces that are refused and, of the others, the CRDs that are not installed.
        """
        found = (namespaced.refused() or namespaced.missing_crds() for namespaced in self.all.values())
        return "\n".join(filter(None, found))

    def jobs(self) -> Iterator[CachedJob]:
        """Iterate over all cached jobs."""
        for namespaced in self.all.values():
            for store in namespaced.cache.jobs.values():
                yield from store.items.values()

    def states(self) -> Counter[tuple[str, str]]:
        """Return the number of jobs by kind and state."""
        found: Counter[tuple[str, str]] = Counter()
        for namespaced in self.all.values():
            found.update(namespaced.cache.states)
        return found

    def namespaces_and_kinds(self) -> set[tuple[str, str]]:
        """Return the pairs of namespace and kind that have jobs."""
        return {(record.job.namespace, record.job.kind) for record in self.jobs()}

    def watch_ages(self) -> dict[str, float]:
        """Return the seconds since the last event of each kind's watch; the largest one if there are several.

        A kind that the API server does not serve has no watch, nor has a namespace that is refused, beside others.
        """
        now, refused = asyncio.get_running_loop().time(), self.refused()
        found: dict[str, float] = {}
        for namespaced in self.all.values():
            if namespaced.namespace in refused and len(refused) < len(self.all):
                continue
            for informer in (found for found in namespaced.informers if not found.missing):
                found[informer.plural] = max(found.get(informer.plural, 0.0), now - informer.heard)
        return found


class Scope(msgspec.Struct, frozen=True):
    """The kinds of jobs, the namespaces (empty: all), and the defaults of jobs."""

    frameworks: tuple[Framework, ...]
    job_defaults: JobDefaults
    namespaces: tuple[str, ...] = ()


class Controller:
    """Reconciles jobs while the client may write.

    `ready` is set after the cache sync, for which namespaces that are refused are not waited for.
    """

    def __init__(self, client: ApiClient, scope: Scope, observer: Observer, now: Callable[[], datetime]) -> None:
        self.queue = WorkQueue(observer.observe_queue_time)
        self.recorder = EventRecorder(client, observer.count_dropped_event, now)
        dependencies = Dependencies(
            client.rest, client, self.recorder, observer, self._add, self.queue.left, self.queue.freed
        )
        self.caches = NamespaceCaches(
            NamespaceCache(namespace, scope.frameworks, scope.job_defaults, dependencies)
            for namespace in scope.namespaces or ("",)
        )
        reconcilers = {name: namespaced.reconciler for name, namespaced in self.caches.all.items()}
        self.worker = Worker(self.queue, reconcilers, observer, client.may_write, now)
        self.ready = asyncio.Event()
        self.is_active = False

    @property
    def informers(self) -> list[Informer[Any]]:
        """All informers, which the caller runs."""
        return [informer for namespaced in self.caches.all.values() for informer in namespaced.informers]

    def watch_pod_groups(self, kinds: tuple[Resource, ...]) -> None:
        """Of the kinds of PodGroup, watch only these; to be called before the informers run."""
        for namespaced in self.caches.all.values():
            namespaced.watch_pod_groups(kinds)

    def seen(self, key: JobKey, version: str) -> None:
        """Read and reconcile a job of which another watch has delivered this version, if the cache lacks it.

        A replica without the Lease does nothing; its own watches are quiet for a minute at most.
        """
        if self.is_active:
            self.caches.seen(key, version)

    async def run(self, acquired: Callable[[], Awaitable[object]]) -> None:
        """Reconcile after the cache sync, whenever `acquired` has been awaited and the client may write."""
        await asyncio.gather(self._sync(), self._check(), self._reconcile(acquired))

    async def _sync(self) -> None:
        await self.caches.sync()
        self.ready.set()

    async def _check(self) -> None:
        """Log which of several namespaces are refused; set `ready` if no other one is waited for."""
        known: dict[str, str] = {}
        while len(self.caches.all) > 1:
            await asyncio.sleep(CHECK)
            if self.caches.is_settled():
                self.ready.set()
            known, before = self.caches.refused(), known
            for name in known.keys() - before.keys():
                log.warning("namespace %s is not served until an administrator acts: %s", name, known[name])
            for name in before.keys() - known.keys():
                log.warning("namespace %s is not refused any more", name)

    async def _reconcile(self, acquired: Callable[[], Awaitable[object]]) -> None:
        await self.caches.any_ready.wait()
        while True:
            await acquired()
            self.is_active = True
            self.caches.lead()
            for key in self.caches.known():
                self.queue.add(key)
            await self.worker.run()
            self.is_active = False
            await asyncio.sleep(1)  # the Lease has just been lost
            self.queue.clear()

    def _add(self, key: JobKey) -> None:
        """Enqueue a job that may have changed; a replica without the Lease enqueues all jobs when it acquires it."""
        if self.is_active:
            self.queue.add(key)
