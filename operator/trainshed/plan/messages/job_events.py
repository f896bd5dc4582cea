"""The Events about a job: how its pods failed, their problems, and what the job asks for in vain."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from trainshed.api import gang
from trainshed.api.actions import Action, DeleteDependent, Event, EventType
from trainshed.api.job import Job, ProgressSource, RecordDecisions, Replica
from trainshed.api.job_annotations import CHECKPOINT_ON_SIGTERM, DECISIONS, NOTIFY, PROGRESS, RECORD, TRACK_RESULTS
from trainshed.api.objects import POD_GROUP, Container, Pod
from trainshed.api.status import ConditionType, Failure, Status
from trainshed.plan.facts import Facts
from trainshed.plan.failures import DISRUPTION, SIGKILLED
from trainshed.plan.restarts import FailureGroup

from . import replica_failures, standstill

#: The number of pods with Events in one reconcile; Events of more pods would repeat the same.
MAX_LISTED = 10


def failures(facts: Facts, group: FailureGroup | None = None) -> tuple[Event, ...]:
    """Return one Event for each failed pod, up to MAX_LISTED: its exit code, or how it ended without one.

    The failures of the group come first, because they decide. The other failures follow, because their pods may be
    deleted with them.
    """
    found = {**(group.failures if group else {}), **facts.failed}.items()
    of_pods = (item for item in found if item[1].pod)  # a hang is that of a pod if it is known which one
    return tuple(_failure(facts, replica, failure) for replica, failure in islice(of_pods, MAX_LISTED))


def pods(facts: Facts) -> tuple[Event, ...]:
    """Return Events for pods with problems: waiting containers, container restarts, pods that are not scheduled."""
    active = (pod for pod in facts.eventful.values() if not (pod.over or pod.deleting or is_in_queue(facts.job, pod)))
    return tuple(islice((event for pod in active for event in _pod(pod, facts.own_container(pod))), MAX_LISTED))


def is_in_queue(job: Job, pod: Pod) -> bool:
    """Return whether a pod waits until Kueue admits its group: it has a scheduling gate."""
    return job.grouped and pod.unplaced == "SchedulingGated"


def overwritten(facts: Facts) -> tuple[Event, ...]:
    """Return a Warning, when pods are to be created, that the template's restart policy is overwritten."""
    roles = facts.missing.roles
    templates = (group.template for group in facts.job.groups if group.role in roles)
    if not any((template.get("spec") or {}).get("restartPolicy") for template in templates):
        return ()
    message = "Restart policy in pod template will be overwritten by restart policy in replica spec"
    return (_lasting_warning("SetPodTemplateRestartPolicy", message),)


def other_schedulers(facts: Facts) -> tuple[Event, ...]:
    """Return a Warning, when pods are to be created, about a scheduler other than the gang scheduler.

    It is not overwritten, and the pods may stay pending.
    """
    name = gang.scheduler_name(facts.snapshot.job_defaults.gang_scheduler)
    if not name or not facts.missing:
        return ()
    named = {(group.template.get("spec") or {}).get("schedulerName") or "" for group in facts.job.groups}
    if named <= {"", name}:
        return ()
    message = "Another scheduler is specified when gang-scheduling is enabled and it will not be overwritten"
    return (_lasting_warning("SetPodTemplateSchedulerName", message),)


def grace_periods(facts: Facts) -> tuple[Event, ...]:
    """Return Events, of a job that saves on SIGTERM, about replicas that were killed, and about how its leader ended.

    The leader writes the checkpoint as a rule, and Events of all others would repeat the same.
    """
    replicas = facts.replicas_by_pod
    ended = ((replicas[pod.name], pod) for pod in facts.terminating if pod.name in replicas)
    return tuple(islice((event for replica, pod in ended for event in _grace_period(facts, replica, pod)), MAX_LISTED))


