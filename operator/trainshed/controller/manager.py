"""Starts and stops everything that runs in the process: informers, workers, leader election, probes, kopf."""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import logging
import socket
import warnings
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any

from trainshed import process
from trainshed.api.actions import Event
from trainshed.api.framework import Framework
from trainshed.api.job import Job, RecordDecisions
from trainshed.client import ApiError
from trainshed.client.client import ApiClient
from trainshed.client.config_maps import ConfigMaps
from trainshed.client.credentials import Credentials, NoCredentials
from trainshed.client.flow_control import TokenBucket
from trainshed.client.http import HttpTransport
from trainshed.client.kubeconfig import find_credentials
from trainshed.client.port_forward import PortForward
from trainshed.client.transport import RestClient, Transport
from trainshed.config import Config, bind_address
from trainshed.event_loop import EventLoop
from trainshed.frameworks import served
from trainshed.process import Clock

from .debug_servers import DebugServers
from .health import HealthServer, LoopLagMonitor, listening_sockets
from .job_collector import JobCollector
from .job_records import JobRecords
from .leader_election import LeaderElector, LeaseConfig
from .log_followers import LogFollowers
from .metrics import Metrics, MetricScope
from .namespaces import Controller, NamespaceCache, Scope, discover_gang_resources
from .observer import Background, Observers
from .orphans import Orphans
from .ras_polls import RasPolls
from .stack_reads import StackReads

#: Seconds at shutdown: for running reconciles to finish, then for requests in flight to be answered, and for the last
#: Events to be written; releasing the Lease may take what is left of ALTOGETHER. With kopf the shutdown takes at most
#: five seconds.
SHUTDOWN_GRACE, ANSWERS, EVENT_FLUSH_TIMEOUT, ALTOGETHER = 1.0, 1.0, 0.4, 3.3
#: Seconds between two removals of counters of namespaces without jobs: they stay for one or two intervals after the
#: last job. Prometheus scrapes every minute or two.
COUNTER_EXPIRY_INTERVAL = 600.0
#: Files and connections that are open besides those of logs: requests, watches, scrapes.
OTHER_FILES = 4096
#: Seconds after which the stack of an event loop that hangs is logged.
HANG_TIMEOUT = 20.0
#: Seconds after the cache sync at which kopf is imported, and at which the objects of both are frozen.
KOPF_DELAY, GC_FREEZE_DELAY = 2.0, 60.0

#: Seconds that reconciles wait for the CA by which pods report: without one they cannot, and train all the same.
AUTHORITY_TIMEOUT = 10.0

log = logging.getLogger(__name__)


