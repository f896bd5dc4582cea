"""The story of a job, as `trainshed explain` tells it: what was asked for, what happened, what waits, what is next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

import msgspec

from trainshed.api import foreign_text
from trainshed.api.coerce import as_mapping, as_sequence, parse_text, parse_time
from trainshed.api.framework import own_container
from trainshed.api.indexes import Indexes
from trainshed.api.job import Document, Replica, ReplicaGroup
from trainshed.api.objects import Phase, Pod
from trainshed.api.quantities import requests
from trainshed.api.status import ConditionType, Restart
from trainshed.plan.facts import Facts
from trainshed.plan.waiting import ERROR_DELAY, problem

from . import advice
from .durations import human

#: Characters of indexes that are shown of one group of replicas, and of a message of another program.
ROOM, MESSAGE = 60, 400
#: Last lines of a failure, and restarts, that are shown.
LINES, RESTARTS = 10, 5


class Chapter(msgspec.Struct, frozen=True):
    """A part of the story: a title, and printable lines."""

    title: str
    lines: tuple[str, ...]


class Story(msgspec.Struct, frozen=True):
    """The story of a job: one sentence, and the parts that there are."""

    headline: str
    chapters: tuple[Chapter, ...]


def tell(facts: Facts, document: Document, workload: Document | None = None) -> Story:
    """Return the story of a job; `document` is the job, `workload` that of Kueue, if it has one."""
    found = (
        ("Asked for", _asked(facts, document)),
        ("Queue", _queue(facts, workload)),
        ("Replicas", _replicas(facts)),
        ("History", _history(facts)),
        ("Failure", _failure(facts)),
        ("Blocked", _blocked(facts)),
        ("Next", _next(facts)),
        ("What to do", _advice(facts, workload)),
    )
    chapters = ((title, tuple(map(foreign_text.one_line, filter(None, lines)))) for title, lines in found)
    return Story(
        foreign_text.one_line(headline(facts)),
        tuple(Chapter(title, lines) for title, lines in chapters if lines),
    )


#: What has become of a job, by its decisive condition.
HEADLINES = {
    ConditionType.CREATED: "was created {created} ago and does not run yet: {ready}.",
    ConditionType.RUNNING: "has been running for {since}: {ready}.",
    ConditionType.RESTARTING: "is restarting: {ready}.",
    ConditionType.BLOCKED: "cannot go on, for {since}: {ready}.",
    ConditionType.SUSPENDED: "has been suspended for {since}: its pods are deleted.",
    ConditionType.SUCCEEDED: "has succeeded{ran}.",
    ConditionType.FAILED: "has failed{ran}.",
}
UNSEEN = "was created {created} ago, and has no status yet: check that Trainshed runs, and for this namespace."


def headline(facts: Facts) -> str:
    """Return what has become of the job, in one sentence."""
    job, status, decisive = facts.job, facts.status, facts.status.decisive
    ready = sum(count.ready for count in facts.observed.replica_statuses.values())
    words = {
        "created": _ago(facts, job.created or facts.now),
        "since": _ago(facts, decisive.changed) if decisive else "",
        "ready": f"{ready} of {job.size} {'replica is' if job.size == 1 else 'replicas are'} ready",
        "ran": f" after {human(((status.completion or facts.now) - status.start).total_seconds())}"
        if status.start
        else "",
    }
    sentence = HEADLINES.get(decisive.type, UNSEEN) if decisive else UNSEEN
    return f"{job.kind} {job.namespace}/{job.name} {sentence.format_map(words)}"


def _ago(facts: Facts, time: datetime) -> str:
    return human((facts.now - time).total_seconds())


def _asked(facts: Facts, document: Document) -> Iterator[str]:
    for group in facts.job.groups:
        container = _container(facts, group)
        what = f"{group.count} {_plural(group.role, group.count)}{_resources(container)}"
        image = parse_text(container.get("image")) or "<none>"
        yield f"{what}, image {image}, restartPolicy {group.restart_policy.value}"
    policy = facts.job.policy
    limits = (
        policy.backoff_limit is not None and f"at most {policy.backoff_limit} restarts (backoffLimit)",
        policy.deadline is not None and f"at most {human(policy.deadline)} active (activeDeadlineSeconds)",
        facts.job.startup_deadline is not None and f"replicas start within {human(facts.job.startup_deadline)}",
        policy.ttl is not None and f"deleted {human(policy.ttl)} after its end (ttlSecondsAfterFinished)",
    )
    if given := [text for text in limits if text]:
        yield ", ".join(given)
    labels = as_mapping(as_mapping(document.get("metadata")).get("labels"))
    if queue := parse_text(labels.get("kueue.x-k8s.io/queue-name")):
        yield f"queue {queue} of Kueue"
    if policy.managed_elsewhere:
        yield f"managed by another controller: {parse_text(_run_policy(document).get('managedBy'))}"


def _run_policy(document: Document) -> Document:
    return as_mapping(as_mapping(document.get("spec")).get("runPolicy"))


def _container(facts: Facts, group: ReplicaGroup) -> Document:
    containers = list(map(as_mapping, as_sequence(as_mapping(group.template.get("spec")).get("containers"))))
    return own_container(facts.framework.container, containers, group.container)


def _resources(container: Document) -> str:
    """Return what each replica requests: ` with 8 nvidia.com/gpu, 16Gi memory`."""
    wanted = requests(container)
    return f" with {', '.join(f'{amount} {name}' for name, amount in sorted(wanted.items()))}" if wanted else ""


def _queue(facts: Facts, workload: Document | None) -> Iterator[str]:
    """Yield what Kueue says about the job's Workload."""
    if workload is None:
        return
    conditions = {
        parse_text(item.get("type")): item
        for item in map(as_mapping, as_sequence(as_mapping(workload.get("status")).get("conditions")))
    }
    name = parse_text(as_mapping(workload.get("metadata")).get("name"))
    for kind, said in (
        ("Finished", ""),
        ("Evicted", f"Workload {name} was evicted"),
        ("Admitted", f"Workload {name} is admitted"),
        ("QuotaReserved", f"Workload {name} has a reservation of quota and waits for its checks"),
    ):
        found = conditions.get(kind, {})
        if found.get("status") == "True":
            if said:
                yield f"{said}{_since(facts, found)}: {parse_text(found.get('message'))[:MESSAGE]}"
            return
    found = conditions.get("QuotaReserved", {})
    message = parse_text(found.get("message"))[:MESSAGE] or "its queue has not looked at it yet"
    yield f"Workload {name} waits for quota{_since(facts, found)}: {message}"