def _grace_period(facts: Facts, replica: Replica, pod: Pod) -> Iterator[Event]:
    own, asked = facts.own_container(pod), pod.deletion_requested
    if own is None or own.exit_code is None or own.finished is None or asked is None or own.finished < asked:
        return
    given, took = pod.grace or facts.job.checkpoint_grace, int((own.finished - asked).total_seconds())
    if own.exit_code == SIGKILLED:
        message = f"{replica} was killed {took} s after SIGTERM, as the {given} s of {CHECKPOINT_ON_SIGTERM} were over"
        yield Event(EventType.WARNING, "GracePeriodExceeded", message, key=f"GracePeriod/{pod.uid}")
    elif facts.framework.hooks.is_leader(facts.job, replica):
        message = f"{replica} ended with code {own.exit_code} {took} s after SIGTERM; it had {given} s to save"
        yield Event(EventType.NORMAL, "GracePeriodUsed", message, key=f"GracePeriod/{pod.uid}")


def warnings(facts: Facts) -> tuple[Event, ...]:
    """Return Warnings about what the job asks for in vain."""
    found = facts.framework.hooks.warnings(facts.job, facts.snapshot.job_defaults)
    return tuple(_lasting_warning(reason, message) for reason, message in found)


def pod_groups_deleted(actions: tuple[Action, ...]) -> tuple[Event, ...]:
    """Return an Event for each PodGroup that is to be deleted."""
    groups = (action for action in actions if isinstance(action, DeleteDependent) and action.resource.kind == POD_GROUP)
    message = "Job has been terminated. Deleting PodGroup"
    return tuple(
        Event(EventType.NORMAL, "JobTerminated", message, key=f"JobTerminated/{group.uid}") for group in groups
    )


def stalled(facts: Facts, status: Status) -> tuple[Event, ...]:
    """Return an Event for a job that has turned Stalled with this status, or of which the stacks are known now."""
    found, before = (one.condition(ConditionType.STALLED) for one in (status, facts.status))
    if found and before is None:
        return (standstill.event(facts, found),)
    is_news = found and before and standstill.is_diagnosed(found) and not standstill.is_diagnosed(before)
    return (standstill.stacks_event(facts, found),) if found and is_news else ()


def invalid_spec(message: str) -> Event:
    """Return the Event for the spec of a started job that has become invalid; the message has its problems."""
    return Event(EventType.WARNING, "InvalidSpec", message, key=f"InvalidSpec/{message}")


def tracking_disabled(facts: Facts) -> tuple[Event, ...]:
    """Return a Warning if the job asks to keep results and the operator runs without --track-results."""
    if facts.snapshot.job_defaults.track_results or facts.job.annotations.get(TRACK_RESULTS) != "true":
        return ()
    message = f"{TRACK_RESULTS} has no effect: the operator runs without --track-results"
    return (_lasting_warning("ResultTrackingDisabled", message),)


#: Where the rights and the flags for progress by logs, and for records, come from.
PROGRESS_VALUE, RECORD_VALUE = "progress.logs.enabled of the chart", "record.enabled of the chart"
DECISIONS_VALUE = "record.decisions of the chart"


def logs_disabled(facts: Facts) -> tuple[Event, ...]:
    """Return a Warning if the job reports its progress by its log and the operator runs without --progress-logs."""
    if facts.snapshot.job_defaults.progress_logs or facts.job.progress is not ProgressSource.LOGS:
        return ()
    message = f"{PROGRESS}: Logs has no effect: the operator runs without --progress-logs ({PROGRESS_VALUE})"
    return (_lasting_warning("ProgressLogsDisabled", message),)


def record_disabled(facts: Facts) -> tuple[Event, ...]:
    """Return a Warning if the job asks for a record, or for one of the decisions, and the operator keeps none."""
    asks, site = facts.job.annotations.get(RECORD, "false"), facts.snapshot.job_defaults
    if asks == DECISIONS and site.record_decisions is RecordDecisions.NONE:
        flag, value = "--record-decisions", DECISIONS_VALUE
    elif asks == "true" and not site.record:
        flag, value = "--record", RECORD_VALUE
    else:
        return ()
    message = f"{RECORD}: {asks} has no effect: the operator runs without {flag} ({value})"
    return (_lasting_warning("RecordDisabled", message),)


def record_refused(said: str) -> Event:
    """Return the Event that no record of a job can be kept; `said` is why."""
    return _lasting_warning("RecordNotKept", f"No record of the job is kept ({RECORD_VALUE}): {said}")