class Operator:
    """The controller without kopf, which the caller runs; kopf's events call `seen`.

    `ready` is set after the cache sync (see `Controller`), `over` when the process must stop, and `broken` is true if a
    background task exited unexpectedly.
    """

    def __init__(
        self,
        settings: Config,
        frameworks: tuple[Framework, ...],
        transport: Transport,
        clock: Clock,
        forward: PortForward | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._metrics = Metrics()
        self._rest = RestClient(transport, self._metrics.count_request, self._metrics.count_skipped_event)
        self._client = client = ApiClient(self._rest, TokenBucket(settings.qps, settings.burst))
        lease_config = LeaseConfig(
            settings.effective_lease_namespace, settings.lease_name, settings.identity, _address_for_reports(settings)
        )
        self._elector = LeaderElector(client, lease_config, self._step_down, clock.seconds)
        if settings.leader_elect:
            client.may_write = self._elector.is_leader
        scope = Scope(frameworks, settings.job_defaults, settings.namespaces)
        self._beside = tuple(self._make_beside())
        observer = Observers(self._metrics, *self._beside) if self._beside else self._metrics
        self._controller = Controller(client, scope, observer, clock.now)
        self._caches = self._controller.caches
        self._followers = LogFollowers(self._rest, self._controller.recorder, clock.now, settings.log_follows)
        self._polls = RasPolls(forward, self._controller.recorder, clock.now) if forward else None
        self._stacks = StackReads(DebugServers(forward).read, _names_port) if forward else None
        for namespaced in self._caches.all.values():
            if settings.job_defaults.progress_logs:
                namespaced.reconciler.watchers.append(partial(self._followers.saw, namespaced.cache))
            if self._stacks:
                self._stacks.watch(namespaced.cache, namespaced.reconciler.watchers)
        self._labels = {framework.kind: framework.label for framework in frameworks}
        if settings.job_metrics:
            self._metrics.register(JobCollector(self._caches.jobs, clock.now))
        self._lag_monitor = LoopLagMonitor()
        self._health_server = HealthServer(self._lag_monitor, self.problem, self._metrics_text, self._caches.remarks)
        #: Set when the CA is known by which pods report: no pod is created before.
        self._has_authority = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._election: list[asyncio.Task[None]] = []
        self.seen, self.is_known, self.ready = self._controller.seen, self._caches.is_known, self._controller.ready
        self.over, self.broken = asyncio.Event(), False

    def problem(self) -> str:
        """Return why the operator is not ready, one problem per line, or an empty string."""
        return "\n".join(problem for problem in (self._elector.refused, self._caches.problem()) if problem)

    async def start(self) -> None:
        """Open the endpoints and start all tasks; jobs are reconciled after the cache sync.

        Raises `NotFound` if there is a gang scheduler and the API server does not serve its PodGroups, unless they are
        Kubernetes' own.
        """
        self._health_server.bind(self._settings.health, self._settings.metrics)
        self._tasks = [self._create_task(partial(self._health_server.run, self.ready), "HealthServer.run")]
        try:
            kinds = await discover_gang_resources(self._client, self._settings.job_defaults.gang_scheduler)
        except ApiError:
            await self.stop()
            raise
        self._controller.watch_pod_groups(kinds)
        runs: list[Callable[[], Coroutine[Any, Any, None]]] = [
            self._reconcile,
            self._lag_monitor.run,
            self._controller.recorder.run,
        ]
        runs += [self._expire_counters, *(informer.run for informer in self._controller.informers)]
        if self._polls:
            runs.append(partial(self._ask_ranks, self._polls))
        runs += [one.run for one in self._beside]
        runs += [self._orphans(namespaced).run for namespaced in self._caches.all.values()]
        if where := _reports_at(self._settings):
            runs.append(partial(self._serve_reports, list(listening_sockets(*where))))
        self._tasks = [*(self._create_task(run, _name(run)) for run in runs), *self._tasks]
        self._election = (
            [self._create_task(self._elector.run, "LeaderElector.run")] if self._settings.leader_elect else []
        )

    async def stop(self) -> None:
        """Shut down in order: start no reconcile, finish the running ones, flush Events, release the Lease.

        A reconcile that does not finish soon may send no more requests, and the ones in flight are awaited: the
        shutdown takes at most five seconds, however slow the API server is. The next leader plans again what was not
        done.
        """
        end = asyncio.get_running_loop().time() + ALTOGETHER
        for task in self._tasks[:1]:
            task.cancel()  # start no new reconcile
        worker = self._controller.worker
        if not await worker.finish(SHUTDOWN_GRACE):
            self._client.limiters.close()
            await worker.finish(ANSWERS)
        await worker.give_up()
        self._controller.queue.clear()
        try:
            async with asyncio.timeout(EVENT_FLUSH_TIMEOUT):
                last = (one.finish(EVENT_FLUSH_TIMEOUT) for one in self._beside)
                await asyncio.gather(self._controller.recorder.flush(), *last)
        except TimeoutError:
            log.warning("timed out flushing Events")
        self._stop_watching()
        await _cancel(self._tasks)
        await self._elector.release(end - asyncio.get_running_loop().time())
        await _cancel(self._election)
        await self._health_server.close()
        await self._rest.close()

    async def _reconcile(self) -> None:
        await self._controller.run(self._may_reconcile)

    async def _may_reconcile(self) -> None:
        if self._settings.leader_elect:
            await self._elector.acquired.wait()
        if _reports_at(self._settings):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._has_authority.wait(), AUTHORITY_TIMEOUT)

    async def _serve_reports(self, sockets: list[socket.socket]) -> None:
        """Receive reports of trainings; the modules for it are imported only here."""
        module = await asyncio.to_thread(import_module, f"{__package__}.progress_endpoint")
        count, now = self._metrics.count_report, self._clock.now
        endpoint = module.make_endpoint(self._settings, self._rest, self._controller, count, now)
        await endpoint.run(sockets, self._leader_for_reports, self._has_authority)

    def _leader_for_reports(self) -> str | None:
        """Return the address of the leader: None if this replica leads and knows the jobs, "" if none is known."""
        if self._client.may_write():
            return None if self.ready.is_set() else ""
        return self._elector.address_of_leader()

    async def _expire_counters(self) -> None:
        while True:
            await asyncio.sleep(COUNTER_EXPIRY_INTERVAL)
            found = self._caches.namespaces_and_kinds()
            self._metrics.expire({MetricScope(namespace, self._labels[kind]) for namespace, kind in found})

    async def _ask_ranks(self, polls: RasPolls) -> None:
        await polls.run([namespaced.cache for namespaced in self._caches.all.values()], self._client.may_write)

    def _create_task(self, run: Callable[[], Coroutine[Any, Any, None]], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(run(), name=name)
        task.add_done_callback(self._on_task_exit)
        return task

    def _on_task_exit(self, task: asyncio.Task[None]) -> None:
        """Stop the process after a background task exited; a restart is better than a stale cache."""
        if task.cancelled():
            return
        log.error("background task %s exited unexpectedly", task.get_name(), exc_info=task.exception())
        self.broken = True
        self.over.set()

    def _step_down(self) -> None:
        self._controller.worker.break_off()
        self._caches.step_down()
        self._stop_watching()
        self._metrics.step_down()
        for one in self._beside:
            one.step_down()

    def _make_beside(self) -> Iterator[Background]:
        """Yield what is done apart from reconciles; the modules of what is off are not imported."""
        store, now, jobs = ConfigMaps(self._client), self._clock.now, self._settings.job_defaults
        if jobs.record:
            yield JobRecords(store, self._tell, now)
        if jobs.record_decisions is not RecordDecisions.NONE:
            recorder = import_module(f"{__package__}.job_decisions").JobDecisions
            yield recorder(store, self._tell, self._metrics.count_decisions, now)
        if self._settings.notify_webhooks:
            make = import_module(f"{__package__}.notifier").make_notifier
            yield make(self._settings, self._client, self._tell, self._metrics, now)

    def _tell(self, job: Job, event: Event) -> None:
        self._controller.recorder.record(job, event)

    def _stop_watching(self) -> None:
        self._followers.stop()
        if self._stacks:
            self._stacks.stop()

    def _orphans(self, namespaced: NamespaceCache) -> Orphans:
        def may_act() -> bool:
            return namespaced.ready.is_set() and self._client.may_write()

        return Orphans(self._client, namespaced.cache, may_act, track_results=self._settings.job_defaults.track_results)

    def _metrics_text(self) -> bytes:
        gauges = self._metrics.gauges
        gauges.waiting.set(len(self._controller.queue))
        gauges.lag.set(self._lag_monitor.max_lag)
        gauges.leading.set(self._client.may_write())
        gauges.skew.set(self._clock.skew())
        gauges.in_flight.set(self._rest.under_way)
        for limiter, waiting in self._client.limiters.waiting().items():
            gauges.queued_writes.labels(limiter).set(waiting)
        gauges.ages.clear()
        for plural, seconds in self._caches.watch_ages().items():
            gauges.ages.labels(plural).set(seconds)
            self._metrics.count_skipped_event(plural, 0)
        for namespace, is_served in self._caches.served().items():
            gauges.served.labels(namespace).set(is_served)
        self._metrics.set_jobs(self._caches.states(), self._labels)
        return self._metrics.text()


def _names_port(job: Job) -> bool:
    return job.debug_port is not None


def _reports_at(settings: Config) -> tuple[str | None, int] | None:
    """Return where reports of trainings are received, None if they are not."""
    return bind_address(settings.progress) if settings.job_defaults.progress_server else None


def _address_for_reports(settings: Config) -> str:
    """Return the address at which other replicas reach this one: a pod's host name is that of its address."""
    where = _reports_at(settings)
    if where is None:
        return ""
    try:
        host = socket.getaddrinfo(where[0] or socket.gethostname(), None, type=socket.SOCK_STREAM)[0][4][0]
    except OSError:
        return ""
    return f"[{host}]:{where[1]}" if ":" in str(host) else f"{host}:{where[1]}"


def _name(run: Callable[[], Coroutine[Any, Any, None]]) -> str:
    return run.func.__qualname__ if isinstance(run, partial) else run.__qualname__


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def run(config: Config) -> int:
    """Run the operator until a signal or an error ends it; return the exit code."""
    process.configure_logging(config.log_level, config.log_format)
    for warning in config.flag_warnings:
        log.warning("%s", warning)
    if config.job_defaults.progress_logs:
        process.allow_open_files(config.log_follows + OTHER_FILES)
    # The caches hold many small objects that live long; collecting them as often as by default costs more than it
    # frees. The young generation must be collected: kopf leaves each event in a reference cycle, with the whole job.
    gc.set_threshold(10_000, 50, 50)
    gc.enable()  # it is disabled while the modules are imported
    # A failing kopf drops coroutines that it was about to start; the failure is logged already.
    warnings.filterwarnings("ignore", "coroutine 'worker' was never awaited", RuntimeWarning)
    with asyncio.Runner(loop_factory=EventLoop) as runner:
        return runner.run(run_operator(config))


async def run_operator(config: Config) -> int:
    """Run the operator with kopf beside it; return the exit code."""
    frameworks = served(config.mpi_version, config.kinds)
    try:
        credentials = find_credentials(config.kubeconfig, config.context)
        forward = PortForward(credentials) if config.nccl_ras else None
        operator = Operator(config, frameworks, HttpTransport(credentials), clock := Clock(), forward)
        # Start these before kopf, which treats every task that starts after it as a task of its own that hangs.
        coroutines = (freeze_gc(operator.ready), log_hangs(), exit_after_clock_step(clock, operator))
        tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
        await operator.start()
    except (NoCredentials, ApiError, OSError) as error:
        log.error("%s", error)  # noqa: TRY400 - a traceback would add nothing
        return 1
    log.info("managing %s on %s", ", ".join(framework.kind for framework in frameworks), credentials.server)
    stop = asyncio.Event()
    kopf_task = asyncio.create_task(run_kopf(config, frameworks, credentials, operator, stop))
    process.handle_signals(operator.over)
    await operator.over.wait()
    await operator.stop()
    for task in tasks:
        task.cancel()
    stop.set()
    await asyncio.wait((kopf_task,), timeout=process.GRACE_PERIOD)
    await process.cancel_remaining_tasks()
    faulthandler.cancel_dump_traceback_later()
    log.info("shutdown complete")
    return 1 if operator.broken else 0


async def run_kopf(
    config: Config, frameworks: tuple[Framework, ...], credentials: Credentials, operator: Operator, stop: asyncio.Event
) -> None:
    """Import and run kopf, some seconds after the cache sync: the jobs that wait for the operator come first."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(partial(process.handle_loop_error, asyncio.Event()))
    await process.wait_for_any(operator.ready, stop)
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), KOPF_DELAY)
    if not stop.is_set():
        kopf_shim = await asyncio.to_thread(import_module, f"{__package__}.kopf_shim")
        registry = kopf_shim.registry(frameworks, credentials, operator.seen, operator.is_known)
        await kopf_shim.supervise(registry, config.namespaces, (operator.ready, operator.over, stop))


async def freeze_gc(ready: asyncio.Event) -> None:
    """Exclude the objects that exist after the cache sync from garbage collection.

    Scanning them again and again would make the event loop lag. Nothing is collected first, because jobs wait. A minute
    later kopf has dropped what it listed and keeps little of each job; so the objects are frozen a second time.
    """
    await ready.wait()
    gc.freeze()
    await asyncio.sleep(GC_FREEZE_DELAY)
    gc.unfreeze()
    gc.collect()
    gc.freeze()


async def log_hangs() -> None:
    """Let a separate thread log the stack of the event loop when the loop hangs; the loop itself cannot log then."""
    while True:
        faulthandler.dump_traceback_later(HANG_TIMEOUT)
        await asyncio.sleep(HANG_TIMEOUT / 4)


async def exit_after_clock_step(clock: Clock, operator: Operator) -> None:
    """End the operator with an error when the wall clock was changed; the next start uses the new time."""
    seconds = await clock.stepped()
    log.error("the wall clock stepped by %+.0f s; exiting so that the next start uses the new time", seconds)
    operator.broken = True
    operator.over.set()
