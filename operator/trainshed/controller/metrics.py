"""The metrics of the operator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import cache
from importlib.metadata import version
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, ProcessCollector, generate_latest
from prometheus_client import disable_created_metrics as without_created_series
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from trainshed import decisions
from trainshed.api.actions import (
    Action,
    CreateDependent,
    CreatePod,
    CreateService,
    DeleteDependent,
    DeleteJob,
    DeletePod,
    Plan,
    Snapshot,
)
from trainshed.api.job import JobKey
from trainshed.api.objects import POD_GROUP
from trainshed.api.status import ConditionType, Status
from trainshed.client import ApiError
from trainshed.notify.news import RESULTS
from trainshed.plan.failures import APPLICATION, DISRUPTION, HANG, INFRASTRUCTURE
from trainshed.plan.messages.progress_reports import ACCEPTED, FORWARDED, UNKNOWN_KEYS, ReportRefusal

from .observed_pods import FailedPods, StartupTimes
from .spent_time import SpentTime

LABELS = ("job_namespace", "framework")
#: v1's counters, without the `_total` that the client library adds, and their help texts.
COUNTERS = {
    "training_operator_jobs_created": "Jobs created: the operator stored their first status.",
    "training_operator_jobs_deleted": "Jobs deleted because ttlSecondsAfterFinished expired.",
    "training_operator_jobs_successful": "Jobs that succeeded.",
    "training_operator_jobs_failed": "Jobs that failed for any reason.",
    "training_operator_jobs_restarted": "Restarts of jobs or of some of their pods by the operator.",
    "created_pods": "Pods created by the operator.",
    "deleted_pods": "Pods deleted by the operator.",
    "failed_pods": "Pods that failed, without those that were being deleted.",
    "succeeded_service_creation": "Services created by the operator.",
    "failed_service_creation": "Failed attempts to create a Service.",
    "created_pod_groups": "PodGroups created by the operator.",
    "deleted_pod_groups": "PodGroups deleted by the operator.",
}


class MetricScope(NamedTuple):
    """A namespace and a framework (as in the metric label) whose jobs share one set of counters."""

    namespace: str
    framework: str


class ExpiringCounters(Collector):
    """All twelve counters for each scope with jobs now or recently; the number of namespaces over time is unbounded."""

    def __init__(self) -> None:
        self._scopes: dict[MetricScope, dict[str, int]] = {}
        self._empty: set[MetricScope] = set()

    def collect(self) -> Iterator[Metric]:
        """Yield all counters."""
        for name, help_text in COUNTERS.items():
            family = CounterMetricFamily(name, help_text, labels=LABELS)
            for scope, values in self._scopes.items():
                family.add_metric(scope, values[name])
            yield family

    def count(self, scope: MetricScope, name: str, by: int = 1) -> None:
        """Add `by` to a counter; 0 only creates the series.

        The first call for a scope creates all its counters, because `increase` needs a series that starts at 0.
        """
        found = self._scopes.get(scope)
        if found is None:
            found = self._scopes[scope] = dict.fromkeys(COUNTERS, 0)
        self._empty.discard(scope)
        found[name] += by

    def expire(self, with_jobs: set[MetricScope]) -> None:
        """Remove the scopes without jobs now and at the previous call and without a count in between."""
        for scope in self._empty - with_jobs:
            del self._scopes[scope]
        self._empty = self._scopes.keys() - with_jobs


class Gauges:
    """The gauges; the operator sets them before it serves /metrics."""

    def __init__(self, own: CollectorRegistry) -> None:
        self.waiting = Gauge("trainshed_workqueue_depth", "Jobs waiting in the work queue.", registry=own)
        self.lag = Gauge(
            "trainshed_event_loop_lag_seconds",
            "Maximum lag of the event loop in the last minute, in seconds.",
            registry=own,
        )
        self.skew = Gauge(
            "trainshed_clock_step_seconds",
            "Step of the wall clock since the process started, in seconds.",
            registry=own,
        )
        self.leading = Gauge("trainshed_leader", "1 if this replica is the leader, else 0.", registry=own)
        self.ages = Gauge(
            "trainshed_watch_last_event_age_seconds",
            "Seconds since the last event of a watch.",
            ("resource",),
            registry=own,
        )
        self.served = Gauge(
            "trainshed_namespace_served",
            "1 if the operator serves this namespace, one of those that it is to manage, else 0.",
            ("job_namespace",),
            registry=own,
        )
        self.in_flight = Gauge(
            "trainshed_api_requests_in_flight", "Requests to the API server that are in flight.", registry=own
        )
        self.queued_writes = Gauge(
            "trainshed_api_requests_queued", "Writes that wait for a client-side limiter.", ("limiter",), registry=own
        )
        build = Gauge(
            "trainshed_build_info", "Version of the operator as a label; the value is 1.", ("version",), registry=own
        )
        build.labels(version("trainshed")).set(1)


class ErrorCounters:
    """All error counters."""

    def __init__(self, own: CollectorRegistry) -> None:
        self.reconciles = Counter(
            "trainshed_reconcile_errors",
            "Reconciles that failed because of the API server, by error.",
            ("error",),
            registry=own,
        )
        self.internal = Counter(
            "trainshed_internal_errors", "Reconciles that failed because of an internal error.", registry=own
        )
        self.skipped = Counter(
            "trainshed_watch_events_skipped",
            "Events of a watch that were too long; their objects were read by themselves.",
            ("resource",),
            registry=own,
        )
        self.events = Counter("trainshed_events_dropped", "Events that were not written.", registry=own)
        self.statuses = Counter(
            "trainshed_status_updates_rejected",
            "Status updates that the API server rejected as invalid.",
            ("framework",),
            registry=own,
        )


#: The HTTP codes that the API server uses, and 0.
CODES = frozenset((0, 200, 201, 202, 400, 401, 403, 404, 405, 406, 409, 410, 413, 415, 422, 429, 500, 502, 503, 504))
#: Why a job failed or was restarted: its spec is invalid, its deadline has passed, or the class of its first failure.
#: `Other` means that the status has no class.
INVALID, DEADLINE, OTHER = "Invalid", "Deadline", "Other"
CLASSES = (APPLICATION, INFRASTRUCTURE, DISRUPTION, HANG, OTHER)
FAILURE_CLASSES = (INVALID, DEADLINE, *CLASSES)


def cause_of_restart(before: Status, after: Status) -> str:
    """Return the class of the failure that caused a restart."""
    is_new = after.recent_restarts and after.recent_restarts != before.recent_restarts
    newest = after.recent_restarts[-1].kind if is_new else ""
    return newest if newest in CLASSES else OTHER


def cause_of_failure(snapshot: Snapshot, after: Status) -> str:
    """Return the class of a failed job; in the order in which the planner's rules apply."""
    job, failure = snapshot.job, after.failure
    if job.problems:
        return INVALID
    end = after.start + timedelta(seconds=job.policy.deadline) if after.start and job.policy.deadline else None
    if end is not None and snapshot.now >= end:
        return DEADLINE
    return failure.kind if failure and failure.kind in CLASSES else OTHER


