"""Which pods and Services to create, delete or release for a given status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from datetime import datetime, timedelta
from itertools import islice

from trainshed.api import kueue_groups, objects
from trainshed.api.actions import (
    Action,
    CreatePod,
    CreateService,
    DeletePod,
    DeleteService,
    ReleasePod,
)
from trainshed.api.job import CleanPodPolicy, Replica, RestartScope
from trainshed.api.objects import Phase, Pod
from trainshed.api.replicas import replicas_by_name
from trainshed.api.status import ReplicaStatus

from . import builders, false_starts, pod_groups, restarts, scale_downs, services, start_order
from .facts import Facts
from .missing_pods import pods_to_verify

#: The grace period in seconds of running pods that a restart after a failure deletes. Python as PID 1 has no handler
#: for SIGTERM and would use up the whole default of 30 s.
GRACE = 3
#: The largest number of pods that one plan creates; the next one creates the next. Of a large job a plan creates one
#: part in PARTS, if that is more, because the time of a plan grows with the number of pods; but not more than it has.
MAX_CREATED, PARTS = 200, 20


def delete_stale(facts: Facts) -> tuple[Action, ...]:
    """Delete pods and Services that the spec no longer requests, and pods that the status replaces."""
    surplus = (DeletePod(pod.name, pod.uid) for pod in facts.surplus if not pod.deleting)
    stale = (DeletePod(pod.name, pod.uid, _grace(facts, pod)) for pod in facts.stale if not pod.deleting)
    # While a pod is missing the other form's Services stay: the pod may only have lost its label, and need them.
    unneeded = _services_without(facts, facts.services.needed)
    if facts.missing:
        others = (*replicas_by_name(facts.job, [action.name for action in unneeded]), facts.job.name)
        unneeded = tuple(action for action in unneeded if action.name not in others)
    return (*surplus, *stale, *unneeded, *release_deleted((*facts.surplus, *facts.stale)))


def create_missing(facts: Facts) -> tuple[Action, ...]:
    """Create the missing Services and pods that may be created now.

    Only a part of many pods, with their Services, is created at a time: meanwhile the job may be deleted or suspended,
    and its status says how far it has got. Replicas that restart together are created together: not before the last old
    pod is gone, including pods that the watch does not report. Nothing is created while the PodGroup has not been
    admitted. While all new pods wait no Service is created for them either: the job may be suspended again before.
    """
    if pod_groups.wait(facts):
        return ()
    waiting = facts.status.retries.wait(facts.now) or scale_downs.earliest_creation(facts)
    if waiting or (facts.scope is RestartScope.JOB and _remnants(facts)) or pods_to_verify(facts):
        return _services_of_pods(facts)
    gated, postponed = start_order.gated_replicas(facts), false_starts.postponed(facts)
    free = facts.missing.only(set(facts.missing.roles).difference(gated.roles)) if gated else facts.missing
    wanted = list(islice((replica for replica in free if replica not in postponed), _part(facts)))
    if not wanted:
        return missing_services(facts)
    avoided = restarts.failed_nodes(facts.status) if facts.job.avoid_failed_nodes else ()
    attempts, job = facts.status.attempts, facts.job
    group = kueue_groups.name_of(job.name, job.uid, attempts) if job.grouped else ""
    make = builders.pod_maker(facts.framework, job, facts.snapshot.job_defaults, avoided, group)
    pods = [make(replica, attempts.get(replica.role, 0)) for replica in wanted]
    return (*builders.ssh_secret(facts.framework, facts.job), *missing_services(facts), *pods)


def missing_services(facts: Facts) -> tuple[CreateService, ...]:
    """Create the missing Services, a part of them at a time, but none of a replica whose old pod still exists."""
    if not (facts.services.missing or facts.services.joined_missing):
        return ()
    old = {facts.replicas_by_pod[pod.name] for pod in facts.stale}
    return _create_services(facts, (replica for replica in facts.services.missing if replica not in old))


def _services_of_pods(facts: Facts) -> tuple[CreateService, ...]:
    """Create the missing Services of the pods that exist."""
    return _create_services(facts, (replica for replica in facts.services.missing if replica in facts.current))


def _create_services(facts: Facts, replicas: Iterable[Replica]) -> tuple[CreateService, ...]:
    framework, job = facts.framework, facts.job
    if not (framework.objects.services or framework.objects.job_service):
        return ()
    make = builders.service_maker(framework, job)
    joined = (builders.job_service(framework, job),) if facts.services.joined_missing else ()
    return (*map(make, islice(replicas, _part(facts))), *joined)


def _part(facts: Facts) -> int:
    if not facts.snapshot.in_parts:
        return facts.job.size
    return max(MAX_CREATED, min(facts.job.size // PARTS, len(facts.snapshot.pods)))


def more_to_create(actions: Sequence[Action]) -> bool:
    """Return whether there may be more to create, when these actions have been executed."""
    if len(actions) < MAX_CREATED:
        return False
    kinds = Counter([type(action) for action in actions])
    return max(kinds[CreatePod], kinds[CreateService]) >= MAX_CREATED


def delete_all(facts: Facts) -> tuple[Action, ...]:
    """Delete all pods and all Services."""
    pods = (DeletePod(pod.name, pod.uid) for pod in facts.owned if not pod.deleting)
    return (*pods, *_services_without(facts, frozenset()), *release_deleted(facts.owned))


def apply_clean_pod_policy(facts: Facts) -> tuple[Action, ...]:
    """Delete the pods of a finished job that `cleanPodPolicy` says, and their Services.

    Of a job that a limit has failed, the running pods are deleted also under None, so that they hold no resources. So
    are those of a job of a queue that do not end by themselves. `ending_pods` stay for a while.

    Delete running pods only at the observed resourceVersion, and their Services afterwards: a pod may have finished by
    now, and finished pods stay.
    """
    ending = ending_pods(facts)
    stay = frozenset(pod.name for pod in facts.owned if pod in ending or _stays(facts, pod))
    going = [pod for pod in facts.owned if pod.name not in stay and not pod.deleting]
    pods = [DeletePod(pod.name, pod.uid, version=pod.version if _depends(facts, pod) else "") for pod in going]
    conditional = frozenset(pod.name for pod in pods if pod.version)
    keep_all = _policy(facts) is CleanPodPolicy.NONE
    needed = services.needed(pod for pod in facts.snapshot.pods if pod.name in stay | conditional)
    unneeded = () if keep_all else _services_without(facts, needed)
    released = release_all(pod for pod in facts.owned if pod.deleting or pod.name in stay)
    return (*pods, *unneeded, *released)


def _remnants(facts: Facts) -> bool:
    """Return whether a pod of an earlier attempt still exists, even one that scaling down has made surplus."""
    newest = max(facts.status.attempts.values(), default=0)
    return bool(facts.stale) or any(pod.attempt < newest and not pod.over for pod in facts.surplus)


def _stays(facts: Facts, pod: Pod) -> bool:
    return _has_ended(pod) if _depends(facts, pod) else _policy(facts) is CleanPodPolicy.NONE


def _depends(facts: Facts, pod: Pod) -> bool:
    """Return whether the pod's state decides whether it stays."""
    replica = facts.replicas_by_pod.get(pod.name)
    kept = replica is not None and replica.role in facts.framework.objects.retained_roles
    return kept or _policy(facts) is CleanPodPolicy.RUNNING