def decisions_refused(said: str) -> Event:
    """Return the Event that the decisions about a job cannot be recorded; `said` is why."""
    message = f"The decisions about the job are not recorded ({DECISIONS_VALUE}): {said}"
    return _lasting_warning("DecisionsNotRecorded", message)


#: Where the webhooks come from.
NOTIFY_VALUE = "notify of the chart"


def notify_disabled(facts: Facts) -> tuple[Event, ...]:
    """Return a Warning if the job asks to send a webhook and the operator runs without --notify-webhooks."""
    if facts.snapshot.job_defaults.notify or not facts.job.annotations.get(NOTIFY):
        return ()
    message = f"{NOTIFY} has no effect: the operator runs without --notify-webhooks ({NOTIFY_VALUE})"
    return (_lasting_warning("NotifyDisabled", message),)


def webhook_unknown(name: str) -> Event:
    """Return the Event that there is no webhook of this name for a job."""
    message = f"{NOTIFY}: there is no webhook {name} for this namespace ({NOTIFY_VALUE})"
    return _lasting_warning("NotifyUnknown", message)


def webhook_refused(name: str, said: str) -> Event:
    """Return the Event that a message to a webhook was not sent or not taken; `said` is why."""
    return _lasting_warning("NotifyFailed", f"A message about the job was not sent to the webhook {name}: {said}")


def logs_refused(said: str) -> Event:
    """Return the Event that the operator may not read the log of a job; `said` is what the API server says."""
    message = f"The progress is not known, as the operator may not read logs ({PROGRESS_VALUE}): {said}"
    return _lasting_warning("ProgressLogsForbidden", message)


def logs_wait(most: int) -> Event:
    """Return the Event that the log of a job is not followed yet, because of --max-log-follows."""
    message = f"The progress is not known yet: {most} logs of other jobs are followed (--max-log-follows)"
    return Event(EventType.NORMAL, "ProgressLogsWait", message, key="ProgressLogsWait")


def template_changed(facts: Facts, message: str) -> tuple[Event, ...]:
    """Return an Event with this message about pods of an older template, if any, once for each new template."""
    key = "/".join(("PodTemplateChanged", *(group.template_hash for group in facts.job.groups)))
    return (Event(EventType.NORMAL, "PodTemplateChanged", message, key=key),) if message else ()


def _lasting_warning(reason: str, message: str) -> Event:
    return Event(EventType.WARNING, reason, message, key=reason)


def _failure(facts: Facts, replica: Replica, failure: Failure) -> Event:
    pod = facts.current.get(replica)
    key = f"{pod.uid}/Failed" if pod else ""
    if failure.exit_code is not None:
        message = f"Pod: {facts.job.namespace}.{failure.pod} exited with code {failure.exit_code}"
        return Event(EventType.WARNING, "ExitedWithCode", message, key=key)
    where = f" on node {failure.node}" if failure.node else ""
    message = f"Pod {failure.pod}{where} {replica_failures.ending(facts, replica, failure)}"
    full = f"{message}: {failure.termination_message}" if failure.termination_message else message
    return Event(EventType.WARNING, "PodDisrupted" if failure.kind == DISRUPTION else "PodFailed", full, key=key)


def _pod(pod: Pod, own: Container | None) -> Iterator[Event]:
    if pod.unschedulable and not pod.containers:
        message = f"Error pod {pod.name} condition message: {pod.unschedulable}"
        reason = pod.unplaced or "Unschedulable"
        yield Event(EventType.WARNING, reason, message, key=f"{pod.uid}/{reason}")
    for container in pod.containers:
        if container.waiting and container.message:
            message = f"Error pod {pod.name} container {container.name} waiting message: {container.message}"
            yield Event(EventType.WARNING, container.reason, message, key=_key(pod, container, own))
        elif container.exit_code:
            message = (
                f"Error pod {pod.name} container {container.name} exitCode: {container.exit_code}"
                f" terminated message: {container.message}"
            )
            yield Event(EventType.WARNING, container.reason or "Error", message, key=_key(pod, container, own))


def _key(pod: Pod, container: Container, own: Container | None) -> str:
    """Return a key for each run of the framework's container or an init container, and one for all runs of others."""
    aside = own is not None and container != own and (container.sidecar or not container.init)
    return f"{pod.uid}/{container.name}/{container.reason}" + ("" if aside else f"/{container.restarts}")
