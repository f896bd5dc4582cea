"""The state machine of a job: an ordered tuple of rules, of which the first that returns a plan decides.

Everything that decides a job's life is here: every state transition is made by one of the rules in `RULES`. The other
modules of this package answer questions for the rules; none of them changes the state of a job by itself.

- A rule takes the facts of one snapshot and returns a `Plan`, or None to pass to the next rule. The last rule always
  returns a plan.
- The order of the tuple is the precedence. To change a precedence, move a line; to add behaviour, add a rule.
- A plan holds the status to store, the Events to record, the actions to execute, and the time of the next reconcile.
  The controller stores the status first, then records the Events, then executes the actions.
- Nothing here reads a clock, a file or the network: the time of the reconcile is `facts.now`.
- The status has what was observed and resolved, never what is about to be tried. Counts are computed from the pods at
  every reconcile. The status keeps only what the pods cannot show again: start and completion time, attempts, counted
  restarts, the first failure, and the terminal condition (Succeeded or Failed), which is final.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from msgspec.structs import replace

from trainshed.api.actions import DeleteJob, Event, EventType, Plan
from trainshed.api.job import Replica
from trainshed.api.status import (
    BACKOFF_LIMIT,
    DEADLINE,
    STARTUP_DEADLINE,
    TERMINAL,
    ConditionType,
    Failure,
    Status,
)

from . import (
    conditions,
    dependents,
    false_starts,
    final_counts,
    hangs,
    pod_groups,
    pods,
    regrouping,
    restarts,
    scale_downs,
    start_order,
    stuck_pods,
    waiting,
)
from .conditions import ConditionUpdate
from .facts import Facts, hidden_replicas
from .messages import job_conditions, job_events, replica_failures
from .missing_pods import observed_status
from .restarts import FailureGroup

Rule = Callable[[Facts], Plan | None]


def skip_unmanaged(facts: Facts) -> Plan | None:
    """Leave a job alone that is being deleted or that another controller manages."""
    if facts.job.deleting or facts.job.policy.managed_elsewhere:
        gone = facts.job.deleting
        return Plan(facts.status, actions=pods.release_all(facts.snapshot.pods) if gone else ())
    return None


def clean_up(facts: Facts) -> Plan | None:
    """Apply cleanPodPolicy to the pods of a finished job, update its counts, and delete it when its TTL has expired.

    Another client may write a terminal condition beside an announced one: then pods still end until the same deadline.
    """
    if not facts.status.over:
        return None
    actions = (*pods.apply_clean_pod_policy(facts), *dependents.prune(facts))
    status, holds = final_counts.after_failure(facts), facts.status.ending is not None and bool(facts.holding)
    if not holds:
        status = conditions.remove_conditions(status, *TERMINAL.values())
    plan = Plan(status, job_events.pod_groups_deleted(actions), actions)
    ttl, completion = facts.job.policy.ttl, facts.status.completion
    deadline = pods.end_deadline(facts)
    wait = deadline if deadline and facts.now < deadline and (holds or pods.ending_pods(facts)) else None
    end = completion + timedelta(seconds=ttl) if completion is not None and ttl is not None else None
    if end is None or wait or facts.now < end:
        requeue_at = _earliest(wait, end if end and facts.now < end else None)
        return _with_stuck_pods(facts, replace(plan, requeue_at=requeue_at))
    return Plan(facts.status, actions=(DeleteJob(facts.job.uid, facts.job.version),))


def end(facts: Facts) -> Plan | None:
    """Finish a job of a queue whose end is decided, once its pods hold no resources: the queue then gives them away."""
    ending = facts.status.ending
    if ending is None:
        return None
    if not facts.holding:
        kind = next(kind for kind, announced in TERMINAL.items() if announced is ending.type)
        return _end(facts, facts.status, ConditionUpdate(kind, ending.reason, ending.message))
    actions = (*pods.apply_clean_pod_policy(facts), *dependents.prune(facts))
    plan = Plan(final_counts.with_pods_left(facts, facts.status), job_events.pod_groups_deleted(actions), actions)
    deadline = pods.end_deadline(facts)
    return _with_stuck_pods(facts, replace(plan, requeue_at=deadline if deadline and facts.now < deadline else None))


def refuse(facts: Facts) -> Plan | None:
    """Fail a job with an invalid spec that is to start, or to start again after a suspension."""
    suspended = facts.status.true(ConditionType.SUSPENDED)
    starts = facts.status.start is None or (suspended and not facts.job.policy.suspend)
    if not (facts.job.problems and starts) or facts.snapshot.pods:
        return None
    cause = replica_failures.of_job(facts, "InvalidSpec", job_conditions.refused(facts).message)
    return _with_failure(_finish(facts, job_conditions.refused(facts)), cause)


def suspend(facts: Facts) -> Plan | None:
    """Delete all pods and Services of a suspended job; pods created later belong to a new attempt."""
    if not facts.job.policy.suspend:
        return None
    status = _created(facts, facts.observed)
    actions = (*pods.delete_all(facts), *dependents.prune(facts))
    if status.true(ConditionType.SUSPENDED):
        return _with_stuck_pods(facts, Plan(status, job_events.pod_groups_deleted(actions), actions))
    update = job_conditions.suspended(facts)
    if facts.owned:
        status = replace(status, attempts=restarts.start_attempt(status, facts.groups or status.attempts).attempts)
    if status.true(ConditionType.RUNNING):
        status = conditions.set_condition(status, replace(update, kind=ConditionType.RUNNING), facts.now, true=False)
    status = conditions.remove_conditions(status, ConditionType.RESTARTING, ConditionType.BLOCKED)
    status = conditions.set_condition(status, update, facts.now)
    return _with_stuck_pods(facts, Plan(status, (_event(update), *job_events.pod_groups_deleted(actions)), actions))


def leave_invalid(facts: Facts) -> Plan | None:
    """Create nothing for a started job whose spec has become invalid, until it is corrected or the job ends.

    A user who may edit a job can make its spec invalid: that keeps no pods from a queue or an administrator.
    """
    if not facts.job.problems:
        return None
    suspended = facts.status.true(ConditionType.SUSPENDED)  # its last pods are about to go
    if not suspended and (plan := expire(facts) or (succeed(facts) if facts.groups else None)):
        return plan
    event = job_events.invalid_spec(job_conditions.refused(facts).message)
    plan = Plan(facts.observed, (event,), requeue_at=None if suspended else _deadline(facts))
    return _with_stuck_pods(facts, plan)


def resume(facts: Facts) -> Plan | None:
    """Restart a job that is no longer suspended, with a new start time and so a new deadline."""
    if not facts.status.true(ConditionType.SUSPENDED):
        return None
    update = job_conditions.resumed(facts)
    status = conditions.set_condition(facts.observed, update, facts.now, true=False)
    status = restarts.clear_completions(replace(status, start=facts.now), facts.groups)
    end = scale_downs.earliest_resume(facts)
    status = replace(status, retries=replace(status.retries, consecutive_failures=0, next_retry_time=end))
    return Plan(status, (_event(update),), requeue_at=facts.now)


def expire(facts: Facts) -> Plan | None:
    """Fail a job that has run longer than activeDeadlineSeconds."""
    end = _deadline(facts)
    if end is None or facts.now < end:
        return None
    plan = _finish(facts, job_conditions.deadline_exceeded(facts), DEADLINE)
    return _with_failure(plan, job_conditions.deadline_failure(facts))


def succeed(facts: Facts) -> Plan | None:
    """Complete the job when the replicas that define success have succeeded, whatever the state of the others."""
    return _finish(facts, job_conditions.succeeded(facts)) if facts.achieved else None


def await_root_cause(facts: Facts) -> Plan | None:
    """Delay a failure that would end the job for a moment, in case another replica turns out to be its cause."""
    end = restarts.settles_at(facts)
    if end is None:
        return None
    plan, too_early = reconcile_replicas(facts), job_events.failures(facts)
    events = tuple(event for event in plan.events if event not in too_early)
    return replace(plan, events=events, requeue_at=_earliest(end, plan.requeue_at))


def fail(facts: Facts) -> Plan | None:
    """Fail the job after a failure that must not be retried, or when backoffLimit is reached."""
    if restarts.container_restarts_exhausted(facts):
        last = replica_failures.last_container_failure(facts)
        update = job_conditions.backoff_limit_reached(facts, job_conditions.container_restarts_detail(facts, last))
        plan = _finish(facts, update, BACKOFF_LIMIT)
        return _with_failure(plan, replica_failures.with_last_line(last)) if last else plan
    group = restarts.failure_group(facts)
    if group is None:
        return None
    if (at_limit := _at_limit(facts, group)) is not None:
        return at_limit
    for replica, failure in group.failures.items():
        if restarts.permanent(facts, replica, failure):
            plan = _finish(facts, job_conditions.failed(facts, replica, failure))
            return _fatal(facts, group, plan, (replica, failure))
    return None


def _at_limit(facts: Facts, group: FailureGroup) -> Plan | None:
    """Return the plan that fails the job if these failures exceed backoffLimit."""
    if not restarts.backoff_limit_reached(facts, group):
        return None
    update = job_conditions.backoff_limit_reached(facts, job_conditions.backoff_limit_detail(facts, group))
    return _fatal(facts, group, _finish(facts, update, BACKOFF_LIMIT), restarts.root_cause(group))


def restart(facts: Facts) -> Plan | None:
    """Restart the failed replicas, and all that restart together with them, and count the restart.

    Replicas are not restarted while one of their pods still exists without the labels that the watch selects by.
    """
    found = None if hidden_replicas(facts) else restarts.failure_group(facts)
    group = restarts.restartable(facts, found) if found else None
    if group is None:
        return None
    return _restarted(facts, group)


def restart_hung(facts: Facts) -> Plan | None:
    """Restart a job whose training hangs as a whole if its annotations ask for it, or fail it at backoffLimit."""
    group = hangs.failure_group(facts)
    if group is None:
        return None
    return _at_limit(facts, group) or _restarted(facts, group)


def _restarted(facts: Facts, group: FailureGroup) -> Plan:
    cause = replica_failures.with_message(facts, *restarts.root_cause(group))
    cause = replica_failures.with_last_line(cause)
    status = restarts.record_restart(facts, group, _created(facts, restarts.next_attempt(facts, group)), cause)
    update = job_conditions.restarting(facts, group, status)
    if not facts.after(status).running:
        status = conditions.set_condition(status, update, facts.now)
    events = (*job_events.failures(facts, group), replace(_event(update), type=EventType.WARNING))
    return Plan(status, events, pods.delete_stale(facts.after(status)), requeue_at=facts.now)


def start_up(facts: Facts) -> Plan | None:
    """Fail a job if a replica has not started running before the start-up deadline."""
    late = stuck_pods.startup_overdue(facts)
    if late is None:
        return None
    failure = waiting.failure_to_start(facts, *late)
    plan = _finish(facts, job_conditions.start_up_failed(facts, failure), STARTUP_DEADLINE)
    return _with_failure(plan, replica_failures.with_last_line(failure))


def reconcile_replicas(facts: Facts) -> Plan:
    """Delete stale pods and Services, create missing ones, and update the conditions."""
    status = _with_blocked(facts, _created(facts, observed_status(facts)))
    if facts.running:
        status = conditions.set_condition(status, job_conditions.running(facts), facts.now)
    status = hangs.with_stalled(facts, _with_additions(facts, status))
    after = facts.after(status)
    actions = (
        *dependents.apply(after),
        *pods.delete_stale(after),
        *pods.release_counted(facts),
        *pods.create_missing(after),
    )
    wrong = (*job_events.overwritten(facts), *job_events.other_schedulers(facts), *job_events.tracking_disabled(facts))
    wrong = (*wrong, *job_events.logs_disabled(facts), *job_events.record_disabled(facts))
    wrong = (*wrong, *job_events.notify_disabled(facts), *job_events.warnings(facts))
    events = (
        *wrong,
        *job_events.template_changed(facts, job_conditions.outdated_pods(facts)),
        *job_events.failures(facts),
        *job_events.pods(facts),
        *job_events.stalled(facts, status),
    )
    end = _deadline(after)
    if end and facts.status.start is None:  # it counts from when the status is stored, a little later
        end = max(end, facts.now + timedelta(seconds=1))
    times = [end, _next_retry(after), stuck_pods.next_startup_check(after), waiting.next_check(facts)]
    times += [pod_groups.next_check(facts), scale_downs.earliest_creation(after), hangs.next_check(after)]
    times += [*false_starts.postponed(facts).values(), start_order.next_check(after)]
    requeue_at = facts.now if pods.more_to_create(actions) else _earliest(*times)
    return _with_stuck_pods(facts, Plan(status, events, actions, requeue_at=requeue_at))


RULES: tuple[Rule, ...] = (
    skip_unmanaged,  # being deleted, or managed by another controller
    clean_up,  # finished: delete the pods as cleanPodPolicy says, and the job after its TTL
    end,  # in a queue, its end decided: finished once no pod holds resources
    refuse,  # invalid spec, about to start
    suspend,  # suspended: delete all pods and Services
    leave_invalid,  # invalid spec, started: its deadline or success end it
    resume,  # no longer suspended
    expire,  # activeDeadlineSeconds exceeded
    succeed,  # the replicas that define success have succeeded
    await_root_cause,  # a failure so recent that its cause may not be known yet
    fail,  # a failure that must not be retried, or backoffLimit reached
    restart,  # failed replicas move to their next attempt
    start_up,  # start-up deadline exceeded
    restart_hung,  # no progress, and a restart is wanted then
    regrouping.regroup,  # in a group of Kueue, and its size has changed
    reconcile_replicas,  # delete what is stale, create what is missing
)


def _created(facts: Facts, status: Status) -> Status:
    """Return the status with the condition Created, and with a start time unless the job is suspended."""
    status = restarts.record_recovery(facts, conditions.set_condition(status, job_conditions.created(facts), facts.now))
    idle = facts.job.policy.suspend or status.start is not None
    return status if idle else replace(status, start=facts.now)


def _finish(facts: Facts, update: ConditionUpdate, limit: str = "") -> Plan:
    """Return the plan that finishes the job, because of a limit or not.

    While pods of a job of a queue hold resources, the condition is only announced: the queue would give these away.
    """
    status = replace(_created(facts, facts.observed), pending_replacement=(), limit_exceeded=limit)
    if update.kind is ConditionType.SUCCEEDED:
        status = final_counts.after_success(facts, status)
    announced = conditions.set_condition(status, replace(update, kind=TERMINAL[update.kind]), facts.now)
    ending = facts.after(announced)
    if not (facts.job.queued and ending.holding):
        return _end(facts, status, update)
    return Plan(final_counts.with_pods_left(ending, announced), requeue_at=facts.now)


def _end(facts: Facts, status: Status, update: ConditionUpdate) -> Plan:
    """Return the plan that stores the terminal condition."""
    counts = {role: replace(count, not_running=0) for role, count in status.replica_statuses.items()}
    status = conditions.set_condition(replace(status, replica_statuses=counts), update, facts.now)
    return Plan(replace(status, completion=facts.now), (_event(update),), requeue_at=facts.now)


def _with_additions(facts: Facts, status: Status) -> Status:
    """Return the status with what follows v1's messages of Created and of Running, while that is true."""
    progress = job_conditions.progress(facts, start_order.sentence(facts))
    status = conditions.set_addition(status, job_conditions.created(facts), progress, facts.now)
    if not status.true(ConditionType.RUNNING):
        return status
    outdated = job_conditions.outdated_pods(facts)
    return conditions.set_addition(status, job_conditions.running(facts), outdated, facts.now)