def _since(facts: Facts, condition: Document) -> str:
    time = parse_time(condition.get("lastTransitionTime"))
    return f", for {_ago(facts, time)}" if time else ""


def _replicas(facts: Facts) -> Iterator[str]:
    """Yield what the replicas do: those of one role that do the same in one line."""
    said = {replica: _doing(facts, replica, pod) for replica, pod in facts.current.items()}
    groups: dict[tuple[str, str], list[Replica]] = {}
    for replica, text in said.items():
        groups.setdefault((replica.role, text), []).append(replica)
    for (_, text), members in groups.items():
        yield f"{_named(members)}: {text}"
    ended = facts.status.over or facts.status.true(ConditionType.SUSPENDED)
    there = Counter(replica.role for replica in said)
    for role, wanted in ((group.role, group.count) for group in facts.job.groups):
        if (count := wanted - there[role]) and not ended:
            yield f"{count} {_plural(role, count)} {'has' if count == 1 else 'have'} no pod{_withheld(facts, role)}"


def _plural(role: str, count: int) -> str:
    return role if count == 1 or role.endswith("s") or role == "PS" else f"{role}s"


def _withheld(facts: Facts, role: str) -> str:
    found = next(
        (item.message for item in facts.status.waiting if item.role == role and item.reason == "NotCreated"), ""
    )
    return f": {found}" if found else ""


def _named(members: Sequence[Replica]) -> str:
    if len(members) == 1:
        return str(members[0])
    return f"{members[0].role.lower()} {Indexes.of(member.index for member in members).abridged(ROOM)}"


def _doing(facts: Facts, replica: Replica, pod: Pod) -> str:
    where = f" on {pod.node}" if pod.node else ""
    if pod.deleting:
        return f"being deleted{where}"
    if pod.over:
        return f"{pod.phase.value.lower()}{where}"
    found = problem(facts, replica, pod)
    if found and not found.aside:
        return f"waiting{where} for {_ago(facts, found.since)}, {found.reason}: {found.message}"
    beside = f"; beside it, {found.message}" if found else ""
    state = "running" if pod.ready else "starting" if pod.phase is Phase.PENDING else "running, not ready"
    return f"{state}{where}{beside}"


def _history(facts: Facts) -> Iterator[str]:
    status, restarts = facts.status, facts.status.recent_restarts
    if not restarts:
        return
    if len(restarts) > RESTARTS:
        yield f"{len(restarts) - RESTARTS} earlier restarts are in status.recentRestarts"
    yield from (_restart(facts, item) for item in restarts[-RESTARTS:])
    lost = sum(item.recovery_seconds or 0 for item in restarts)
    used, limit = status.retries.used, facts.job.policy.backoff_limit
    of = f" of {limit}" if limit is not None else ""
    if lost:
        yield f"restarts have cost {human(lost)}, besides the training that was repeated"
    yield f"{used}{of} restarts count against backoffLimit"


