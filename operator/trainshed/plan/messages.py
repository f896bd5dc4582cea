"""The sentences of conditions and Events about a job as a whole; those about one replica stand beside their rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from trainshed.api import coerce, gang
from trainshed.api.actions import (
    Action,
    ApiRefusal,
    CreatePod,
    CreateService,
    DeleteDependent,
    DeleteJob,
    DeletePod,
    DeleteService,
    Event,
    EventType,
    Snapshot,
)
from trainshed.api.job import Replica, RestartPolicy, Scope
from trainshed.api.objects import POD_GROUP, Container, Phase, Pod
from trainshed.api.status import MAX_MESSAGE_BYTES, ConditionType, Failure, Status

from . import failure_message, restarts
from .conditions import ConditionUpdate
from .facts import Facts
from .failures import APPLICATION, DISRUPTION, INFRASTRUCTURE
from .restarts import FailureGroup


class ActionEvents(msgspec.Struct, frozen=True):
    """The Events of actions of one type: `reason` follows Successful or Failed.

    `done` and the names of the objects are the message of success, `error_prefix` and the error that of a failure.
    """

    reason: str
    done: str
    error_prefix: str

    @property
    def success(self) -> Event:
        """The Event for success, without the names."""
        return Event(EventType.NORMAL, f"Successful{self.reason}", self.done)

    def failure(self, error: Exception) -> Event:
        """Return the Event for this error."""
        return Event(EventType.WARNING, f"Failed{self.reason}", f"{self.error_prefix}: {error}")


ACTION_EVENTS: Mapping[type[Action], ActionEvents] = MappingProxyType(
    {
        CreatePod: ActionEvents("CreatePod", "Created pod", "Error creating"),
        CreateService: ActionEvents("CreateService", "Created service", "Error creating"),
        DeletePod: ActionEvents("DeletePod", "Deleted pod", "Error deleting"),
        DeleteService: ActionEvents("DeleteService", "Deleted service", "Error deleting"),
    }
)
DELETED_GROUP = ActionEvents(f"Delete{POD_GROUP}", f"Deleted {POD_GROUP}", "Error deleting")


def action_events(snapshot: Snapshot, action: Action) -> ActionEvents | None:
    """Return the Events of an action, or None for an action without Events."""
    match action:
        case DeleteDependent() if action.resource.kind == POD_GROUP:
            return DELETED_GROUP
        case DeleteJob():
            reason = snapshot.framework.naming.ttl_event_reason.removeprefix("Successful")
            return ActionEvents(reason, "Deleted job", "Error deleting")
    return ACTION_EVENTS.get(type(action))


def success_events(snapshot: Snapshot, actions: Iterable[Action]) -> dict[Event, list[str]]:
    """Return the Events of actions that succeeded, one for each type, with the names of the objects."""
    names: dict[ActionEvents, list[str]] = {}
    for action in actions:
        events = action_events(snapshot, action)
        if events is not None:
            name = snapshot.job.name if isinstance(action, DeleteJob) else action.name
            names.setdefault(events, []).append(name)
    return {events.success: found for events, found in names.items()}


def waiting_for_previous_job(reason: str, error: Exception) -> Event:
    """Return the Event that a pod of a deleted job of the same name is still there: once for each job."""
    return Event(EventType.NORMAL, reason, str(error), key=reason)


#: The number of pods with Events in one reconcile; Events of more pods would repeat the same.
MAX_LISTED = 10


def created(facts: Facts) -> ConditionUpdate:
    """Return the condition Created."""
    return _update(facts, ConditionType.CREATED, f"{facts.job.kind} {facts.job.name} is created.")


def running(facts: Facts) -> ConditionUpdate:
    """Return the condition Running."""
    return _update(facts, ConditionType.RUNNING, f"{facts.job.kind} {_job_name(facts)} is running.")


def succeeded(facts: Facts) -> ConditionUpdate:
    """Return the condition Succeeded."""
    verb = "successfully completed" if facts.goal and facts.goal.qualified else "is successfully completed"
    return _update(facts, ConditionType.SUCCEEDED, f"{facts.job.kind} {_job_name(facts)} {verb}.")


def suspended(facts: Facts) -> ConditionUpdate:
    """Return the condition Suspended."""
    return _update(facts, ConditionType.SUSPENDED, f"{facts.job.kind} {facts.job.name} is suspended.")


def resumed(facts: Facts) -> ConditionUpdate:
    """Return the condition Suspended of a job that has been resumed."""
    return replace(
        _update(facts, ConditionType.SUSPENDED, f"{facts.job.kind} {facts.job.name} is resumed."),
        reason=_reason(facts, "Resumed"),
    )


def blocked(facts: Facts, refusal: ApiRefusal) -> ConditionUpdate:
    """Return the condition Blocked: the API server's own message, and how many pods have been created."""
    rest = "; retrying the rest" if facts.missing else "; retrying"
    progress = f"{len(facts.current)} of {facts.job.size} pods created{rest}"
    text = coerce.truncate_end(refusal.message.rstrip("."), MAX_MESSAGE_BYTES - len(progress) - len("; "))
    return ConditionUpdate(ConditionType.BLOCKED, refusal.reason, f"{text}; {progress}")


