"""Replicas that do not run: which ones, on which node, since when, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from trainshed.api import coerce, foreign_text
from trainshed.api.indexes import Indexes
from trainshed.api.job import QUEUE_LABEL, Document, Replica
from trainshed.api.objects import Container, Phase, Pod, start_of
from trainshed.api.status import (
    MAX_SHORT_NAME_BYTES,
    MAX_WAITING,
    MAX_WAITING_MESSAGE_BYTES,
    Condition,
    ConditionType,
    Failure,
    Status,
    Waiting,
)

from . import failures, false_starts, start_order
from .facts import Facts
from .failures import IMAGE_REASONS, INITIALIZING
from .messages import replica_failures, replica_problems
from .messages.replica_problems import ABSENT, PULL_BACKOFF, PULL_ERROR

#: What the scheduler or the kubelet reports as an error is in the status after this time.
ERROR_DELAY = timedelta(seconds=30)
#: What no retry of the kubelet can change is in the status after this time: an image that does not exist. Reasons of a
#: moment, such as a registry that does not answer, have gone by then or are reported after `ERROR_DELAY`.
SURE_DELAY = timedelta(seconds=5)
SURE_REASONS = ("InvalidImageName", "ErrImageNeverPull")
#: What may only take long (an image is pulled, an init container runs) is in the status after this time.
SLOW_DELAY = timedelta(minutes=5)
#: Other details of the same problem are stored at most this often.
UPDATE_INTERVAL = timedelta(seconds=30)
#: From this number of restarts on a crash loop is reported at once: with the kubelet's back-off of 10 s, 20 s ... they
#: take longer than `ERROR_DELAY`.
CRASH_LOOP_RESTARTS = 3
#: A container that has run for this time is no longer in a crash loop.
CRASH_LOOP_END = timedelta(seconds=30)
#: The kubelet begins its back-off again after a container has run for this time (kubelet/kuberuntime).
BACKOFF_RESET = timedelta(minutes=10)
CRASH_LOOP, CREATING = "CrashLoopBackOff", "ContainerCreating"
#: Volcano's reasons for pods that only wait for others of their PodGroup; they say less than the reason of those.
WAITS_FOR_OTHERS = ("Schedulable", "Undetermined")
#: Kubernetes' reason of a pod with a scheduling gate.
GATED = "SchedulingGated"
#: The reason of a pod that no scheduler has tried to place. Kubernetes has no reason for that.
NOT_SCHEDULED = "NotScheduled"


class Problem(msgspec.Struct, frozen=True):
    """Why a pod does not run. It is reported from `since` + `delay` on, and until `until` if that is known.

    It is `aside` if only this container does not run, and the framework's own does: the training goes on.
    """

    reason: str
    message: str
    since: datetime
    delay: timedelta = ERROR_DELAY
    container: str = ""
    until: datetime | None = None
    aside: bool = False


def waiting(facts: Facts) -> tuple[Waiting, ...]:
    """Return what `status.waiting` has to be: the replicas that wait, by cause, errors first and the longest first.

    Those that only wait for others come after these, then replicas with a running framework's container, and last
    those that are not created yet.

    While the first reason stays the same, changes of the rest are stored every `UPDATE_INTERVAL` at most.
    """
    found, withheld = facts.once(_causes), (*start_order.withheld(facts), *_postponed(facts))
    unchanged_until = _unchanged_until(facts, found)
    causes = _stored_causes(facts) if unchanged_until and facts.now < unchanged_until else found
    return (*causes[: MAX_WAITING - len(withheld)], *withheld)


def _postponed(facts: Facts) -> tuple[Waiting, ...]:
    """Return the replicas that `false_starts` holds back, in one entry for each role, not those of the start order."""
    held: dict[str, dict[Replica, datetime]] = {}
    for replica, end in false_starts.postponed(facts).items():
        if replica not in start_order.gated_replicas(facts):
            held.setdefault(replica.role, {})[replica] = end
    return tuple(
        Waiting(
            role=role,
            indexes=Indexes.of(replica.index for replica in ends).abridged(MAX_SHORT_NAME_BYTES),
            count=len(ends),
            reason=start_order.NOT_CREATED,
            message=replica_problems.deleted_by_others(
                max(facts.once(false_starts.lost)[replica].count for replica in ends), max(ends.values())
            ),
            since=start_order.since(facts, role),
        )
        for role, ends in held.items()
    )


def blocking(facts: Facts, found: tuple[Waiting, ...]) -> tuple[Waiting, ...]:
    """Return those of the waiting replicas for which the job is blocked.

    Replicas whose framework's container runs, or that are not created yet, do not count.
    """
    return tuple(item for item in _causes_in(found) if _key(item) not in facts.once(_keys_aside))


def is_cause_of(status: Status, condition: Condition) -> bool:
    """Return whether this stored condition Blocked was set because of the stored waiting replicas."""
    return bool(status.waiting) and condition.reason == status.waiting[0].reason


def next_check(facts: Facts) -> datetime | None:
    """Return when `waiting` will change though no pod does, or None."""
    found = (problem for _, problem in facts.once(_problems))
    times = [time for problem in found for time in (problem.since + problem.delay, problem.until) if time]
    times += [until] if (until := _unchanged_until(facts, facts.once(_causes))) else []
    return min((time for time in times if time > facts.now), default=None)


def _unchanged_until(facts: Facts, found: tuple[Waiting, ...]) -> datetime | None:
    """Return until when the stored causes stay as they are although others are found, or None."""
    stored, known = _stored_causes(facts), facts.status.condition(ConditionType.BLOCKED)
    if not found or known is None or found == stored or not is_cause_of(facts.status, known):
        return None
    if _key(found[0]) in facts.once(_keys_aside):
        return None
    return known.updated + UPDATE_INTERVAL if found[0].reason == known.reason else None


def _stored_causes(facts: Facts) -> tuple[Waiting, ...]:
    return _causes_in(facts.status.waiting)


def _causes_in(items: tuple[Waiting, ...]) -> tuple[Waiting, ...]:
    """Return the items without replicas that are not created yet."""
    return tuple(item for item in items if item.reason != start_order.NOT_CREATED)


def _groups(facts: Facts) -> tuple[list[tuple[Replica, Problem]], ...]:
    """Return the replicas with a problem that is to be reported by now, by role, container and reason."""
    groups: dict[tuple[str, str, str], list[tuple[Replica, Problem]]] = {}
    for replica, problem in facts.once(_problems):
        if problem.since + problem.delay <= facts.now:
            groups.setdefault((replica.role, problem.container, problem.reason), []).append((replica, problem))
    return tuple(groups.values())


def _causes(facts: Facts) -> tuple[Waiting, ...]:
    groups = facts.once(_groups)
    if not groups:
        return ()
    order = {group.role: number for number, group in enumerate(facts.job.groups)}
    found = [(_is_aside(members), members[0][1].delay, _cause(facts, members)) for members in groups]
    found.sort(key=lambda at: (*at[:2], at[2].reason in WAITS_FOR_OTHERS, at[2].since, *_order(at[2], order)))
    return tuple(item for _, _, item in found[:MAX_WAITING])


def _is_aside(members: list[tuple[Replica, Problem]]) -> bool:
    return all(problem.aside for _, problem in members)


def _keys_aside(facts: Facts) -> frozenset[tuple[str, str, str]]:
    """Return the keys of the causes that do not keep the framework's container from running."""
    groups = (members for members in facts.once(_groups) if _is_aside(members))
    firsts = (members[0] for members in groups)
    return frozenset((replica.role, _short(item.container), _short(item.reason)) for replica, item in firsts)