def _restart(facts: Facts, item: Restart) -> str:
    code = f" with exit code {item.exit_code}" if item.exit_code is not None else ""
    where = f" on {item.node}" if item.node else ""
    again = f", ran again after {human(item.recovery_seconds)}" if item.recovery_seconds is not None else ""
    count = f"{item.replicas_restarted} {'replica' if item.replicas_restarted == 1 else 'replicas'} restarted"
    return (
        f"{_ago(facts, item.time)} ago: {item.replica}{where} failed, {item.reason}{code} ({item.kind}); {count}{again}"
    )


def _failure(facts: Facts) -> Iterator[str]:
    failure = facts.status.failure
    if failure is None:
        yield from _last_run(facts)
        return
    yield f"{_ago(facts, failure.time)} ago: {failure.message or failure.reason}"
    yield from _last_lines(failure.termination_message)
    if facts.status.limit_exceeded:
        yield f"The job has failed because of {facts.status.limit_exceeded}."


def _blocked(facts: Facts) -> Iterator[str]:
    """Yield why the job cannot go on, unless the replicas say it already."""
    decisive, status = facts.status.decisive, facts.status
    if decisive is None or (decisive.type is ConditionType.FAILED and status.failure):
        return
    if decisive.type in (ConditionType.BLOCKED, ConditionType.FAILED) and decisive.reason not in _waiting_reasons(
        facts
    ):
        yield f"{decisive.reason}: {decisive.message}"


def _last_run(facts: Facts) -> Iterator[str]:
    """Yield the last lines of a container that is started again and again: no failure of the job tells them."""
    for replica, pod in facts.current.items():
        own = facts.own_container(pod)
        if own and own.waiting and own.before and own.before.exit_code:
            yield f"the last run of {replica} exited with code {own.before.exit_code}"
            yield from _last_lines(own.before.message)
            return


def _last_lines(text: str) -> Iterator[str]:
    yield from (f"| {line}" for line in foreign_text.lines(text).splitlines()[-LINES:])


def _next(facts: Facts) -> Iterator[str]:
    """Yield what will happen next by itself, and when."""
    status, policy = facts.status, facts.job.policy
    if status.over:
        if policy.ttl is not None and status.completion:
            left = (status.completion + timedelta(seconds=policy.ttl) - facts.now).total_seconds()
            yield f"The job is deleted in {human(left)} (ttlSecondsAfterFinished)."
        return
    if status.true(ConditionType.SUSPENDED):
        yield "It runs once spec.runPolicy.suspend is false; with a queue, the queue sets that."
        return
    if (retry := status.retries.next_retry_time) and retry > facts.now:
        yield f"New pods are created in {human((retry - facts.now).total_seconds())}, after the back-off."
    if policy.backoff_limit is not None:
        left_over = max(0, policy.backoff_limit - status.retries.total)
        more = f"{left_over} more {'restart' if left_over == 1 else 'restarts'}"
        yield f"After {more} a failure ends the job (backoffLimit {policy.backoff_limit})."
    if policy.deadline is not None and status.start:
        left = (status.start + timedelta(seconds=policy.deadline) - facts.now).total_seconds()
        yield f"It fails in {human(left)} unless it has ended by then (activeDeadlineSeconds)."


def _advice(facts: Facts, workload: Document | None) -> Iterator[str]:
    status = facts.status
    decisive = status.decisive
    if facts.job.problems:
        yield f"{advice.for_waiting('InvalidSpec')} {facts.job.problems[0]}"
    elif decisive is None or decisive.type in (ConditionType.RUNNING, ConditionType.SUCCEEDED):
        return
    elif decisive.type is ConditionType.SUSPENDED:
        yield advice.QUEUED if workload else "Set spec.runPolicy.suspend to false to start it."
    elif decisive.type in (ConditionType.FAILED, ConditionType.RESTARTING) and status.failure:
        yield advice.for_failure(status.failure, status.limit_exceeded)
    else:
        reasons = [decisive.reason, *(item.reason for item in status.waiting), *_waiting_reasons(facts)]
        texts: Iterable[str] = filter(None, map(advice.for_waiting, reasons))
        yield next(iter(texts), "")


def _waiting_reasons(facts: Facts) -> list[str]:
    """Return the reasons of waiting; of what may only take long, not before it does."""
    pods = ((replica, pod) for replica, pod in facts.current.items() if not pod.over and not pod.deleting)
    found = (problem(facts, replica, pod) for replica, pod in pods)
    lasting = (item for item in found if item and not item.aside)
    return [item.reason for item in lasting if item.delay == ERROR_DELAY or facts.now >= item.since + item.delay]
