"""The planner: takes a snapshot and returns a plan, without clock, network or randomness."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from trainshed.api import kueue_groups
from trainshed.api.actions import Plan, Snapshot, all_pods
from trainshed.api.job import Job, RestartScope, ServiceForm
from trainshed.api.objects import ROLES
from trainshed.api.replicas import replicas_by_name
from trainshed.api.status import Status
from trainshed.api.trainer_status import REPORT_INTERVAL

from . import conditions, dependents, failures, hangs, pod_groups, restarts
from .facts import Facts
from .messages import job_events
from .missing_pods import missing_pods, pods_to_verify, unwatched_pods
from .phases import with_time_spent
from .rules import (
    RULES,
    Rule,
    await_root_cause,
    clean_up,
    end,
    fail,
    reconcile_replicas,
    restart,
    restart_hung,
    skip_unmanaged,
    suspend,
)

__all__ = ["plan"]

#: The rules whose plan may change to a restart once the API server has answered about missing pods.
_RESTARTS = (await_root_cause, restart, reconcile_replicas)
#: The rules whose plan has the updates of all other objects of the job.
_COMPLETE = (clean_up, end, suspend, await_root_cause, reconcile_replicas)
#: The rules whose plan may depend on the nodes of the failures. While a cause is awaited detectors find more.
_FOR_FAILURES = (fail, restart, restart_hung)
#: A pod that is ahead of the status by more attempts than this is ignored: its annotation was edited. Two attempts are
#: at least one second apart.
MAX_ATTEMPTS_AHEAD = 1_000_000


def plan(snapshot: Snapshot) -> Plan:
    """Return the status to store, the Events to record and the actions to execute, of the first rule that applies.

    The plan also says what must be read from the API server before it is used.
    """
    facts = Facts(restore_attempts(_keep_group(_keep_form(snapshot))))
    rule, found = next((rule, result) for rule in RULES if (result := rule(facts)))
    if rule is skip_unmanaged:
        found = replace(found, rule=rule.__name__)
    else:
        status = _with_workload(facts.job, conditions.with_state(found.status))
        named = replace(found, status=status, rule=rule.__name__)
        found = _with_report(snapshot, named)
        found = replace(found, status=hangs.with_stragglers(snapshot, found.status))
        if found.status != snapshot.status:  # time that passes is no reason to write a status
            found = replace(found, status=with_time_spent(facts, found.status))
    if rule not in _COMPLETE and any(one.resource is ROLES for one in snapshot.dependents):
        found = replace(found, actions=(*dependents.update_roles(facts), *found.actions))
    if facts.job.checkpoint_grace is not None and rule is not skip_unmanaged:
        found = replace(found, events=(*found.events, *job_events.grace_periods(facts)))
    pods, events, nodes = _pods_to_verify(facts, rule), _events_to_read(facts), _nodes_to_read(facts, rule)
    if not (pods or events or nodes):
        return found
    return replace(found, pods_to_verify=pods, events_to_read=events, nodes_to_read=nodes)


def _with_report(snapshot: Snapshot, found: Plan) -> Plan:
    """Return the plan with the training's last report, or with the time at which that is due to be stored.

    It is with an end or a restart of the job, and soon after the end, or with another change of the status. A new
    attempt keeps the old report until there is another one.
    """
    known, report = snapshot.status.trainer, snapshot.training
    if report is None or not report.differs(known):
        return found
    soon = found.status.over or found.status != snapshot.status
    due = known.updated + (REPORT_INTERVAL if soon else report.interval(known)) if known else snapshot.now
    if due <= snapshot.now or found.status.must_precede(snapshot.status):
        return replace(found, status=replace(found.status, trainer=report.stored))
    return replace(found, requeue_at=min(filter(None, (found.requeue_at, due))))


def _pods_to_verify(facts: Facts, rule: Rule) -> tuple[str, ...]:
    """Return the names of pods that may still exist, though the cache does not have them.

    Plans that create pods need to know, those that may turn into a restart, and those that stop all pods. Before all
    replicas restart together these are missing pods whether or not they are known to have existed; `facts.MAX_NAMED` of
    many.
    """
    if rule is skip_unmanaged:
        return ()
    unwatched = unwatched_pods(facts) if rule not in _RESTARTS or facts.job.queued else ()
    if rule not in _RESTARTS:
        return unwatched
    known = dict.fromkeys((*pods_to_verify(facts), *unwatched))
    # Most missing pods have not been created yet: without a failure there is nothing to check.
    if restarts.failure_group(facts) is None:
        return tuple(known)
    return tuple(known | dict.fromkeys(missing_pods(facts)))


def _events_to_read(facts: Facts) -> str:
    return pod_groups.events_to_read(facts) if facts.snapshot.job_defaults.gang_scheduler else ""


def _nodes_to_read(facts: Facts, rule: Rule) -> tuple[str, ...]:
    """Return the nodes that may explain the failures that end the job or restart replicas."""
    if not facts.snapshot.job_defaults.node_health or rule not in _FOR_FAILURES:
        return ()
    hung = hangs.failure_group(facts) if rule is restart_hung else None
    return failures.nodes_to_read((hung.failures if hung else facts.failed).values(), facts.snapshot.node_reports)


def _keep_form(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with the form of Services that the job's pods have, while there are pods.

    So all pods of an attempt find each other, whatever has become of the annotation or the operator's default. If pods
    of both forms exist, new ones get a Service of their own.
    """
    job = snapshot.job
    pods = all_pods(snapshot)
    if not pods or not snapshot.framework.objects.services:
        return snapshot
    joined = all(pod.service for pod in pods)
    form = ServiceForm.JOB if joined else ServiceForm.REPLICA
    return snapshot if form is job.services else replace(snapshot, job=replace(job, services=form))