#: Every state of a job as a label value; Pending means that no condition is set yet.
STATES = ("Pending", *(str(kind) for kind in ConditionType if kind is not ConditionType.STALLED))
#: Buckets in seconds. A reconcile without requests takes a millisecond, one that creates a thousand pods many seconds.
RECONCILE_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
#: Buckets in seconds. Pods of a small job start at once if their images are present; others wait hours for quota.
STARTUP_BUCKETS = (1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400)
#: Buckets in seconds. Usually no job waits; after a restart with many jobs the last ones wait long.
WAIT_BUCKETS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


def _counter(name: str, text: str, label: str, values: Iterable[str], registry: CollectorRegistry) -> Counter:
    """Return a counter that has a series for each value of its label from the beginning."""
    counter = Counter(name, text, (label,), registry=registry)
    for value in values:
        counter.labels(value)
    return counter


class Metrics:
    """All metrics in a registry of their own. No label contains a job's name, whose number of values is unbounded."""

    def __init__(self) -> None:
        # Creation times of counters are not used and would double the size of the response.
        without_created_series()  # type: ignore[no-untyped-call]
        own = self.registry = CollectorRegistry()
        ProcessCollector(registry=own)
        self._counters = ExpiringCounters()
        self.register(self._counters)
        self._reconcile_durations = Histogram(
            "trainshed_reconcile_duration_seconds",
            "Reconcile time in seconds.",
            registry=own,
            buckets=RECONCILE_BUCKETS,
        )
        self._waits = Histogram(
            "trainshed_workqueue_queue_duration_seconds",
            "Time a job waited in the work queue, in seconds.",
            registry=own,
            buckets=WAIT_BUCKETS,
        )
        self._errors = ErrorCounters(own)
        requests = Counter(
            "trainshed_api_requests", "Requests to the API server.", ("verb", "resource", "code"), registry=own
        )
        self._request_counter = cache(requests.labels)  # looking up the labels takes longer than counting
        self._failures = Counter(
            "trainshed_jobs_failed", "Failed jobs by failure class.", ("framework", "class"), registry=own
        )
        self._restarts = Counter(
            "trainshed_jobs_restarted", "Restarts by failure class.", ("framework", "class"), registry=own
        )
        stalled = "Jobs that have turned Stalled."
        self._stalled = Counter("trainshed_jobs_stalled", stalled, ("framework",), registry=own)
        self._startup_times = Histogram(
            "trainshed_job_startup_seconds",
            "Time from creation or resumption of a job until all its pods run, in seconds.",
            ("framework",),
            registry=own,
            buckets=STARTUP_BUCKETS,
        )
        reports = "Reports of trainings that were received, by what became of them."
        answers = (ACCEPTED, UNKNOWN_KEYS, FORWARDED, *ReportRefusal)
        self._reports = _counter("trainshed_progress_reports", reports, "answer", answers, own)
        notifications = "Messages to webhooks, by what became of them."
        self._notifications = _counter("trainshed_notifications", notifications, "result", RESULTS, own)
        recorded = "Decisions about jobs that are to be recorded, by what became of them."
        self._decisions = _counter("trainshed_recorded_decisions", recorded, "result", decisions.RESULTS, own)
        self._failed_pods, self._starting, self._time = FailedPods(), StartupTimes(), SpentTime(own)
        self.gauges = Gauges(own)
        self._jobs = Gauge("trainshed_jobs", "Jobs by state.", ("framework", "state"), registry=own)

    def observe_reconcile(self, seconds: float) -> None:
        """Observe the duration of a reconcile."""
        self._reconcile_durations.observe(seconds)

    def count_error(self, error: ApiError) -> None:
        """Count a reconcile that failed with this error, which may be a normal one such as a conflict."""
        self._errors.reconciles.labels(type(error).__name__).inc()

    def count_internal_error(self) -> None:
        """Count a reconcile that failed with an internal error, and nothing else: an alert fires on it."""
        self._errors.internal.inc()

    def count_rejected_status(self, snapshot: Snapshot) -> None:
        """Count a status update of this job that the API server rejected."""
        self._errors.statuses.labels(snapshot.framework.label).inc()

    def observe_queue_time(self, seconds: float) -> None:
        """Observe the time that a job waited in the work queue."""
        self._waits.observe(seconds)

    def count_dropped_event(self) -> None:
        """Count an Event that was not written."""
        self._errors.events.inc()

    def count_skipped_event(self, resource: str, by: int = 1) -> None:
        """Count an event of a watch that was too long; by 0 only creates the series."""
        self._errors.skipped.labels(resource).inc(by)

    def count_request(self, verb: str, resource: str, code: int) -> None:
        """Count a request to the API server; code 0 means no response.

        An admission webhook may answer with any code from 400 to 999: those that the API server does not use itself are
        one for each hundred, so that webhooks make no new series.
        """
        label = str(code or "none") if code in CODES else f"{code // 100}xx"
        self._request_counter(verb, resource, label).inc()

    def count_report(self, answer: str) -> None:
        """Count a report of a training by what became of it."""
        self._reports.labels(answer).inc()

    def count_notification(self, result: str) -> None:
        """Count a message to a webhook by what became of it."""
        self._notifications.labels(result).inc()

    def count_decisions(self, result: str, number: int) -> None:
        """Count decisions that are to be recorded by what became of them."""
        self._decisions.labels(result).inc(number)

    def on_decision(self, snapshot: Snapshot, plan: Plan) -> None:
        """Count nothing: what a decision has changed is counted when it is done."""

    def on_status_stored(self, snapshot: Snapshot, after: Status) -> None:
        """Count what changed between the snapshot's status and the stored one."""
        before = snapshot.status
        turned = {
            "training_operator_jobs_created": after.turned_true(ConditionType.CREATED, before),
            "training_operator_jobs_successful": after.turned_true(ConditionType.SUCCEEDED, before),
            "training_operator_jobs_failed": after.turned_true(ConditionType.FAILED, before),
            "training_operator_jobs_restarted": after.restarts_pods(before),
        }
        for name, changed in turned.items():
            self._count(snapshot, name, int(changed))
        label = snapshot.framework.label
        if turned["training_operator_jobs_failed"]:
            self._failures.labels(label, cause_of_failure(snapshot, after)).inc()
        if turned["training_operator_jobs_restarted"]:
            self._restarts.labels(label, cause_of_restart(before, after)).inc()
        if after.turned_true(ConditionType.STALLED, before):
            self._stalled.labels(label).inc()
        self._starting.on_status_stored(snapshot, after)
        self._time.on_status_stored(snapshot, after)

    def on_reconcile(self, snapshot: Snapshot) -> None:
        """Count the pods that have failed since the last reconcile of the job, and observe its startup time."""
        self._time.on_reconcile(snapshot)
        self._count(snapshot, "failed_pods", self._failed_pods.count_new(snapshot))
        if (seconds := self._starting.observe(snapshot)) is not None:
            self._startup_times.labels(snapshot.framework.label).observe(seconds)

    def forget(self, key: JobKey, now: datetime) -> None:
        """Forget what is kept of a deleted job; the counters stay."""
        self._time.forget(key, now)
        self._failed_pods.forget(key)
        self._starting.forget(key)

    def step_down(self) -> None:
        """Forget what is kept of all jobs: another replica counts now."""
        self._failed_pods, self._starting = FailedPods(), StartupTimes()
        self._time.step_down()

    def count_action(self, snapshot: Snapshot, action: Action, *, success: bool) -> None:
        """Count an action that succeeded or failed."""
        match action:
            case CreatePod() if success:
                self._count(snapshot, "created_pods")
            case DeletePod() if success:
                self._count(snapshot, "deleted_pods")
            case CreateService():
                self._count(snapshot, "succeeded_service_creation" if success else "failed_service_creation")
            case DeleteJob() if success:
                self._count(snapshot, "training_operator_jobs_deleted")
            case CreateDependent() if success and action.resource.kind == POD_GROUP:
                self._count(snapshot, "created_pod_groups")
            case DeleteDependent() if success and action.resource.kind == POD_GROUP:
                self._count(snapshot, "deleted_pod_groups")

    def register(self, series: Collector) -> None:
        """Register another collector."""
        self.registry.register(series)

    def set_jobs(self, jobs: Mapping[tuple[str, str], int], labels: Mapping[str, str]) -> None:
        """Set the number of jobs by kind and state; missing states are 0. `labels` maps kinds to frameworks.

        It also creates the other series of each framework at 0, because `increase` needs a series that starts at 0.
        """
        for kind, framework in labels.items():
            self._startup_times.labels(framework)
            self._stalled.labels(framework)
            self._errors.statuses.labels(framework)
            self._time.begin(framework)
            for word in FAILURE_CLASSES:
                self._failures.labels(framework, word)
            for word in CLASSES:
                self._restarts.labels(framework, word)
            for word in STATES:
                self._jobs.labels(framework, word).set(jobs.get((kind, word), 0))

    def expire(self, with_jobs: set[MetricScope]) -> None:
        """Remove the counters of namespaces without jobs; called periodically."""
        self._counters.expire(with_jobs)

    def text(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        return generate_latest(self.registry)

    def _count(self, snapshot: Snapshot, name: str, by: int = 1) -> None:
        self._counters.count(MetricScope(snapshot.job.namespace, snapshot.framework.label), name, by)