def _event(update: ConditionUpdate) -> Event:
    return Event(
        EventType.WARNING if update.kind is ConditionType.FAILED else EventType.NORMAL, update.reason, update.message
    )


def _fatal(facts: Facts, group: FailureGroup, plan: Plan, root_cause: tuple[Replica, Failure]) -> Plan:
    events = (*job_events.failures(facts, group), *plan.events)
    cause = replica_failures.with_last_line(replica_failures.with_message(facts, *root_cause))
    return _with_failure(replace(plan, events=events), cause)


def _with_failure(plan: Plan, cause: Failure) -> Plan:
    return replace(plan, status=replace(plan.status, failure=cause))


def _with_blocked(facts: Facts, status: Status) -> Status:
    """Set the condition Blocked while pods cannot be created, do not run or do not terminate; remove it afterwards."""
    status = replace(status, waiting=waiting.waiting(facts))
    refusal = facts.snapshot.refusal
    if refusal:
        return conditions.set_condition(status, job_conditions.blocked(facts, refusal), facts.now)
    if wait := pod_groups.wait(facts):
        return conditions.set_condition(status, wait, facts.now)
    if stuck := stuck_pods.stuck_condition(facts):
        return conditions.set_condition(status, stuck, facts.now)
    if blocking := waiting.blocking(facts, status.waiting):
        return conditions.set_condition(status, job_conditions.not_running(facts, blocking), facts.now)
    known = status.condition(ConditionType.BLOCKED)
    if known is None:
        return status
    incomplete = start_order.gated_replicas(facts) != facts.missing or pods.missing_services(facts)
    resolved = known.reason == stuck_pods.STUCK_TERMINATING or waiting.is_cause_of(facts.status, known)
    return status if incomplete and not resolved else conditions.remove_conditions(status, ConditionType.BLOCKED)


def _with_stuck_pods(facts: Facts, plan: Plan) -> Plan:
    """Return the plan with Events, forced deletions and a requeue time for pods that are stuck terminating."""
    if not facts.terminating:
        return plan
    events, actions = (*plan.events, *stuck_pods.stuck_events(facts)), (*plan.actions, *stuck_pods.force_delete(facts))
    requeue_at = _earliest(plan.requeue_at, stuck_pods.next_stuck_check(facts))
    return replace(plan, events=events, actions=actions, requeue_at=requeue_at)


def _deadline(facts: Facts) -> datetime | None:
    seconds, start = facts.job.policy.deadline, facts.status.start
    return start + timedelta(seconds=seconds) if seconds is not None and start else None


def _next_retry(facts: Facts) -> datetime | None:
    retries = facts.status.retries
    return retries.next_retry_time if retries.wait(facts.now) else None


def _earliest(*times: datetime | None) -> datetime | None:
    return min([time for time in times if time], default=None)
