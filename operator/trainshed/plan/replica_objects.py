"""Which replicas the pods and Services of a job belong to.

The name of a pod says that: a user who may patch pods may change their labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from trainshed.api.framework import Framework
from trainshed.api.job import Job, Replica
from trainshed.api.objects import Pod
from trainshed.api.replicas import Replicas, replica_named


class Services(msgspec.Struct, frozen=True):
    """The names of the Services that exist and are needed; the replicas that lack theirs; whether the job lacks its."""

    needed: frozenset[str]
    missing: Replicas
    joined_missing: bool


class PodRoles(msgspec.Struct, frozen=True):
    """The `requested` replicas that have a pod, and the `former` ones, by the names of their pods.

    A pod that no replica ever had counts for the role `first`, where no pod may be left out.
    """

    requested: Mapping[str, Replica]
    former: Mapping[str, Replica]
    first: str

    def count(self, pods: Iterable[Pod], *, foreign: bool = False) -> Counter[str]:
        """Count pods by role; with `foreign` also those that no replica ever had."""
        if not self.former and not foreign:
            return Counter([self.requested[pod.name].role for pod in pods if pod.name in self.requested])
        found = (self.requested.get(pod.name) or self.former.get(pod.name) for pod in pods)
        first = self.first if foreign else ""
        return Counter([role for replica in found if (role := replica.role if replica else first)])


def pod_roles(job: Job, framework: Framework, requested: Mapping[str, Replica], surplus: Iterable[Pod]) -> PodRoles:
    """Return the roles of the pods of a job; `surplus` are those that it does not request."""
    roles = tuple(dict.fromkeys((*(group.role for group in job.groups), *framework.roles)))
    found = {pod.name: replica_named(job, roles, pod.name) for pod in surplus}
    return PodRoles(requested, {name: replica for name, replica in found.items() if replica}, roles[0])
