"""Sets of replicas, and the replicas of pods by their names, in time and memory that do not grow with `replicas`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain, repeat
from types import MappingProxyType

import msgspec

from .indexes import Indexes
from .job import SINGLETON_ROLES, Job, Replica
from .objects import Pod

#: The replicas of a job are kept by name where it has at most this many for each name that is looked up.
REPLICAS_PER_NAME = 4
NO_INDEXES = Indexes()
NO_ROLES: Counter[str] = Counter()


class Replicas(msgspec.Struct, frozen=True):
    """A set of replicas: the indexes of each role, in the order of the roles, without roles that have none."""

    indexes: tuple[tuple[str, Indexes], ...] = ()

    def __iter__(self) -> Iterator[Replica]:
        return chain.from_iterable([map(Replica, repeat(role), indexes) for role, indexes in self.indexes])

    def __bool__(self) -> bool:
        return bool(self.indexes)

    def __len__(self) -> int:
        return sum([len(indexes) for _, indexes in self.indexes])

    def __contains__(self, replica: Replica) -> bool:
        return replica.index in self.of(replica.role)

    def of(self, role: str) -> Indexes:
        """Return the indexes of a role."""
        return next((indexes for name, indexes in self.indexes if name == role), NO_INDEXES)

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles of these replicas."""
        return tuple([role for role, _ in self.indexes])

    def only(self, roles: Container[str]) -> Replicas:
        """Return those of these roles."""
        return Replicas(tuple([(role, indexes) for role, indexes in self.indexes if role in roles]))

    def without(self, indexes: Mapping[str, Indexes]) -> Replicas:
        """Return those that have none of these indexes of their role."""
        rest = ((role, found - indexes.get(role, NO_INDEXES)) for role, found in self.indexes)
        return Replicas(tuple((role, found) for role, found in rest if found.ranges))


#: No replicas.
NONE = Replicas()


def others(job: Job, replicas: Iterable[Replica]) -> Replicas:
    """Return the replicas of a job besides these, in the order of its roles."""
    found: dict[str, list[int]] = {}
    for role, index in replicas:
        found.setdefault(role, []).append(index)
    rest = [(group.role, Indexes.of(found.get(group.role, ())).gaps(group.count)) for group in job.groups]
    return Replicas(tuple([(role, indexes) for role, indexes in rest if indexes.ranges]))


def replicas_by_name(job: Job, names: Collection[str]) -> Mapping[str, Replica]:
    """Return those replicas of a job whose pods have one of these names, by name."""
    if not names:
        return {}
    if job.size > REPLICAS_PER_NAME * len(names):
        return _parsed(job, names)
    known = _by_name(job.name, tuple((group.role, group.count) for group in job.groups))
    if known.keys() <= set(names):
        return known  # this only saves time
    return {name: known[name] for name in names if name in known}


#: A large job is planned many times in a row; to make its replicas again would take a tenth of the time of a plan.
@lru_cache(maxsize=2)
def _by_name(job: str, sizes: tuple[tuple[str, int], ...]) -> Mapping[str, Replica]:
    found: dict[str, Replica] = {}
    for role, count in sizes:
        if role in SINGLETON_ROLES:
            found |= {f"{job}-{replica}": replica for replica in map(Replica, (role,), range(count))}
        else:  # as `child_name` does, in a third of the time
            head = f"{job}-{role.lower()}-"
            found |= {f"{head}{index}": Replica(role, index) for index in range(count)}
    return MappingProxyType(found)


def replica_named(job: Job, roles: Iterable[str], name: str) -> Replica | None:
    """Return the replica of one of these roles whose pod has this name, however many the job requests; else None."""
    digits = name.rpartition("-")[2]
    index = int(digits) if digits.isdecimal() else 0
    found = (Replica(role, 0 if role in SINGLETON_ROLES else index) for role in roles)
    return next((replica for replica in found if name == f"{job.name}-{replica}"), None)


def _parsed(job: Job, names: Iterable[str]) -> dict[str, Replica]:
    """Do the same as `replicas_by_name`, by the parts of the names."""
    heads = {f"{job.name}-{group.role.lower()}": group for group in job.groups}
    alone = {head: Replica(group.role, 0) for head, group in heads.items() if group.role in SINGLETON_ROLES}
    found: dict[str, Replica] = {}
    for name in names:
        head, _, text = name.rpartition("-")
        group = heads.get(head)
        if name in alone:
            found[name] = alone[name]
        elif group and head not in alone and text.isdecimal() and (index := int(text)) < group.count:
            found[name] = Replica(group.role, index)
    return {name: replica for name, replica in found.items() if name == f"{job.name}-{replica}"}


class Services(msgspec.Struct, frozen=True):
    """The names of the Services that exist and are needed; the replicas that lack theirs; whether the job lacks its."""

    needed: frozenset[str]
    missing: Replicas
    joined_missing: bool


class PodRoles(msgspec.Struct, frozen=True):
    """Which replica each pod is or was. Its name says that: a user who may patch pods may change their labels.

    These are the `requested` replicas that have a pod, and the `former` ones, by the names of their pods. A pod that no
    replica ever had counts for the role `first`, where no pod may be left out.
    """

    requested: Mapping[str, Replica]
    former: Mapping[str, Replica]
    first: str

    def replica(self, pod: Pod) -> Replica | None:
        """Return the replica that a pod is or was; None for a pod that no replica ever had."""
        return self.requested.get(pod.name) or self.former.get(pod.name)

    def count(self, pods: Iterable[Pod], *, foreign: bool = False) -> Counter[str]:
        """Count pods by role; with `foreign` also those that no replica ever had."""
        if not self.former and not foreign:
            return Counter([self.requested[pod.name].role for pod in pods if pod.name in self.requested])
        found = map(self.replica, pods)
        first = self.first if foreign else ""
        return Counter([role for replica in found if (role := replica.role if replica else first)])


def pod_roles(job: Job, roles: Iterable[str], requested: Mapping[str, Replica], surplus: Iterable[Pod]) -> PodRoles:
    """Return the roles of the pods of a job; `roles` are all that its kind has, `surplus` the pods not requested."""
    known = tuple(dict.fromkeys((*(group.role for group in job.groups), *roles)))
    found = {pod.name: replica_named(job, known, pod.name) for pod in surplus}
    return PodRoles(requested, {name: replica for name, replica in found.items() if replica}, known[0])


def tally(roles: list[str]) -> Mapping[str, int]:
    """Count equal roles; the count of any other role is 0. Without pods it saves most of the time."""
    return Counter(roles) if roles else NO_ROLES