def _policy(facts: Facts) -> CleanPodPolicy:
    """Return cleanPodPolicy, and Running instead of None for a job that a limit has failed or that ends too slowly."""
    policy, ending = facts.job.policy.clean_pods, facts.status.ending
    deadline = end_deadline(facts) if ending else None
    too_slow = deadline is not None and (facts.job.policy.suspend or facts.now >= deadline)
    stops = policy is CleanPodPolicy.NONE and (facts.status.limit_exceeded or too_slow)
    return CleanPodPolicy.RUNNING if stops else policy


def end_deadline(facts: Facts) -> datetime | None:
    """Return until when pods of a job whose end is decided may end by themselves; None if it is not decided.

    Of a job of a queue these are all pods under cleanPodPolicy None, else `ending_pods`.
    """
    ending = facts.status.ending
    decided = ending.changed if ending else facts.status.completion
    return decided + timedelta(seconds=facts.job.pod_end_grace) if decided else None


def ending_pods(facts: Facts) -> tuple[Pod, ...]:
    """Return pods in which only other containers than the framework's run, which has succeeded, until the deadline.

    These may report results after its end, as metrics collectors do, and their pods are not deleted before.
    """
    deadline = end_deadline(facts)
    if deadline is None or facts.now >= deadline or facts.job.policy.suspend:
        return ()
    succeeded = {pod.uid for pod in facts.eventful.values() if pod.phase is Phase.SUCCEEDED}
    left = (pod for pod in facts.snapshot.pods if pod.uid in succeeded and not pod.over and not pod.deleting)
    return tuple(pod for pod in left if any(map(_runs_on, pod.containers)))