def _order(item: Waiting, order: Mapping[str, int]) -> tuple[int, str, str]:
    return order[item.role], item.container, item.reason


def _cause(facts: Facts, members: list[tuple[Replica, Problem]]) -> Waiting:
    replica, problem = min(members, key=lambda item: item[0].index)
    nodes = {facts.current[member].node for member, _ in members}
    item = Waiting(
        role=replica.role,
        indexes=Indexes.of(member.index for member, _ in members).abridged(MAX_SHORT_NAME_BYTES),
        count=len(members),
        reason=_short(problem.reason),
        message=coerce.truncate_end(foreign_text.one_line(problem.message), MAX_WAITING_MESSAGE_BYTES),
        since=min(found.since for _, found in members).replace(microsecond=0),
        node=_short(nodes.pop()) if len(nodes) == 1 else "",
        container=_short(problem.container),
    )
    before = _stored(facts, item)
    if before is None:
        return item
    # The kubelet keeps no time at which a crash loop began, and only some of its messages say why a pull failed. The
    # message about a container aside stays the first one: its restarts alone are no reason to write the status.
    detailed = not _is_aside(members) and (item.reason != PULL_BACKOFF or ": " in item.message)
    since = min(item.since, before.since) if item.reason == CRASH_LOOP else item.since
    return replace(item, since=since, message=item.message if detailed else before.message)


def _stored(facts: Facts, item: Waiting) -> Waiting | None:
    return next((other for other in facts.status.waiting if _key(other) == _key(item)), None)


def _key(item: Waiting) -> tuple[str, str, str]:
    return item.role, item.container, item.reason


def _short(text: str) -> str:
    return coerce.truncate_end(foreign_text.one_line(text), MAX_SHORT_NAME_BYTES)


def _problems(facts: Facts) -> tuple[tuple[Replica, Problem], ...]:
    pods = ((replica, pod) for replica, pod in facts.eventful.items() if not pod.over and not pod.deleting)
    return tuple((replica, found) for replica, pod in pods if (found := problem(facts, replica, pod)))


