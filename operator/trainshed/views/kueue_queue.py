"""What Kueue says about a job, in sentences: its Workload, what that waits for, its place, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from trainshed.api.coerce import as_mapping, as_sequence, parse_text, parse_time
from trainshed.api.job import Document
from trainshed.client.kueue_reader import Queue, QueuePlace, is_waiting, queue_of

from . import advice
from .durations import human

#: Characters of a message of Kueue that are shown.
MESSAGE = 400
NOT_READ = "you may not read its Workload: ask for the right to list workloads.kueue.x-k8s.io"
NO_WORKLOAD = "Kueue has made no Workload for the job"
UNMANAGED = (
    "Ask the administrator whether Kueue runs, and manages this kind of jobs (integrations.frameworks of its "
    "configuration). To start the job without Kueue, remove the label kueue.x-k8s.io/queue-name, then run trainshed "
    "resume {job}"
)
#: What to do if a job does not start by itself, by the reason of the condition QuotaReserved. Kueue 0.19 sets these
#: reasons only with a feature gate, and otherwise Pending: then words of its message tell, of which the first counts.
NEVER = {
    "ExceedsMaxQuota": (
        "The job needs more than its queue can ever give, and never starts: request less, use another queue, or ask "
        "for a larger quota."
    ),
    "NoMatchingFlavor": (
        "No flavour of the queue fits nodeSelector, affinity and tolerations of the template: change them, or use "
        "another queue."
    ),
    "Misconfigured": (
        "Check the label kueue.x-k8s.io/queue-name: kubectl get localqueue shows the queues of the namespace. Their "
        "ClusterQueue has to exist, and to have a quota for each resource that the job requests."
    ),
    "Suspended": "The queue is stopped, or not active: ask its administrator when it goes on.",
}
NEVER_WORDS = {
    "> maximum capacity": "ExceedsMaxQuota",
    "untolerated taint": "NoMatchingFlavor",
    "doesn't match node affinity": "NoMatchingFlavor",
    "doesn't exist": "Misconfigured",
    "unavailable in ClusterQueue": "Misconfigured",
    "is stopped": "Suspended",
    "is inactive": "Suspended",
}
#: What it says of a flavour that may have room later, whatever it says of others.
LATER = "insufficient unused quota"
#: Why Kueue takes quota away, by the reason of the condition Evicted: what to do that `advice.KUEUE` does not say.
EVICTED = {
    "PodsReadyTimeout": (
        "Its pods did not run in time, so that Kueue took the quota back: trainshed events {job} says why they did not."
    ),
    "AdmissionCheck": "An AdmissionCheck took the quota back; its message says why.",
    "ClusterQueueStopped": "The administrator has stopped the ClusterQueue: ask when it goes on.",
    "LocalQueueStopped": "The LocalQueue is stopped: ask its owner when it goes on.",
}


def lines(queue: Queue, now: datetime) -> Iterator[str]:
    """Yield what has become of the Workload of a job, the present last."""
    if queue.workload is None:
        yield NOT_READ if queue.refused else NO_WORKLOAD
        return
    found, name = _conditions(queue.workload), _name(queue.workload)
    if _is_true(found, "Finished"):
        return
    if as_mapping(queue.workload.get("spec")).get("active") is False:
        yield f"Workload {name} is deactivated: its spec.active is false{_why(found, 'Evicted')}"
    elif _is_true(found, "Admitted"):
        yield f"Workload {name} has been admitted{_since(found['Admitted'], now)}"
    elif _is_true(found, "QuotaReserved"):
        yield f"Workload {name} has quota{_since(found['QuotaReserved'], now)}, and waits for its AdmissionChecks"
        yield from _checks(queue.workload)
    else:
        yield from _waits(queue, found, now)


def _waits(queue: Queue, found: dict[str, Document], now: datetime) -> Iterator[str]:
    name = _name(queue.workload or {})
    if lost := next((kind for kind in ("Preempted", "Evicted") if _is_true(found, kind)), ""):
        yield f"Workload {name} lost its quota{_ago(found[lost], now)}: {_message(found[lost]) or lost}"
    reserved = found.get("QuotaReserved", {})
    message = _message(reserved) or "Kueue has not looked at it yet"
    yield f"Workload {name} has waited for quota{_since(reserved, now)}: {message}"
    if queue.place:
        yield _place(queue.place, queue_of(queue.workload or {}))


def _place(place: QueuePlace, name: str) -> str:
    only = place.waiting == 1 and not place.before
    number = "the only one that waits" if only else f"number {place.before + 1} of the {place.waiting} that wait"
    own = f"It is {number} in LocalQueue {name}"
    if place.before_in_cluster_queue is None:
        return f"{own}, by priority and age; other LocalQueues may share its quota"
    return f"{own}, and number {place.before_in_cluster_queue + 1} in its ClusterQueue"


def _checks(workload: Document) -> Iterator[str]:
    for check in map(as_mapping, as_sequence(as_mapping(workload.get("status")).get("admissionChecks"))):
        if (state := parse_text(check.get("state"))) != "Ready":
            yield f"AdmissionCheck {parse_text(check.get('name'))} is {state}: {_message(check) or 'no message'}"


def next_step(queue: Queue, now: datetime) -> str:
    """Return what Kueue does next with a job that is suspended."""
    if queue.workload is None or not is_waiting(queue.workload) or _never(queue.workload):
        return ""
    state = as_mapping(as_mapping(queue.workload.get("status")).get("requeueState"))
    time = parse_time(state.get("requeueAt"))
    again = f" It queues again in {human((time - now).total_seconds())}." if time and time > now else ""
    return f"Kueue starts it once there is quota for all of it.{again}"


def what_to_do(queue: Queue) -> str:
    """Return what to do about a job that Kueue has suspended."""
    if queue.workload is None:
        return advice.KUEUE if queue.refused else UNMANAGED
    if as_mapping(queue.workload.get("spec")).get("active") is False:
        metadata = as_mapping(queue.workload.get("metadata"))
        name, patch = f"{_name(queue.workload)} -n {metadata.get('namespace')}", '{"spec":{"active":true}}'
        return f"Let it queue again: kubectl patch workload {name} --type merge -p '{patch}'"
    found = _conditions(queue.workload)
    if _is_true(found, "QuotaReserved"):
        return "The controller of the AdmissionCheck decides; its message says what it waits for."
    if never := _never(queue.workload):
        return never
    evicted = EVICTED.get(parse_text(found["Evicted"].get("reason")), "") if _is_true(found, "Evicted") else ""
    return " ".join(filter(None, (evicted, advice.KUEUE)))


def _never(workload: Document) -> str:
    """Return what to do about a Workload that does not get quota by itself; empty about one that may."""
    reserved = _conditions(workload).get("QuotaReserved", {})
    message = _message(reserved)
    words = "" if LATER in message else next((reason for text, reason in NEVER_WORDS.items() if text in message), "")
    return NEVER.get(parse_text(reserved.get("reason"))) or NEVER.get(words, "")


def _conditions(workload: Document) -> dict[str, Document]:
    items = map(as_mapping, as_sequence(as_mapping(workload.get("status")).get("conditions")))
    return {parse_text(item.get("type")): item for item in items}


def _is_true(found: dict[str, Document], kind: str) -> bool:
    return found.get(kind, {}).get("status") == "True"


def _why(found: dict[str, Document], kind: str) -> str:
    message = _message(found[kind]) if _is_true(found, kind) else ""
    return f" ({message})" if message else ""


def _message(item: Document) -> str:
    return parse_text(item.get("message"))[:MESSAGE]


def _name(workload: Document) -> str:
    return parse_text(as_mapping(workload.get("metadata")).get("name"))


def _since(condition: Document, now: datetime) -> str:
    time = parse_time(condition.get("lastTransitionTime"))
    return f" for {human((now - time).total_seconds())}" if time else ""


def _ago(condition: Document, now: datetime) -> str:
    time = parse_time(condition.get("lastTransitionTime"))
    return f" {human((now - time).total_seconds())} ago" if time else ""