def restarting(facts: Facts, group: FailureGroup, after: Status) -> ConditionUpdate:
    """Return the condition Restarting, with the failure that caused it; `after` is the status to be stored."""
    replica, failure = group.first
    what = {
        DISRUPTION: f"were disrupted ({failure.reason})",
        INFRASTRUCTURE: f"failed with an infrastructure error ({failure.reason})",
    }
    message = (
        f"job {facts.job.name} is restarting because {replica.role} replica(s) {what.get(failure.kind, 'failed')}."
    )
    return _update(facts, ConditionType.RESTARTING, message, restart_detail(facts, group, after))


def failed(facts: Facts, replica: Replica, failure: Failure) -> ConditionUpdate:
    """Return the condition Failed after a failure that must not be retried."""
    job = facts.job
    if failure.kind != APPLICATION:
        message = f"{job.kind} {job.name} has failed because pod {failure.pod} was disrupted ({failure.reason})."
    elif facts.group(replica).restart_policy is RestartPolicy.EXIT_CODE:
        message = f'job "{job.name}" is failing because "{replica.role}" replica(s) failed.'
    else:
        words = {"kind": job.kind, "namespace": job.namespace, "name": job.name, "role": replica.role}
        message = facts.framework.naming.failure_message.format(
            **words, count=facts.replica_statuses[replica.role].failed or 1
        )
    return _update(facts, ConditionType.FAILED, message, permanent_detail(facts, replica, failure))


def refused(facts: Facts) -> ConditionUpdate:
    """Return the condition Failed for an invalid spec, with all its problems."""
    return _update(facts, ConditionType.FAILED, "; ".join(facts.job.problems))


def backoff_limit_reached(facts: Facts, detail: str) -> ConditionUpdate:
    """Return the condition Failed when backoffLimit is reached; `detail` follows v1's sentence."""
    message = f"Job {facts.job.name} has failed because it has reached the specified backoff limit"
    return _update(facts, ConditionType.FAILED, message, detail)


def deadline_exceeded(facts: Facts) -> ConditionUpdate:
    """Return the condition Failed when activeDeadlineSeconds is exceeded."""
    message = f"Job {facts.job.name} has failed because it was active longer than specified deadline"
    return _update(facts, ConditionType.FAILED, message, deadline_detail(facts))


def failures(facts: Facts, group: FailureGroup | None = None) -> tuple[Event, ...]:
    """Return one Event for each failed pod, up to MAX_LISTED: its exit code, or how it ended without one.

    The failures of the group come first, because they decide. The other failures follow, because their pods may be
    deleted with them.
    """
    found = (group.failures if group else {}) | facts.failed
    return tuple(_failure(facts, replica, failure) for replica, failure in islice(found.items(), MAX_LISTED))


def pods(facts: Facts) -> tuple[Event, ...]:
    """Return Events for pods with problems: waiting containers, container restarts, pods that are not scheduled."""
    active = (pod for pod in facts.eventful.values() if not pod.over and not pod.deleting)
    return tuple(islice((event for pod in active for event in _pod(pod, facts.own_container(pod))), MAX_LISTED))


def overwritten(facts: Facts) -> tuple[Event, ...]:
    """Return a Warning, when pods are to be created, that the template's restart policy is overwritten."""
    templates = (group.template for group in facts.job.groups if group.role in facts.missing.roles)
    if not any((template.get("spec") or {}).get("restartPolicy") for template in templates):
        return ()
    message = "Restart policy in pod template will be overwritten by restart policy in replica spec"
    return (_lasting_warning("SetPodTemplateRestartPolicy", message),)


def other_schedulers(facts: Facts) -> tuple[Event, ...]:
    """Return a Warning, when pods are to be created, about a scheduler other than the gang scheduler.

    It is not overwritten, and the pods may stay pending.
    """
    gang_scheduler = facts.snapshot.job_defaults.gang_scheduler
    named = {(group.template.get("spec") or {}).get("schedulerName") or "" for group in facts.job.groups}
    name = gang.scheduler_name(gang_scheduler)
    if not name or not facts.missing or named <= {"", name}:
        return ()
    message = "Another scheduler is specified when gang-scheduling is enabled and it will not be overwritten"
    return (_lasting_warning("SetPodTemplateSchedulerName", message),)


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


def _lasting_warning(reason: str, message: str) -> Event:
    return Event(EventType.WARNING, reason, message, key=reason)


def _failure(facts: Facts, replica: Replica, failure: Failure) -> Event:
    pod = facts.current.get(replica)
    key = f"{pod.uid}/Failed" if pod else ""
    if failure.exit_code is not None:
        message = f"Pod: {facts.job.namespace}.{failure.pod} exited with code {failure.exit_code}"
        return Event(EventType.WARNING, "ExitedWithCode", message, key=key)
    where = f" on node {failure.node}" if failure.node else ""
    message = f"Pod {failure.pod}{where} {failure_message.ending(facts, replica, failure)}"
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


