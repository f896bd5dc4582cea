"""The pods and Services to create and to delete, for a given status."""

from __future__ import annotations

from trainshed.api.actions import Action, CreateService, DeletePod, DeleteService
from trainshed.api.job import CleanPodPolicy, Replica, Scope
from trainshed.api.objects import Pod

from . import absent, build, gang, gates, results
from .facts import Facts

#: The grace period in seconds of running pods that a restart deletes. Python as PID 1 has no handler for SIGTERM and
#: would use up the whole default of 30 s.
GRACE = 3


def sweep(facts: Facts) -> tuple[Action, ...]:
    """Delete pods and Services that the spec no longer requests, and pods that the status replaces."""
    surplus = (DeletePod(pod.name, pod.uid) for pod in facts.surplus if not pod.deleting)
    stale = (DeletePod(pod.name, pod.uid, _grace(facts, pod)) for pod in facts.stale if not pod.deleting)
    services = (
        DeleteService(service.name, service.uid)
        for service in facts.snapshot.services
        if service.name not in facts.addresses and not service.deleting
    )
    return (*surplus, *stale, *services, *results.leaving((*facts.surplus, *facts.stale)))


def fill(facts: Facts) -> tuple[Action, ...]:
    """Create the missing Services and pods that may be created now.

    Replicas that restart together are created together: not before the last old pod is gone, including pods that the
    watch does not report. Nothing is created while the PodGroup has not been admitted.
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
    """Create the missing Services."""
    framework, job = facts.framework, facts.job
    if not (framework.objects.services or framework.objects.job_service):
        return ()
    there = {service.name for service in facts.snapshot.services}
    absent = (member for name, member in facts.addresses.items() if name not in there)
    return tuple(build.service(framework, job, member) if member else build.domain(framework, job) for member in absent)


def empty(facts: Facts) -> tuple[Action, ...]:
    """Delete all pods and all Services."""
    pods = (DeletePod(pod.name, pod.uid) for pod in facts.snapshot.pods if not pod.deleting)
    return (*pods, *_services_without(facts, frozenset()), *results.leaving(facts.snapshot.pods))


def tidy(facts: Facts) -> tuple[Action, ...]:
    """Delete the pods of a finished job that `cleanPodPolicy` says, and their Services.

    Delete running pods only at the observed resourceVersion, and their Services afterwards: a pod may have finished by
    now, and finished pods stay.
    """
    stay = frozenset(pod.name for pod in facts.snapshot.pods if _stays(facts, pod))
    going = [pod for pod in facts.snapshot.pods if pod.name not in stay and not pod.deleting]
    pods = [DeletePod(pod.name, pod.uid, version=pod.version if _depends(facts, pod) else "") for pod in going]
    conditional = frozenset(pod.name for pod in pods if pod.version)
    keep_all = facts.job.policy.clean_pods is CleanPodPolicy.NONE
    services = () if keep_all else _services_without(facts, stay | conditional)
    released = results.let_go(pod for pod in facts.snapshot.pods if pod.deleting or pod.name in stay)
    return (*pods, *services, *released)


def _remnants(facts: Facts) -> bool:
    """Return whether a pod of an earlier attempt still exists, even one that scaling down has made surplus."""
    newest = max(facts.status.attempts.values(), default=0)
    return bool(facts.stale) or any(pod.attempt < newest and not pod.over for pod in facts.surplus)


def _stays(facts: Facts, pod: Pod) -> bool:
    return _ended(pod) if _depends(facts, pod) else facts.job.policy.clean_pods is CleanPodPolicy.NONE


def _depends(facts: Facts, pod: Pod) -> bool:
    """Return whether it depends on the state of a pod whether it stays."""
    member = facts.seats.get(pod.name)
    kept = member is not None and member.role in facts.framework.objects.retained_roles
    return kept or facts.job.policy.clean_pods is CleanPodPolicy.RUNNING


def _ended(pod: Pod) -> bool:
    """Return whether no container runs; a kubelet reports this for the containers before it does for the pod."""
    proper = [container for container in pod.containers if not container.sidecar]
    return pod.over or (bool(proper) and all(container.exit_code is not None for container in proper))


def _services_without(facts: Facts, stay: frozenset[str]) -> tuple[DeleteService, ...]:
    return tuple(
        DeleteService(service.name, service.uid)
        for service in facts.snapshot.services
        if service.name not in stay and not service.deleting
    )


def _grace(facts: Facts, pod: Pod) -> int | None:
    """Return the short grace period, or None if the template sets one."""
    member: Replica = facts.seats[pod.name]
    spec = facts.group(member).template.get("spec")
    own = isinstance(spec, dict) and spec.get("terminationGracePeriodSeconds") is not None
    return None if own else GRACE