def _keep_group(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with a job that is grouped if its pods are in a group of Kueue, while there are pods.

    The annotation decides for those that are created when there are none.
    """
    job, pods = snapshot.job, all_pods(snapshot)
    if not (job.queue_labels and pods):
        return snapshot
    grouped = all(pod.group_size for pod in pods)
    if grouped is job.grouped:
        return snapshot
    return replace(snapshot, job=replace(job, grouped=grouped, scope=RestartScope.JOB if grouped else job.scope))


def _with_workload(job: Job, status: Status) -> Status:
    """Return the status with the name of the group of the job's pods in Kueue, which an end keeps."""
    name = kueue_groups.name_of(job.name, job.uid, status.attempts) if job.grouped else ""
    return status if status.over or name == status.workload else replace(status, workload=name)


def restore_attempts(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with the attempts of its roles not older than those of their pods.

    An attempt is stored before its pods are created. Pods of a later attempt than that of the status show that the
    status was overwritten, or that etcd was restored from an older backup. These pods stay, and the attempts that the
    status lacks count as restarts: one restart counted too many is better than restarts without a limit.
    """
    status, job = snapshot.status, snapshot.job
    if status.over or job.deleting or job.policy.managed_elsewhere or not job.groups:
        return snapshot
    roles = {group.role for group in job.groups}
    known = {role: attempt for role, attempt in status.attempts.items() if role in roles}
    attempts = known | _later_attempts(snapshot, known)
    if attempts == status.attempts:
        return snapshot
    forgotten = max((attempt - known.get(role, 0) for role, attempt in attempts.items()), default=0)
    retries = replace(status.retries, used=status.retries.used + forgotten)
    return replace(snapshot, status=replace(status, attempts=attempts, retries=retries))


def _later_attempts(snapshot: Snapshot, known: Mapping[str, int]) -> dict[str, int]:
    """Return the latest attempt of the pods by role, where it is later than the known one."""
    found: dict[str, int] = {}
    earliest = min(known.values(), default=0)
    later = [pod for pod in snapshot.pods if pod.attempt > earliest]
    replicas = replicas_by_name(snapshot.job, [pod.name for pod in later])
    for pod in later:
        if pod.name not in replicas:
            continue
        role = replicas[pod.name].role
        if max(known.get(role, 0), found.get(role, 0)) < pod.attempt <= known.get(role, 0) + MAX_ATTEMPTS_AHEAD:
            found[role] = pod.attempt
    return found