def _update(facts: Facts, kind: ConditionType, message: str, detail: str = "") -> ConditionUpdate:
    """Return a condition: v1's message to the letter, followed by `detail`, the details that v1 does not have."""
    joint = (" " if message.endswith(".") else ": ") if detail else ""
    return ConditionUpdate(
        kind, _reason(facts, kind), coerce.truncate_end(f"{message}{joint}{detail}", MAX_MESSAGE_BYTES)
    )


def _reason(facts: Facts, reason: str) -> str:
    return f"{facts.job.kind}{reason}"


def _job_name(facts: Facts) -> str:
    name = facts.job.name
    return f"{facts.job.namespace}/{name}" if facts.goal and facts.goal.qualified else name


def restart_detail(facts: Facts, group: FailureGroup, after: Status) -> str:
    """Return which failure causes a restart, of how many replicas, its number, and when; `after` is the new status."""
    return "; ".join(filter(None, (_cause(facts, group), _others(facts, group), _next(facts, group, after))))


def backoff_limit_detail(facts: Facts, group: FailureGroup) -> str:
    """Return that all restarts of backoffLimit are used, with the last failure."""
    limit, used = facts.job.policy.backoff_limit or 0, facts.status.retries.used
    text = f"{used} of {_plural(limit, 'restart')} used" if limit else "backoffLimit is 0"
    if used < limit:
        text += f", and {group.counted} more needed at once"
    return "; ".join(filter(None, (text, f"last failure: {_cause(facts, group)}", _others(facts, group))))


def container_restarts_detail(facts: Facts, last: Failure | None) -> str:
    """Return how often the kubelet has restarted containers, and the `last` failure of one of them."""
    retries, limit = facts.observed.retries, facts.job.policy.backoff_limit
    times = retries.container_restarts + retries.deleted_pod_container_restarts
    text = f"containers were restarted {_plural(times, 'time')} in place (backoffLimit {limit})"
    return f"{text}; last failure: {failure_message.sentence(last)}" if last else text


def permanent_detail(facts: Facts, replica: Replica, failure: Failure) -> str:
    """Return the failure that ends the job, and why it is not retried."""
    text = failure_message.sentence(failure_message.with_message(facts, replica, failure))
    others = _other_failures(len(facts.failed.keys() - {replica}))
    if failure.kind == DISRUPTION:
        rule = "trainshed.dev/on-disruption is Fail"
    elif facts.group(replica).restart_policy is RestartPolicy.EXIT_CODE:
        rule = "restartPolicy ExitCode retries only exit codes 128 and above"
    else:
        rule = f"restartPolicy is {facts.group(replica).restart_policy}"
    return "; ".join(filter(None, (text, others, rule)))


def deadline_detail(facts: Facts) -> str:
    """Return the deadline, and the states of the replicas when it was exceeded."""
    seconds = facts.job.policy.deadline
    done = sum(len(done) for done in facts.done.values())
    running = sum(1 for pod in facts.current.values() if pod.phase is Phase.RUNNING and not pod.deleting)
    waiting = sum(1 for pod in facts.current.values() if pod.phase is Phase.PENDING)
    absent = len(facts.missing)
    states = {"running": running, "succeeded": done, "pending": waiting, "without a pod": absent}
    (first, count), *others = [item for item in states.items() if item[1]] or [("running", 0)]
    rest = "".join(f", {number} {state}" for state, number in others)
    return f"limit {seconds} s; {count} of {_plural(facts.job.size, 'replica')} {first}{rest}"


def _cause(facts: Facts, group: FailureGroup) -> str:
    replica, failure = restarts.root_cause(group)
    text = failure_message.sentence(failure_message.with_message(facts, replica, failure))
    before = facts.status.failure
    if group.root_cause or before is None:
        return text
    return f"{text}, caused by the failure of {before.replica or before.pod}"


def _others(facts: Facts, group: FailureGroup) -> str:
    return _other_failures(len(facts.failed.keys() | group.failures.keys()) - 1)


def _other_failures(others: int) -> str:
    return f"{_plural(others, 'other replica')} failed afterwards" if others > 0 else ""


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _next(facts: Facts, group: FailureGroup, after: Status) -> str:
    replicas = restarts.replicas_restarted(facts, group)
    limit, role = facts.job.policy.backoff_limit, restarts.root_cause(group)[0].role
    if replicas <= 1:
        what = "it"
    elif (scope := restarts.scope(facts, group)) is Scope.JOB:
        what = f"all {replicas} replicas"
    elif scope is Scope.ROLE:
        what = f"all {replicas} {role} replicas"
    else:
        what = f"these {replicas} replicas"
    restart = f"restart {after.retries.used}" + (f" of {limit}" if limit is not None else "")
    which = restart if group.counted else "not counted against backoffLimit"
    begin = after.retries.next_retry_time
    wait = round((begin - facts.now).total_seconds()) if begin else 0
    return f"restarting {what} {f'in {wait} s' if wait > 0 else 'now'} ({which})"
