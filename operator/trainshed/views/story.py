"""The story of a job, as `trainshed explain` tells it: what was asked for, what happened, what waits, what is next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import msgspec

from trainshed.api import foreign_text
from trainshed.api.coerce import as_mapping, as_sequence, parse_text
from trainshed.api.framework import own_container
from trainshed.api.job import QUEUE_LABEL, CleanPodPolicy, Document, ReplicaGroup, RestartPolicy
from trainshed.api.objects import Phase
from trainshed.api.quantities import requests
from trainshed.api.status import Condition, ConditionType, Failure, Status
from trainshed.client.kueue_reader import Queue
from trainshed.fit.amounts import times, total
from trainshed.fit.packing import RoomOfNode
from trainshed.fit.quotas import never_fits, pod_charge
from trainshed.plan.facts import Facts
from trainshed.plan.messages import job_conditions, standstill
from trainshed.plan.messages.phrases import plural, share
from trainshed.plan.start_order import NOT_CREATED

from . import (
    advice,
    attempts,
    cluster_advice,
    held,
    kueue_queue,
    node_sentences,
    pull_advice,
    replica_states,
    training_story,
)
from .chapter import Chapter, Story
from .durations import human
from .node_sentences import OfNodes
from .replica_states import counted, waiting_for

#: An operator that runs acts within this time.
PROMPT = timedelta(seconds=60)


#: The reason with which the API server refuses a pod because of a ResourceQuota.
QUOTA_EXCEEDED = "QuotaExceeded"


#: Under these policies the kubelet restarts containers in their pods.
IN_PLACE = {RestartPolicy.ON_FAILURE, RestartPolicy.ALWAYS}


class Beside(msgspec.Struct, frozen=True):
    """What else is known than the job and its pods.

    `queue` is what Kueue says about the job, `probe` what the kubelet says of the probe because of which it killed the
    container that failed, and `nodes` are those of the cluster as if they were empty, if they may be read. `unsaved` is
    that the last checkpoint on SIGTERM was not saved in time, `set_up` what the kubelet says of the volumes or the
    network of a pod.
    """

    queue: Queue | None = None
    probe: str = ""
    nodes: Sequence[RoomOfNode] = ()
    unsaved: str = ""
    set_up: str = ""


def tell(facts: Facts, document: Document, beside: Beside = Beside()) -> Story:  # noqa: B008 - immutable
    """Return the story of a job; `document` is the job."""
    queue, probe, of_nodes = beside.queue, beside.probe, node_sentences.about(facts, beside.nodes)
    name = f"{facts.job.kind.lower()}/{facts.job.name} -n {facts.job.namespace}"
    found = (
        ("Asked for", _asked(facts, document)),
        ("Queue", kueue_queue.lines(queue, facts.now) if queue and not facts.status.over else ()),
        ("Replicas", replica_states.lines(facts)),
        ("Training", training_story.lines(facts)),
        ("History", (*attempts.history(facts), beside.unsaved)),
        ("Failure", attempts.failure(facts, probe)),
        ("Blocked", (*_blocked(facts), *of_nodes.lines, beside.set_up and f"the kubelet says: {beside.set_up}")),
        ("Stalled", training_story.stalled(facts)),
        ("Deadline", training_story.deadline(facts)),
        ("Next", _next(facts, queue)),
        ("What to do", (_filled(text, name, facts) for text in _advice(facts, beside, of_nodes))),
    )
    chapters = ((title, tuple(map(foreign_text.one_line, filter(None, lines)))) for title, lines in found)
    return Story(
        foreign_text.one_line(headline(facts, document, queue, probe)),
        tuple(Chapter(title, lines) for title, lines in chapters if lines),
    )


def _filled(text: str, job: str, facts: Facts) -> str:
    """Return advice with the names of the job and of the container that does not run."""
    container = next((item.container for item in facts.status.waiting if item.container), "NAME")
    return text.replace("{job}", job).replace("{container}", container)


#: What has become of a job, by its decisive condition.
HEADLINES = {
    ConditionType.CREATED: "was created {created} ago and does not run yet: {ready}.",
    ConditionType.RUNNING: "has been running for {since}: {ready}.",
    ConditionType.RESTARTING: "is restarting{probed}: {ready}.",
    ConditionType.BLOCKED: "has been blocked for {since}: {ready}.",
    ConditionType.SUSPENDED: "has been suspended for {since}: {left}.",
    ConditionType.SUCCEEDED: "has succeeded{ran}{held}.",
    ConditionType.FAILED: "has failed{ran}{probed}{held}.",
}
QUEUED = "has waited for Kueue for {since}: {left}."
STANDS = "has been running for {since}, without progress for {still}: {ready}."
AGAIN = "was resumed {since} ago and does not run yet: {ready}."
RECOVERS = "has not run as a whole since a failure {since} ago: {ready}."
DELETED = "is being deleted."
ELSEWHERE = "is managed by {manager}: Trainshed does nothing for it."
UNSEEN = "was created {created} ago, and has no status: Trainshed has not seen it yet."


def headline(facts: Facts, document: Document, queue: Queue | None, probe: str = "") -> str:
    """Return what has become of the job, in one sentence."""
    job, status, decisive, failed = facts.job, facts.status, facts.status.decisive, facts.status.failure
    resumed = attempts.resumed(facts) if decisive and decisive.type is ConditionType.CREATED else None
    ready = sum(count.ready for count in facts.observed.replica_statuses.values())
    words = {
        "created": _ago(facts, job.created or facts.now),
        "since": _ago(facts, _since(status, resumed or decisive)) if decisive else "",
        "ready": f"{share(ready, job.size, 'replica')} ready",
        "still": _ago(facts, still) if (still := training_story.still_since(facts)) else "",
        "left": "its pods are being deleted" if facts.snapshot.pods else "it has no pods",
        "ran": f" after {human(((status.completion or facts.now) - status.start).total_seconds())}"
        if status.start
        else "",
        "probed": f", as the {probe.partition(' ')[0].lower()} probe of {failed.replica} failed"
        if probe and failed
        else "",
        "held": f", and {still_held}" if (still_held := held.by_facts(facts)) else "",
        "manager": parse_text(_run_policy(document).get("managedBy")) or "another controller",
    }
    sentence = HEADLINES.get(decisive.type, UNSEEN) if decisive else UNSEEN
    if resumed:
        sentence = AGAIN
    if job.deleting:
        sentence = DELETED
    elif job.policy.managed_elsewhere:
        sentence = ELSEWHERE
    elif queue and decisive and decisive.type is ConditionType.SUSPENDED:
        sentence = QUEUED
    elif decisive and decisive.type is ConditionType.RUNNING and status.recovers:
        sentence = RECOVERS
    elif words["still"] and decisive and decisive.type is ConditionType.RUNNING:
        sentence = STANDS
    return f"{job.kind} {job.namespace}/{job.name} {sentence.format_map(words)}"


def _since(status: Status, decisive: Condition) -> datetime:
    begun = status.time_spent.since if decisive.type is ConditionType.RUNNING and status.recovers else None
    return begun or decisive.changed


def _ago(facts: Facts, time: datetime) -> str:
    return human((facts.now - time).total_seconds())


def _asked(facts: Facts, document: Document) -> Iterator[str]:
    for group in facts.job.groups:
        container = _container(facts, group)
        what = f"{group.count} {counted(group.role, group.count)}{_resources(container)}"
        image = parse_text(container.get("image")) or "<none>"
        yield f"{what}, image {image}, restartPolicy {group.restart_policy.value}"
    policy = facts.job.policy
    limits = (
        policy.backoff_limit is not None and f"at most {plural(policy.backoff_limit, 'restart')} (backoffLimit)",
        policy.deadline is not None and f"at most {human(policy.deadline)} active (activeDeadlineSeconds)",
        facts.job.startup_deadline is not None
        and f"each replica starts within {human(facts.job.startup_deadline)} (trainshed.dev/startup-deadline)",
        policy.ttl is not None and f"deleted {human(policy.ttl)} after its end (ttlSecondsAfterFinished)",
    )
    if given := [text for text in limits if text]:
        yield ", ".join(given)
    labels = as_mapping(as_mapping(document.get("metadata")).get("labels"))
    if queue := parse_text(labels.get(QUEUE_LABEL)):
        yield f"queue {queue} of Kueue"


def _run_policy(document: Document) -> Document:
    return as_mapping(as_mapping(document.get("spec")).get("runPolicy"))


def _container(facts: Facts, group: ReplicaGroup) -> Document:
    containers = list(map(as_mapping, as_sequence(as_mapping(group.template.get("spec")).get("containers"))))
    return own_container(facts.framework.container, containers, group.container)


def _resources(container: Document) -> str:
    """Return what each replica requests, and the limits: ` with 16Gi memory (limit 32Gi), 8 nvidia.com/gpu`.

    Of a device more than is requested cannot be had.
    """
    limits = as_mapping(as_mapping(container.get("resources")).get("limits"))
    wanted = [
        f"{amount} {name}{f' (limit {limits[name]})' if name in limits and '/' not in name else ''}"
        for name, amount in sorted(requests(container).items())
    ]
    return f" with {', '.join(wanted)}" if wanted else ""


def _blocked(facts: Facts) -> Iterator[str]:
    """Yield why the job cannot go on, unless the replicas say it already; and whether the operator has stopped."""
    decisive, status = facts.status.decisive, facts.status
    if decisive is None:
        return
    if late := overdue(facts):
        yield late
    is_listed = decisive.reason in (reason for reason, _ in waiting_for(facts))
    if decisive.type is ConditionType.BLOCKED and not is_listed:
        yield f"{decisive.reason}: {decisive.message}"
    if decisive.type is ConditionType.FAILED and not status.failure:
        yield f"{decisive.reason}: {decisive.message}"
    if facts.job.problems and not status.over:
        yield f"the spec is not valid any more, so that no pod is created: {'; '.join(facts.job.problems)}"


def overdue(facts: Facts) -> str:
    """Return what the operator would have done long ago if it ran; empty if it does, as far as the job shows."""
    job, status = facts.job, facts.status
    if job.policy.managed_elsewhere or job.deleting or job.problems or status.true(ConditionType.SUSPENDED):
        return ""
    if status.decisive is None:
        return UNSEEN if job.created and facts.now - job.created > PROMPT / 2 else ""
    for time, what in _due(facts):
        if facts.now - time > PROMPT:
            return f"Trainshed has not acted for {_ago(facts, time)}, since {what}"
    return ""


def _due(facts: Facts) -> Iterator[tuple[datetime, str]]:
    """Yield when the operator has, or had, to act at once, and why."""
    status, policy = facts.status, facts.job.policy
    if status.over:
        if policy.ttl is not None and status.completion:
            rest = timedelta(seconds=policy.ttl + facts.job.pod_end_grace)
            yield status.completion + rest, "the job had to be deleted (ttlSecondsAfterFinished)"
        return
    if status.ending:
        return
    for replica, failure in facts.failed.items():
        yield failure.time, f"{replica} failed"
    if policy.deadline is not None and status.start:
        yield status.start + timedelta(seconds=policy.deadline), "activeDeadlineSeconds was over"


def _next(facts: Facts, queue: Queue | None) -> Iterator[str]:
    """Yield what will happen next by itself, and when."""
    status = facts.status
    if facts.job.deleting:
        yield "The job goes once its pods have ended and finalizers are removed."
    elif facts.job.policy.managed_elsewhere or status.decisive is None or overdue(facts):
        return
    elif status.over:
        yield from _after_the_end(facts)
    elif status.true(ConditionType.SUSPENDED):
        yield kueue_queue.next_step(queue, facts.now) if queue else "It runs once spec.runPolicy.suspend is false."
    elif status.ending:
        end = "succeeds" if status.ending.type is ConditionType.SUCCESS_CRITERIA_MET else "fails"
        yield f"The job {end} as soon as its pods have ended: Kueue gives their quota away then."
    else:
        yield from _limits(facts)


def _after_the_end(facts: Facts) -> Iterator[str]:
    policy, completion = facts.job.policy, facts.status.completion
    if count := sum(not pod.over for pod in facts.current.values()):
        pods = "1 pod has not ended, and holds" if count == 1 else f"{count} pods have not ended, and hold"
        stay = policy.clean_pods is CleanPodPolicy.NONE and not facts.status.limit_exceeded
        end = "until the job is deleted (cleanPodPolicy None)" if stay else "until the kubelet has stopped them"
        yield f"{pods} resources {end}."
    if policy.ttl is not None and completion:
        yield f"The job is deleted in {_left(facts, completion, policy.ttl)} (ttlSecondsAfterFinished)."


def _limits(facts: Facts) -> Iterator[str]:
    """Yield when pods are created, which deadlines run, and after how many failures the job ends."""
    status, policy, deadline = facts.status, facts.job.policy, facts.job.startup_deadline
    if (retry := status.retries.next_retry_time) and retry > facts.now:
        yield f"New pods are created in {human((retry - facts.now).total_seconds())}, after the back-off."
    elif facts.stale:
        yield "New pods are created as soon as the old ones are gone."
    begun = [pod.created for pod in facts.eventful.values() if pod.phase is Phase.PENDING and pod.created]
    if deadline is not None and begun:
        yield f"It fails in {_left(facts, min(begun), deadline)} unless all replicas have started by then."
    if policy.deadline is not None and status.start:
        left = _left(facts, status.start, policy.deadline)
        yield f"It fails in {left} unless it has ended by then (activeDeadlineSeconds)."
    yield from _restarts_left(facts)
    yield job_conditions.outdated_pods(facts)


def _restarts_left(facts: Facts) -> Iterator[str]:
    """Yield what ends the job: one failure more than the limit, but as many restarts of containers by the kubelet."""
    retries, limit = facts.status.retries, facts.job.policy.backoff_limit
    policies = {group.restart_policy for group in facts.job.groups}
    if policies == {RestartPolicy.NEVER}:
        return
    if limit is None:
        if retries.total:
            yield "It restarts without end, as it has no backoffLimit."
        return
    if retries.used or RestartPolicy.EXIT_CODE in policies:
        left = max(0, limit - retries.used)
        more = f"After {plural(left, 'more restart')} a" if left else "The next"
        yield f"{more} failure of the program ends the job (backoffLimit {limit})."
    if policies & IN_PLACE and (retries.in_place or not retries.used):
        left = max(1, limit - retries.in_place)
        times = plural(left, "more time")
        yield f"It fails once the kubelet has restarted its containers {times} (backoffLimit {limit})."


def _left(facts: Facts, begin: datetime, seconds: float) -> str:
    return human((begin + timedelta(seconds=seconds) - facts.now).total_seconds())


def _advice(facts: Facts, beside: Beside, of_nodes: OfNodes) -> Iterator[str]:
    status, decisive, queue = facts.status, facts.status.decisive, beside.queue
    if facts.job.deleting:
        return
    if facts.job.policy.managed_elsewhere:
        yield advice.ELSEWHERE
    elif overdue(facts):
        yield advice.STOPPED
    elif facts.job.problems and not status.over:
        yield advice.for_waiting("InvalidSpec")
    elif decisive is None or decisive.type is ConditionType.SUCCEEDED:
        return
    elif decisive.type is ConditionType.SUSPENDED:
        yield kueue_queue.what_to_do(queue) if queue else advice.RESUME
    elif decisive.type in (ConditionType.FAILED, ConditionType.RESTARTING) and status.failure:
        probe = _probe(facts, status.failure, beside.probe)
        yield advice.for_failure(status.failure, status.limit_exceeded, over=status.over, probe=probe)
    else:
        yield _while_it_waits(facts, decisive, of_nodes)


def _probe(facts: Facts, failure: Failure, said: str) -> str:
    """Return what to do about the probe of which the kubelet has said this; empty if there is none."""
    if not said:
        return ""
    kind = said.partition(" ")[0].lower()
    replica = facts.replicas_by_pod.get(failure.pod)
    group = facts.group(replica) if replica else None
    containers = as_sequence(as_mapping(group.template.get("spec")).get("containers")) if group else ()
    own = _container(facts, group) if group else {}
    known = (as_mapping(item.get(f"{kind}Probe")) for item in (own, *map(as_mapping, containers)))
    return advice.for_probe(f"{kind} probe", next(filter(None, known), {}))


def _specific(facts: Facts, reason: str, message: str, of_nodes: OfNodes) -> str:
    """Return what to do about a reason by what else is known of the job; empty if that does not matter."""
    if reason in replica_states.UNPLACED and of_nodes.advice:
        return of_nodes.advice
    if advice.BY_REASON.get(reason) == pull_advice.IMAGE and all(found := replica_states.without_image(facts)):
        return pull_advice.for_pull(message, *found)
    return _no_quota(facts, reason, message)


def _no_quota(facts: Facts, reason: str, message: str) -> str:
    """Return what to do about a quota that has too little for the job alone; empty if it may have room one day."""
    if reason != QUOTA_EXCEEDED:
        return ""
    asked = total(times(pod_charge(as_mapping(group.template.get("spec"))), group.count) for group in facts.job.groups)
    found = never_fits(message, asked)
    return cluster_advice.BEYOND_QUOTA.format(amounts=found, job="{job}") if found else ""


def _while_it_waits(facts: Facts, decisive: Condition, of_nodes: OfNodes) -> str:
    """Return what to do about a job that is Blocked or runs: about what it waits for, or failures that come again."""
    status = facts.status
    if (stalled := status.condition(ConditionType.STALLED)) and stalled.true:
        return advice.for_stalled(unknown=standstill.is_unknown(stalled))
    reasons = [(decisive.reason, decisive.message)] if decisive.type is ConditionType.BLOCKED else []
    reasons += waiting_for(facts)
    reasons += [(item.reason, item.message) for item in status.waiting if item.reason == NOT_CREATED]
    texts = (_specific(facts, *one, of_nodes) or advice.for_waiting(*one, of_nodes.room) for one in reasons)
    if found := next(filter(None, texts), ""):
        return found
    if any(item.container for item in status.waiting):
        return advice.BESIDE
    if early := training_story.seconds_missing(status, seconds := facts.job.policy.deadline):
        return advice.TOO_LATE.format(seconds=training_story.enough(early + (seconds or 0)), job="{job}")
    often = len(status.recent_restarts) >= attempts.PATTERN
    if status.failure and (often or status.recovers):
        return advice.for_failure(status.failure, over=False)
    goes_on = decisive.type is ConditionType.RUNNING and not status.ending
    return advice.HANGS if goes_on else ""