def problem(facts: Facts, replica: Replica, pod: Pod) -> Problem | None:
    """Return why this pod does not run, or None if it runs or if its creation time is unknown."""
    pending = pod.phase is Phase.PENDING
    if pod.created is None:
        return None
    if not pod.node:
        return _unscheduled(facts, pod, pod.created) if pending else None
    since = max(pod.scheduled or pod.created, pod.created)
    if not pod.containers:
        return Problem(CREATING, replica_problems.NO_CONTAINERS, since) if pending else None
    own, template = facts.own_container(pod), facts.group(replica).template
    runs = own is not None and own.started is not None and own.exit_code is None
    found = (
        replace(one, aside=runs and container != own)
        for container in _next_containers(pod, begun=own is not None and failures.has_begun(own))
        if (one := _container_problem(pod, template, container, since, facts.now))
    )
    return min(found, key=lambda one: (one.aside, one.delay), default=None)


def failure_to_start(facts: Facts, replica: Replica, pod: Pod) -> Failure:
    """Return the failure of a replica that has not started running before the start-up deadline."""
    found = problem(facts, replica, pod)
    reason, why = (found.reason, found.message) if found else (CREATING, replica_problems.NOTHING_STARTED)
    container = next((item for item in pod.containers if found and item.name == found.container), None)
    failure = Failure(
        pod=pod.name,
        kind=failures.failure_class(reason) or failures.INFRASTRUCTURE,
        reason=reason,
        exit_code=container.before.exit_code if container and container.before else None,
        node=pod.node,
        termination_message="",
        time=facts.now,
    )
    message = replica_problems.did_not_start(replica, pod, facts.job.startup_deadline or 0, why)
    return replace(replica_failures.with_message(facts, replica, failure), message=message)


def _unscheduled(facts: Facts, pod: Pod, since: datetime) -> Problem:
    if facts.job.grouped and pod.unplaced == GATED:
        return Problem(GATED, replica_problems.not_admitted(dict(facts.job.queue_labels)[QUEUE_LABEL]), since)
    if not (pod.unplaced or pod.unschedulable):
        return Problem(NOT_SCHEDULED, replica_problems.NO_SCHEDULER, since, SLOW_DELAY)
    return Problem(pod.unplaced or "Unschedulable", replica_problems.not_scheduled(pod), since)


def _next_containers(pod: Pod, *, begun: bool) -> Iterator[Container]:
    """Yield the containers that have to run now: sidecars so far, and the first unfinished init container or else all.

    The containers after an init container that has not finished only wait for it; so do those after a sidecar that has
    not started, until the framework's own has `begun`.
    """
    for container in pod.containers:
        if container.init and not container.sidecar and container.exit_code == 0:
            continue
        yield container
        if container.init and (not container.sidecar or (container.waiting and not begun)):
            return


def _container_problem(
    pod: Pod, template: Document, container: Container, since: datetime, now: datetime
) -> Problem | None:
    """Return why this container does not run; `since` is the time at which the pod got its node."""
    if loop := _crash_loop(container, now):
        return loop
    if not container.waiting:
        return _slow_init(container)
    ended = (init.finished for init in pod.containers if init.init and init.finished and init != container)
    began = max(
        [since, *ended, *([container.before.finished] if container.before and container.before.finished else [])]
    )
    reason, message, delay = _waiting_container(pod, template, container)
    return Problem(reason, message, began, delay, container.name)


def _slow_init(container: Container) -> Problem | None:
    if not container.init or container.sidecar or container.started is None or container.exit_code is not None:
        return None
    message = replica_problems.still_running(container)
    return Problem(INITIALIZING, message, container.started, SLOW_DELAY, container.name)


def _waiting_container(pod: Pod, template: Document, container: Container) -> tuple[str, str, timedelta]:
    """Return the reason, the message and the delay for a container in the state `waiting`."""
    reason = container.reason
    if reason in IMAGE_REASONS:
        is_sure = reason in SURE_REASONS or any(words in container.message for words in ABSENT)
        delay = SURE_DELAY if is_sure else ERROR_DELAY
        return PULL_BACKOFF if reason == PULL_ERROR else reason, replica_problems.no_image(container), delay
    if reason not in (CREATING, INITIALIZING, ""):
        return reason, replica_problems.cannot_start(container), ERROR_DELAY
    if pod.sandbox_ready is False:
        return CREATING, replica_problems.no_sandbox(container, pod, template), ERROR_DELAY
    return CREATING, replica_problems.not_created(container), SLOW_DELAY


def _crash_loop(container: Container, now: datetime) -> Problem | None:
    """Return the problem of a container that exits again and again, also while it runs for a moment."""
    last = replica_failures.last_end(container)
    if last is None or last.finished is None or container.exit_code == 0:
        return None
    brief = last.finished - (start_of(last) or last.finished) < BACKOFF_RESET
    known = brief and container.restarts >= CRASH_LOOP_RESTARTS
    backing_off = container.reason == CRASH_LOOP or (known and container.reason not in IMAGE_REASONS)
    until = container.started + CRASH_LOOP_END if container.started and container.exit_code is None else None
    if not (backing_off if container.waiting else known) or (until and now >= until):
        return None
    message = replica_problems.crash_loop(container, last)
    return Problem(CRASH_LOOP, message, last.finished, timedelta(0) if known else ERROR_DELAY, container.name, until)
