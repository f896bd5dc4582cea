"""Which pods and Services are to come and to go, for a status that is decided."""

from __future__ import annotations

from trainshed.api.actions import Action, CreateService, DeletePod, DeleteService
from trainshed.api.job import CleanPodPolicy, Member, Scope
from trainshed.api.pod import Pod

from . import absent, build, gang, gates, results
from .facts import Facts

#: Seconds that a survivor of a restart has to end in. Python as PID 1 has no handler for SIGTERM and would sit out the
#: whole default of 30 s.
GRACE = 3


def sweep(facts: Facts) -> tuple[Action, ...]:
    """Delete what has no seat any more, and whom the status has given up on."""
    surplus = (DeletePod(pod.name, pod.uid) for pod in facts.surplus if not pod.deleting)
    stale = (DeletePod(pod.name, pod.uid, _grace(facts, pod)) for pod in facts.stale if not pod.deleting)
    services = (
        DeleteService(service.name, service.uid)
        for service in facts.snapshot.services
        if service.name not in facts.addresses and not service.deleting
    )
    return (*surplus, *stale, *services, *results.leaving((*facts.surplus, *facts.stale)))


def fill(facts: Facts) -> tuple[Action, ...]:
    """Make the Services and pods that are missing, as far as it is time for them.

    Members that restart together come back together: not before the last of the old ones is gone, be it hidden from
    our watch. While the group waits for its place nothing is made at all.
    """
    if gang.waits(facts):
        return ()
    waiting = facts.status.retries.wait(facts.now)
    if waiting or (facts.scope is Scope.JOB and _remnants(facts)) or absent.awaited(facts):
        return services(facts)
    gated = gates.gated(facts)
    wanted = [member for member in facts.missing if member not in gated]
    if not wanted:
        return services(facts)
    make, attempts = build.pods(facts.framework, facts.job, facts.snapshot.site), facts.status.attempts
    pods = [make(member, attempts.get(member.role, 0)) for member in wanted]
    return (*build.keys(facts.framework, facts.job), *services(facts), *pods)


def services(facts: Facts) -> tuple[CreateService, ...]:
    """The Services that are missing."""
    framework, job = facts.framework, facts.job
    if not (framework.objects.services or framework.objects.job_service):
        return ()
    there = {service.name for service in facts.snapshot.services}
    absent = (member for name, member in facts.addresses.items() if name not in there)
    return tuple(build.service(framework, job, member) if member else build.domain(framework, job) for member in absent)


def empty(facts: Facts) -> tuple[Action, ...]:
    """Delete every pod and every Service."""
    pods = (DeletePod(pod.name, pod.uid) for pod in facts.snapshot.pods if not pod.deleting)
    return (*pods, *_services_without(facts, frozenset()), *results.leaving(facts.snapshot.pods))


def tidy(facts: Facts) -> tuple[Action, ...]:
    """Delete what `cleanPodPolicy` says, once the job is over, and the Services of the pods that go.

    Who goes because he still runs goes only as we know him, and his Service after him: he may have ended by now, and
    what has ended stays.
    """
    stay = frozenset(pod.name for pod in facts.snapshot.pods if _stays(facts, pod))
    going = [pod for pod in facts.snapshot.pods if pod.name not in stay and not pod.deleting]
    pods = [DeletePod(pod.name, pod.uid, version=pod.version if _depends(facts, pod) else "") for pod in going]
    perhaps = frozenset(pod.name for pod in pods if pod.version)
    spared = facts.job.policy.clean_pods is CleanPodPolicy.NONE
    services = () if spared else _services_without(facts, stay | perhaps)
    released = results.let_go(pod for pod in facts.snapshot.pods if pod.deleting or pod.name in stay)
    return (*pods, *services, *released)


def _remnants(facts: Facts) -> bool:
    """Whether somebody of an earlier attempt is still there, be it without a seat since the job was scaled down."""
    newest = max(facts.status.attempts.values(), default=0)
    return bool(facts.stale) or any(pod.attempt < newest and not pod.over for pod in facts.surplus)


def _stays(facts: Facts, pod: Pod) -> bool:
    return _ended(pod) if _depends(facts, pod) else facts.job.policy.clean_pods is CleanPodPolicy.NONE


def _depends(facts: Facts, pod: Pod) -> bool:
    """Whether it depends on how a pod is if it stays."""
    member = facts.seats.get(pod.name)
    kept = member is not None and member.role in facts.framework.objects.retained_roles
    return kept or facts.job.policy.clean_pods is CleanPodPolicy.RUNNING


def _ended(pod: Pod) -> bool:
    """Whether nothing runs in it; kubelets say so of its containers a moment before they say it of the pod."""
    proper = [container for container in pod.containers if not container.sidecar]
    return pod.over or (bool(proper) and all(container.exit_code is not None for container in proper))


def _services_without(facts: Facts, stay: frozenset[str]) -> tuple[DeleteService, ...]:
    return tuple(
        DeleteService(service.name, service.uid)
        for service in facts.snapshot.services
        if service.name not in stay and not service.deleting
    )


def _grace(facts: Facts, pod: Pod) -> int | None:
    """Few seconds, unless its template asks for a time of its own."""
    member: Member = facts.seats[pod.name]
    spec = facts.group(member).template.get("spec")
    own = isinstance(spec, dict) and spec.get("terminationGracePeriodSeconds") is not None
    return None if own else GRACE
