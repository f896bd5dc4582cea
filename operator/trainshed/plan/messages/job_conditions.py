"""The conditions of a job: v1's sentences to the letter, and the details that follow them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from trainshed.api import coerce
from trainshed.api.actions import ApiRefusal
from trainshed.api.indexes import Indexes
from trainshed.api.job import Replica, RestartPolicy, RestartScope
from trainshed.api.objects import Phase
from trainshed.api.status import (
    DEADLINE,
    MAX_MESSAGE_BYTES,
    MAX_SHORT_NAME_BYTES,
    ConditionType,
    Failure,
    Status,
    Waiting,
)
from trainshed.plan import restarts
from trainshed.plan.conditions import ConditionUpdate
from trainshed.plan.facts import Facts
from trainshed.plan.failures import APPLICATION, DISRUPTION, HANG, INFRASTRUCTURE
from trainshed.plan.restarts import FailureGroup

from . import replica_failures, replica_problems
from .phrases import duration, plural

#: From this number of missing pods on, their creation takes so long that the condition Created shows the progress.
MANY = 200


def created(facts: Facts) -> ConditionUpdate:
    """Return the condition Created."""
    return _update(facts, ConditionType.CREATED, f"{facts.job.kind} {facts.job.name} is created.")


def progress(facts: Facts, withheld: str) -> str:
    """Return what follows the message of Created: the `withheld` replicas, and the progress of many pods; or ""."""
    size, missing = facts.job.size, len(facts.missing)
    count = f"{size - missing} of {size} pods created" if missing >= MANY else ""
    return " ".join(filter(None, (withheld, count)))


def running(facts: Facts) -> ConditionUpdate:
    """Return the condition Running."""
    return _update(facts, ConditionType.RUNNING, f"{facts.job.kind} {_job_name(facts)} is running.")


def outdated_pods(facts: Facts) -> str:
    """Return what follows the message of Running: the replicas with pods of an older pod template; "" if none has."""
    return facts.once(_outdated_pods)


def _outdated_pods(facts: Facts) -> str:
    found: dict[str, list[int]] = {}
    hashes = {group.role: group.template_hash for group in facts.job.groups}
    for replica, pod in facts.current.items():
        if pod.template_hash and pod.template_hash != hashes[replica.role] and not pod.over:
            found.setdefault(replica.role.lower(), []).append(replica.index)
    names = ", ".join(f"{role}-{Indexes.of(indexes).abridged(MAX_SHORT_NAME_BYTES)}" for role, indexes in found.items())
    return (
        f"The pod template was changed; until their next restart these pods have the old one: {names}." if names else ""
    )


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


def not_running(facts: Facts, found: Sequence[Waiting]) -> ConditionUpdate:
    """Return the condition Blocked for these replicas, one or more; the reason is that of the first."""
    size, count = facts.job.size, sum(item.count for item in found)
    head = f"{count} of {size} replica{'' if size == 1 else 's'} {'is' if count == 1 else 'are'} not running"
    message = f"{head}: {'; '.join(replica_problems.sentences(found))}"
    return ConditionUpdate(ConditionType.BLOCKED, found[0].reason, coerce.truncate_end(message, MAX_MESSAGE_BYTES))


def restarting(facts: Facts, group: FailureGroup, after: Status) -> ConditionUpdate:
    """Return the condition Restarting, with the failure that caused it; `after` is the status to be stored."""
    replica, failure = group.first
    what = {
        DISRUPTION: f"were disrupted ({failure.reason})",
        INFRASTRUCTURE: f"failed with an infrastructure error ({failure.reason})",
        HANG: "made no progress",
    }
    who = f"{replica.role} replica(s)" if failure.pod else "it"
    message = f"job {facts.job.name} is restarting because {who} {what.get(failure.kind, 'failed')}."
    return _update(facts, ConditionType.RESTARTING, message, restart_detail(facts, group, after))


def regrouped(facts: Facts) -> ConditionUpdate:
    """Return the condition Restarting, because the group of its pods that Kueue has admitted has another size."""
    message = f"job {facts.job.name} is restarting because Kueue has admitted another number of replicas."
    detail = f"all {facts.job.size} replicas queue again, as a new group (not counted against backoffLimit)"
    return _update(facts, ConditionType.RESTARTING, message, detail)


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


def deadline_failure(facts: Facts) -> Failure:
    """Return the failure of the job by activeDeadlineSeconds."""
    message = f"the job was active longer than {DEADLINE}: {deadline_detail(facts)}"
    return replica_failures.of_job(facts, "DeadlineExceeded", message)


def start_up_failed(facts: Facts, failure: Failure) -> ConditionUpdate:
    """Return the condition Failed because of this failure of a replica to start."""
    job = facts.job
    message = f"{job.kind} {job.name} has failed because {replica_failures.sentence(failure)}"
    return ConditionUpdate(ConditionType.FAILED, _reason(facts, ConditionType.FAILED), message)


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
    text = f"{used} of {plural(limit, 'restart')} used" if limit else "backoffLimit is 0"
    if used < limit:
        text += f", and {group.counted} more needed at once"
    return "; ".join(filter(None, (text, f"last failure: {_cause(facts, group)}", _others(facts, group))))


def container_restarts_detail(facts: Facts, last: Failure | None) -> str:
    """Return how often the kubelet has restarted containers, and the `last` failure of one of them."""
    retries, limit = facts.observed.retries, facts.job.policy.backoff_limit
    times = retries.container_restarts + retries.deleted_pod_container_restarts
    text = f"containers were restarted {plural(times, 'time')} in place (backoffLimit {limit})"
    return f"{text}; last failure: {replica_failures.sentence(last)}" if last else text


def permanent_detail(facts: Facts, replica: Replica, failure: Failure) -> str:
    """Return the failure that ends the job, and why it is not retried."""
    text = replica_failures.sentence(replica_failures.with_message(facts, replica, failure))
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
    return f"limit {duration(seconds or 0)}; {count} of {plural(facts.job.size, 'replica')} {first}{rest}"


def _cause(facts: Facts, group: FailureGroup) -> str:
    replica, failure = restarts.root_cause(group)
    text = replica_failures.sentence(replica_failures.with_message(facts, replica, failure))
    before = facts.status.failure
    if group.root_cause or before is None:
        return text
    return f"{text}, caused by the failure of {before.replica or before.pod}"


def _others(facts: Facts, group: FailureGroup) -> str:
    return _other_failures(len(facts.failed.keys() | group.failures.keys()) - 1)


def _other_failures(others: int) -> str:
    return f"{plural(others, 'other replica')} failed afterwards" if others > 0 else ""


def _next(facts: Facts, group: FailureGroup, after: Status) -> str:
    replicas = restarts.replicas_restarted(facts, group)
    limit, role = facts.job.policy.backoff_limit, restarts.root_cause(group)[0].role
    if replicas <= 1:
        what = "it"
    elif (scope := restarts.scope(facts, group)) is RestartScope.JOB:
        what = f"all {replicas} replicas"
    elif scope is RestartScope.ROLE:
        what = f"all {replicas} {role} replicas"
    else:
        what = f"these {replicas} replicas"
    restart = f"restart {after.retries.used}" + (f" of {limit}" if limit is not None else "")
    which = restart if group.counted else "not counted against backoffLimit"
    begin = after.retries.next_retry_time
    wait = round((begin - facts.now).total_seconds()) if begin else 0
    return f"restarting {what} {f'in {duration(wait)}' if wait > 0 else 'now'} ({which})"
