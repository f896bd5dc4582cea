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
        if service.name not in facts.addresses and not service.deleting
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
    pods = [make(member, attempts.get(member.role, 0)) for member in facts.missing if member not in facts.gated]
    keys = build.keys(facts.framework, facts.job) if pods else ()
    return (*keys, *services(facts), *pods)


def services(facts: Facts) -> tuple[CreateService, ...]:
    """The Services that are missing."""
    framework, job = facts.framework, facts.job
    if not (framework.services or framework.domain):
        return ()
    there = {service.name for service in facts.snapshot.services}
    absent = (member for name, member in facts.addresses.items() if name not in there)
    return tuple(build.service(framework, job, member) if member else build.domain(framework, job) for member in absent)


def empty(facts: Facts) -> tuple[Action, ...]:
    """Delete every pod and every Service."""
    pods = (DeletePod(pod.name, pod.uid) for pod in facts.snapshot.pods if not pod.deleting)
    return (*pods, *_services_without(facts, frozenset()))


def tidy(facts: Facts) -> tuple[Action, ...]:
    """Delete what `cleanPodPolicy` says, once the job is over, and the Services of the pods that go."""
    stay = frozenset(pod.name for pod in facts.snapshot.pods if _stays(facts, pod))
    going = (pod for pod in facts.snapshot.pods if pod.name not in stay and not pod.deleting)
    spared = facts.job.policy.clean_pods is CleanPodPolicy.NONE
    services = () if spared else _services_without(facts, stay)
    return (*(DeletePod(pod.name, pod.uid) for pod in going), *services)


def _stays(facts: Facts, pod: Pod) -> bool:
    member, policy = facts.seats.get(pod.name), facts.job.policy.clean_pods
    if policy is CleanPodPolicy.RUNNING or (member and member.role in facts.framework.kept):
        return pod.over
    return policy is CleanPodPolicy.NONE


def _services_without(facts: Facts, stay: frozenset[str]) -> tuple[DeleteService, ...]:
    return tuple(
        DeleteService(service.name, service.uid)
        for service in facts.snapshot.services
        if service.name not in stay and not service.deleting
    )


def _grace(facts: Facts, pod: Pod) -> int | None:
    member: Member = facts.seats[pod.name]
    return grace(facts.group(member).template)
