"""Which pods and Services are to come and to go, for a status that is decided."""

from __future__ import annotations

from trainshed.api.actions import Action, CreateService, DeletePod, DeleteService
from trainshed.api.job import CleanPodPolicy, Member, Scope
from trainshed.api.pod import Pod

from . import build, gang
from .facts import Facts
from .failures import grace


def sweep(facts: Facts) -> tuple[Action, ...]:
    """Delete what has no seat any more, and whom the status has given up on."""
    surplus = (DeletePod(pod.name, pod.uid) for pod in facts.surplus if not pod.deleting)
    stale = (DeletePod(pod.name, pod.uid, _grace(facts, pod)) for pod in facts.stale if not pod.deleting)
    services = (
        DeleteService(service.name, service.uid)
        for service in facts.snapshot.services
        if service.name not in facts.seats and not service.deleting
    )
    return (*surplus, *stale, *services)


def fill(facts: Facts) -> tuple[Action, ...]:
    """Make the Services and pods that are missing, as far as it is time for them.

    Members that restart together come back together: not before the last of the old ones is gone. While the group
    waits for its place nothing is made at all.
    """
    if gang.waits(facts):
        return ()
    if facts.waiting or (facts.scope is Scope.JOB and facts.stale):
        return services(facts)
    make = build.pods(facts.framework, facts.job, facts.snapshot.site)
    attempts = facts.status.attempts
    pods = (make(member, attempts.get(member.role, 0)) for member in facts.missing if member not in facts.gated)
    return (*services(facts), *pods)


def services(facts: Facts) -> tuple[CreateService, ...]:
    """The Services that are missing."""
    if not facts.framework.services:
        return ()
    there = {service.name for service in facts.snapshot.services}
    absent = (member for name, member in facts.seats.items() if name not in there)
    return tuple(build.service(facts.framework, facts.job, member) for member in absent)


def empty(facts: Facts) -> tuple[Action, ...]:
    """Delete every pod and every Service."""
    pods = (DeletePod(pod.name, pod.uid) for pod in facts.snapshot.pods if not pod.deleting)
    return (*pods, *_services_without(facts, frozenset()))


def tidy(facts: Facts) -> tuple[Action, ...]:
    """Delete what `cleanPodPolicy` says, once the job is over, and the Services of the pods that go."""
    policy = facts.job.policy.clean_pods
    if policy is CleanPodPolicy.NONE:
        return ()
    if policy is CleanPodPolicy.ALL:
        return empty(facts)
    stay = frozenset(pod.name for pod in facts.snapshot.pods if pod.over)
    going = (pod for pod in facts.snapshot.pods if pod.name not in stay and not pod.deleting)
    return (*(DeletePod(pod.name, pod.uid) for pod in going), *_services_without(facts, stay))


def _services_without(facts: Facts, stay: frozenset[str]) -> tuple[DeleteService, ...]:
    return tuple(
        DeleteService(service.name, service.uid)
        for service in facts.snapshot.services
        if service.name not in stay and not service.deleting
    )


def _grace(facts: Facts, pod: Pod) -> int | None:
    member: Member = facts.seats[pod.name]
    return grace(facts.group(member).template)