def _runs_on(container: objects.Container) -> bool:
    return container.exit_code is None and (container.sidecar or not container.init)


def _has_ended(pod: Pod) -> bool:
    """Return whether no container runs; a kubelet reports this for the containers before it does for the pod."""
    proper = [container for container in pod.containers if not container.sidecar]
    return pod.over or (bool(proper) and all(container.exit_code is not None for container in proper))


def _services_without(facts: Facts, stay: Container[str]) -> tuple[DeleteService, ...]:
    return tuple(
        DeleteService(service.name, service.uid)
        for service in facts.snapshot.services
        if service.name not in stay and not service.deleting
    )


def _grace(facts: Facts, pod: Pod) -> int | None:
    """Return the short grace period after a failure; None, the pod's own, if nothing failed or the user sets it."""
    replica: Replica = facts.replicas_by_pod[pod.name]
    spec = facts.group(replica).template.get("spec")
    own = isinstance(spec, dict) and spec.get("terminationGracePeriodSeconds") is not None
    own = own or facts.job.checkpoint_grace is not None
    return GRACE if restarts.after_failure(facts.status) and not own else None


def release_all(pods: Iterable[Pod]) -> tuple[ReleasePod, ...]:
    """Return actions that remove the finalizer of these pods: their results are stored, or no longer needed."""
    return tuple(ReleasePod(pod.name, pod.uid, pod.version, pod.finalizers) for pod in pods if pod.has_finalizer)


def release_deleted(pods: Iterable[Pod]) -> tuple[ReleasePod, ...]:
    """Remove the finalizer of the terminating ones of these pods; the others are deleted first, which changes them."""
    return release_all(pod for pod in pods if pod.deleting)


def release_counted(facts: Facts) -> tuple[ReleasePod, ...]:
    """Remove the finalizer of pods whose success is stored, and of terminating pods without a result to store."""
    pending = facts.failed if restarts.failure_group(facts) else {}
    held = {replica: pod for replica, pod in facts.current.items() if pod.has_finalizer}
    return release_all(
        pod
        for replica, pod in held.items()
        if _stored(facts, pod) or (pod.deleting and replica not in pending and not _succeeded(facts, pod))
    )


def _succeeded(facts: Facts, pod: Pod) -> bool:
    """Return whether the pod has succeeded and the status stores successes of its role."""
    replica = facts.replicas_by_pod[pod.name]
    return pod.phase is Phase.SUCCEEDED and replica.index in facts.done[replica.role]


def _stored(facts: Facts, pod: Pod) -> bool:
    replica = facts.replicas_by_pod[pod.name]
    return (
        pod.phase is Phase.SUCCEEDED
        and replica.index in facts.status.replica_statuses.get(replica.role, ReplicaStatus()).done
    )
