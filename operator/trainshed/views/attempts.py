"""What has failed, and what each attempt of a job ended with, in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from trainshed.api import foreign_text
from trainshed.api.coerce import parse_text, parse_time
from trainshed.api.job import Document, Replica
from trainshed.api.objects import Container, Pod
from trainshed.api.status import BACKOFF_LIMIT, FREE, MAX_RECENT_RESTARTS, Condition, ConditionType, Failure, Restart
from trainshed.plan import waiting
from trainshed.plan.facts import Facts
from trainshed.plan.failures import APPLICATION, TERMINATED
from trainshed.plan.messages import replica_failures
from trainshed.plan.messages.phrases import last_line, plural, share
from trainshed.plan.messages.replica_failures import KNOWN, exited

from . import lost_time
from .durations import human
from .rows import event_time

#: Last lines of a failure, and restarts, that are shown; from this number of restarts on they may have a pattern.
LINES, RESTARTS, PATTERN = 10, 5, 3
#: Between what the kubelet says of a probe and of the end that it gives its container, in times of whole seconds.
AT_ONCE = timedelta(seconds=2)
#: The reasons of the Events about the end of replicas that save on SIGTERM: too late, and in time.
GRACE = ("GracePeriodExceeded", "GracePeriodUsed")


def history(facts: Facts) -> Iterator[str]:
    """Yield the restarts, what they have in common, how many are left, and what they have cost."""
    restarts, retries, limit = facts.status.recent_restarts, facts.status.retries, facts.job.policy.backoff_limit
    if (earlier := len(restarts) - RESTARTS) > 0:
        yield f"{plural(earlier, 'earlier restart')}: see status.recentRestarts"
    before = [0 if len(restarts) < MAX_RECENT_RESTARTS else None, *(item.total_running_seconds for item in restarts)]
    attempts = list(zip(restarts, before, strict=False))
    yield from (restart(facts.now, item, _ran(item, total)) for item, total in attempts[-RESTARTS:])
    if (again := resumed(facts)) and not facts.job.queued:
        yield f"{_ago(facts.now, again.changed)}: the job was resumed, and began again with new pods"
    if common := _pattern(restarts):
        yield common
    yield lost_time.sentence(facts.status, facts.now)
    if retries.in_place:
        yield f"the kubelet has restarted containers {plural(retries.in_place, 'time')} in their pods"
        yield from _run_again(facts)
    if retries.total and limit is not None:  # each of the two has the limit for itself
        yield f"{share(max(retries.used, retries.in_place), limit, 'restart', ' of backoffLimit')} used"


def _run_again(facts: Facts) -> Iterator[str]:
    """Yield how containers ended that run again, or have succeeded since, the last ones first.

    Of others it is said why they do not run.
    """
    runs = {replica: own for replica, pod in facts.current.items() if (own := facts.own_container(pod))}
    again = [replica for replica, own in runs.items() if not own.exit_code and not own.waiting]
    ended = list(filter(None, (replica_failures.last_run(facts, replica) for replica in again)))
    ended.sort(key=lambda found: found.time, reverse=True)
    for found in ended[:RESTARTS]:
        how = replica_failures.sentence(found)
        yield f"{_ago(facts.now, found.time)}: {how}; the kubelet started it again in its pod"
    if more := ended[RESTARTS:]:
        yield f"and {plural(len(more), 'more replica')} that the kubelet started again"


def resumed(facts: Facts) -> Condition | None:
    """Return the condition that says when the job was resumed, by `trainshed restart` too; None if it never was."""
    found = facts.status.condition(ConditionType.SUSPENDED)
    return None if found is None or found.true else found


def _ran(item: Restart, before: int | None) -> int:
    """Return how long all replicas had run in the attempt that a restart ended; 0 if that is not known."""
    return max(0, (item.total_running_seconds or 0) - before) if before is not None else 0


def restart(now: datetime, item: Restart, ran: int = 0) -> str:
    """Return a restart in a sentence; before it all replicas had run for `ran` seconds, 0 if that is not known."""
    where, how = f" on {item.node}" if item.node else "", ended(item.reason, item.exit_code)
    after = f" after a run of {human(ran)}" if ran else ""
    again = f", and the job ran again after {human(item.recovery_seconds)}" if item.recovery_seconds is not None else ""
    again += f"; {human(item.lost_work_seconds)} of training were done again" if item.lost_work_seconds else ""
    were = "was" if item.replicas_restarted == 1 else "were"
    what = f"{plural(item.replicas_restarted, 'replica')} {were} restarted"
    free = "; not counted against backoffLimit" if item.kind in FREE else ""
    return f"{_ago(now, item.time)}: {item.replica or 'the job'}{where} {how}{after}; {what}{again}{free}"


def ended(reason: str, exit_code: int | None) -> str:
    """Return how a replica ended as a predicate, such as `was killed by SIGKILL (137)`."""
    if reason in KNOWN:
        return KNOWN[reason]
    if reason in ("Error", "") and exit_code is not None:
        return exited(exit_code)
    code = f", exit code {exit_code}" if exit_code is not None else ""
    return f"failed ({reason}{code})"


def _pattern(restarts: Sequence[Restart]) -> str:
    """Return what the last restarts have in common; empty if they have nothing, or there are few."""
    parts = {"of": "replica", "on": "node", "with reason": "reason"}
    values = {word: {getattr(item, name) for item in restarts} for word, name in parts.items()}
    found = [f"{word} {next(iter(same))}" for word, same in values.items() if len(same) == 1 and all(same)]
    if len(restarts) < PATTERN or not found:
        return ""
    return f"the last {len(restarts)} failures were all {', '.join(found)}"


def failure(facts: Facts, probe: str = "") -> Iterator[str]:
    """Yield the last failure: who failed first, the last lines, who followed, and why it is final."""
    found = facts.status.failure
    if found is None:
        yield from _unnoticed(facts)
        return
    message = found.message or found.reason
    yield f"{_ago(facts.now, _noted(facts, found))}: {replica_failures.by_probe(found, probe) if probe else message}"
    if probe:
        yield f"the kubelet says: {probe}"
    yield from _last_lines(found.termination_message, message)
    yield from _rest(facts, message)


def _noted(facts: Facts, failure: Failure) -> datetime:
    """Return when a failure was, by its restart if there is one: so its age is the same in both sentences."""
    ends = (item.time for item in facts.status.recent_restarts[-1:] if item.replica == failure.replica)
    return next((time for time in ends if abs(time - failure.time) <= AT_ONCE), failure.time)


def killed(facts: Facts) -> Failure | None:
    """Return the last failure if the kubelet may have killed the container because of a probe."""
    found = facts.status.failure
    is_killed = found and found.pod and found.kind == APPLICATION and found.exit_code in TERMINATED
    return found if is_killed else None


def failed_probe(failure: Failure, events: Iterable[Document]) -> str:
    """Return what the kubelet says of the probe because of which it killed the container; empty if it did not so.

    `events` are those about the pod. A probe that fails often enough is followed by the end of its container at once.
    """
    begin = failure.time - timedelta(seconds=failure.ran or 0) - AT_ONCE
    timed = [(parse_time(event_time(event)), event) for event in events]
    during = [(time, event) for time, event in timed if time and begin <= time <= failure.time + AT_ONCE]
    ends = [time for time, event in during if event.get("reason") == "Killing"]
    for time, event in during:
        message = parse_text(event.get("message"))
        is_probe = event.get("reason") == "Unhealthy" and message.startswith(("Liveness probe", "Startup probe"))
        if is_probe and any(abs(end - time) <= AT_ONCE for end in ends):
            return message.rstrip(": ")
    return ""


def unsaved(events: Iterable[Document], now: datetime) -> str:
    """Return that the last checkpoint on SIGTERM was not saved in time, from the Events of a job; empty if it was.

    The newest Event about a grace period counts: that it was exceeded, or that the leading replica has ended in time.
    """
    timed = [
        (time, event) for event in events if event.get("reason") in GRACE and (time := parse_time(event_time(event)))
    ]
    time, event = max(timed, key=lambda one: one[0], default=(now, {}))
    if event.get("reason") != GRACE[0]:
        return ""
    message = parse_text(event.get("message"))
    return f"{_ago(now, time)}: {message}: the checkpoint was not saved in time; a longer time there may be enough"


def _unnoticed(facts: Facts) -> Iterator[str]:
    """Yield a failure that the operator has not noted, or the last lines of a container that ends again and again."""
    idle = facts.job.deleting or facts.status.over or facts.status.true(ConditionType.SUSPENDED)
    if idle or not facts.failed:
        yield from _last_run(facts)
        return
    first = next(iter(facts.failed.items()))
    found = replica_failures.with_message(facts, *first)
    message = replica_failures.sentence(found)
    yield f"{_ago(facts.now, found.time)}: {message}"
    yield from _last_lines(found.termination_message, message)


def _rest(facts: Facts, message: str) -> Iterator[str]:
    """Yield what the condition says besides the failure: who failed afterwards, and what ended the job."""
    decisive = facts.status.decisive
    if decisive is None or decisive.type not in (ConditionType.FAILED, ConditionType.RESTARTING):
        return
    before, known, after = decisive.message.partition(message)
    if facts.status.limit_exceeded == BACKOFF_LIMIT and known:
        used = before.rpartition("limit: ")[2].removesuffix("last failure: ").rstrip("; ")
        yield f"not retried: {used}{'' if BACKOFF_LIMIT in used else f' ({BACKOFF_LIMIT})'}"
    for part in filter(None, after.split("; ") if known else ()):
        if not part.startswith("restarting "):
            yield part if part.endswith("failed afterwards") else f"not retried: {part}"


def _last_run(facts: Facts) -> Iterator[str]:
    for replica, pod in facts.current.items():
        for container in pod.containers:
            last = replica_failures.last_end(container)
            if last and last.exit_code and last.message and _ends_again(facts, replica, pod, container):
                own = container == facts.own_container(pod)
                yield f"the last lines of {replica if own else f'container {container.name} of {replica}'}:"
                yield from _last_lines(last.message, "")
                return


def _ends_again(facts: Facts, replica: Replica, pod: Pod, container: Container) -> bool:
    """Return whether a container does not run, or ends so often that it is in a crash loop while it does."""
    found = waiting.problem(facts, replica, pod)
    loops = found is not None and found.reason == waiting.CRASH_LOOP and found.container == container.name
    return loops or container.waiting or container.exit_code is not None


def _last_lines(text: str, said: str) -> Iterator[str]:
    """Yield the last lines of a termination message, unless it has one only that is said already."""
    found = foreign_text.lines(text).splitlines()
    if len(found) > 1 or (found and last_line(found[0]) not in said):
        yield from (f"| {line}" for line in found[-LINES:])


def _ago(now: datetime, time: datetime) -> str:
    return f"{human((now - time).total_seconds())} ago"
