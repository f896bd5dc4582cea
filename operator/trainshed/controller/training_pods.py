"""Which pods of a job train, in one order for all who ask them: the one that speaks for the others is the first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trainshed.api.framework import Framework, child_name
from trainshed.api.job import ASIDE, SINGLETON_ROLES, Job, Replica
from trainshed.api.objects import Phase, Pod


def replicas(job: Job, framework: Framework) -> Iterator[Replica]:
    """Yield the replicas of a job: first the launcher or the one that leads, which reports for all."""
    launcher = next((Replica(group.role, 0) for group in job.groups if group.role in SINGLETON_ROLES), None)
    first = launcher or next((one for one in job.all_replicas if framework.hooks.is_leader(job, one)), None)
    yield from ((first,) if first else ())
    yield from (one for one in job.all_replicas if one != first)


def leader(job: Job, framework: Framework) -> Replica | None:
    """Return the replica that reports for all; None of a job without any."""
    return next(replicas(job, framework), None)


def with_ranks(job: Job, framework: Framework, pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """Return the pods that may have ranks; none while one of them does not run."""
    by_name = {pod.name: pod for pod in pods if not pod.deleting}
    names = (child_name(job, one) for one in replicas(job, framework) if one.role not in ASIDE)
    found = tuple(by_name[name] for name in names if name in by_name)
    return found if all(pod.phase is Phase.RUNNING for pod in found) else ()
