"""Which replicas of a job become one replicated job of a JobSet, and their environment there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from trainshed.api.framework import Framework, JobDefaults, Variable
from trainshed.api.job import Document, Job, Replica

#: The container and the replicated job that Trainer knows as the nodes of a training.
NODE = "node"
#: The label of a replicated job whose container `node` gets what spec.trainer of a TrainJob says.
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
COMPLETION_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
JOB_INDEX = "metadata.labels['jobset.sigs.k8s.io/job-index']"
GLOBAL_INDEX = "metadata.labels['jobset.sigs.k8s.io/job-global-index']"
#: The variable with the index, for those that have it inside of a text.
INDEX = "TRAINSHED_REPLICA_INDEX"


class Inexpressible(Exception):
    """A variable whose values in the replicas of a replicated job follow no rule that a pod template can have."""


@dataclass(frozen=True, slots=True)
class ReplicatedJob:
    """A replicated job: its name, and the replicas that become its pods, in the order of their indexes.

    `before` is the number of replicas in those that stand before it. With `apart` each replica is a Job of its own.
    """

    name: str
    members: tuple[Replica, ...]
    before: int = 0
    apart: bool = False

    @property
    def role(self) -> str:
        """The role of the first member, whose template all have."""
        return self.members[0].role

    def host(self, job: str, index: int) -> str:
        """Return the name under which DNS finds the pod with this index."""
        return f"{job}-{self.name}-{index}-0.{job}" if self.apart else f"{job}-{self.name}-0-{index}.{job}"


@dataclass(frozen=True, slots=True)
class Layout:
    """The replicated jobs of a job, and the variables of each."""

    targets: tuple[ReplicatedJob, ...]
    variables: dict[str, tuple[Variable, ...]]

    @property
    def merged(self) -> bool:
        """Whether all replicas are the nodes of one training."""
        return [target.name for target in self.targets] == [NODE]


def layout(job: Job, framework: Framework, job_defaults: JobDefaults) -> Layout:
    """Return the layout with the fewest replicated jobs that can say what the environment of each replica is.

    Raises:
        Inexpressible: No layout can.
    """
    problem = Inexpressible("the job has no replicas")
    for targets in _layouts(job):
        try:
            return Layout(*_with_variables(job, framework, job_defaults, targets))
        except Inexpressible as error:
            problem = error
    raise problem


def _layouts(job: Job) -> Iterator[tuple[ReplicatedJob, ...]]:
    groups = [group for group in job.groups if group.count]
    if not groups:
        return
    same = all(
        (one.template_hash, one.restart_policy) == (groups[0].template_hash, groups[0].restart_policy) for one in groups
    )
    if same:
        yield _numbered([ReplicatedJob(NODE, tuple(one for group in groups for one in group.replicas))])
    roles = [ReplicatedJob(group.role.lower(), tuple(group.replicas)) for group in groups]
    yield _numbered(roles)
    first, *others = roles
    if len(first.members) > 1:
        head = ReplicatedJob(f"{first.name}-first", first.members[:1])
        yield _numbered([head, ReplicatedJob(first.name, first.members[1:]), *others])


def _numbered(targets: Iterable[ReplicatedJob]) -> tuple[ReplicatedJob, ...]:
    found: list[ReplicatedJob] = []
    for target in targets:
        found.append(replace(target, before=sum(len(one.members) for one in found)))
    return tuple(found)


def _with_variables(
    job: Job, framework: Framework, job_defaults: JobDefaults, targets: tuple[ReplicatedJob, ...]
) -> tuple[tuple[ReplicatedJob, ...], dict[str, tuple[Variable, ...]]]:
    environment = framework.hooks.environment(job, job_defaults)
    samples = {target.name: _samples(target, environment) for target in targets}
    final = tuple(replace(target, apart=_counts_on(target, samples[target.name])) for target in targets)
    rename = renamer(job, final)
    return final, {target.name: _variables(target, samples[target.name], rename) for target in final}


#: The variables of some replicas of a target, each with its index there.
Samples = dict[int, tuple[Variable, ...]]


def _samples(target: ReplicatedJob, environment: Callable[[Replica], tuple[Variable, ...]]) -> Samples:
    count = len(target.members)
    found = {index: environment(target.members[index]) for index in {0, min(1, count - 1), count // 2, count - 1}}
    names = {tuple(variable.name for variable in variables) for variables in found.values()}
    if len(names) > 1:
        raise Inexpressible(f"the replicas of {target.name} have different variables")
    return found


def _counts_on(target: ReplicatedJob, samples: Samples) -> bool:
    """Return whether a variable counts the replicas from those before the target on."""
    columns = zip(*samples.values(), strict=True)
    return bool(target.before) and any(
        len(samples) > 1 and _follows({i: one.value for i, one in zip(samples, column, strict=True)}, target.before)
        for column in columns
    )


def renamer(job: Job, targets: Iterable[ReplicatedJob]) -> Callable[[str], str]:
    """Return a function that replaces the host names of replicas in a text by those in the JobSet."""
    hosts = {
        f"{job.name}-{replica}": (target, index) for target in targets for index, replica in enumerate(target.members)
    }
    domain = rf"(?:(?:\.{re.escape(job.name)})?\.{re.escape(job.namespace)}\.svc(?:\.[a-z0-9.-]*[a-z0-9])?)?"
    pattern = re.compile(rf"(?<![a-z0-9-])({re.escape(job.name)}-[a-z]+(?:-\d+)?){domain}(?![a-z0-9-])")

    def new(found: re.Match[str]) -> str:
        place = hosts.get(found[1])
        return place[0].host(job.name, place[1]) if place else found[0]

    return lambda text: pattern.sub(new, text)


def _variables(target: ReplicatedJob, samples: Samples, rename: Callable[[str], str]) -> tuple[Variable, ...]:
    found: list[Variable] = []
    for column in zip(*samples.values(), strict=True):
        found += _variable(target, dict(zip(samples, column, strict=True)), rename)
    names = [variable.name for variable in found]
    return tuple(variable for index, variable in enumerate(found) if variable.name not in names[:index])


def _variable(target: ReplicatedJob, column: dict[int, Variable], rename: Callable[[str], str]) -> Iterator[Variable]:
    first = column[0]
    values = {index: variable.value for index, variable in column.items()}
    sources = [variable.source for variable in column.values()]
    if any(source != first.source for source in sources):
        raise Inexpressible(f"{first.name} has different sources in the replicas of {target.name}")
    if len(column) == 1 or len(set(values.values())) == 1:
        yield replace_value(first, rename(first.value))
    elif _follows(values, 0):
        yield _from_field(first, JOB_INDEX if target.apart else COMPLETION_INDEX)
    elif target.apart and _follows(values, target.before):
        yield _from_field(first, GLOBAL_INDEX)
    elif (around := _around(values)) is not None:
        index = JOB_INDEX if target.apart else COMPLETION_INDEX
        yield _from_field(Variable(INDEX), index)
        yield replace_value(first, f"{rename(around[0])}$({INDEX}){rename(around[1])}")
    else:
        raise Inexpressible(f"{first.name} follows no rule in the replicas of {target.name}")


def replace_value(variable: Variable, value: str) -> Variable:
    """Return a variable with another value."""
    return Variable(variable.name, value, variable.source, variable.user_overridable)


def _from_field(variable: Variable, path: str) -> Variable:
    return Variable(variable.name, "", {"fieldRef": {"fieldPath": path}}, variable.user_overridable)


def _follows(values: dict[int, str], first: int) -> bool:
    return all(value == str(first + index) for index, value in values.items())


def _around(values: dict[int, str]) -> tuple[str, str] | None:
    """Return what stands before and after the index in all values, if that is all in which they differ."""
    least, most = min(values.values()), max(values.values())  # what these have in common, all have
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(least, most, strict=False)))
    head = least[:same].rstrip("0123456789")
    index, value = next(iter(values.items()))
    tail = value[len(head) + len(str(index)) :]
    return (head, tail) if all(text == f"{head}{number}{tail}" for number, text in values.items()) else None


def equip(container: Document, variables: Iterable[Variable]) -> dict[str, Any]:
    """Return a container with the variables of the operator: those that the user may override stay as they are.

    Each name stands once, as server-side apply wants it: of several, the last one counts.
    """
    env = [entry for entry in container.get("env") or () if isinstance(entry, dict)]
    last = {entry.get("name"): number for number, entry in enumerate(env)}
    own = [variable for variable in variables if not (variable.user_overridable and variable.name in last)]
    names = {variable.name for variable in own}
    kept = [e for number, e in enumerate(env) if last[e.get("name")] == number and e.get("name") not in names]
    added = [
        {"name": variable.name, "valueFrom": dict(variable.source)}
        if variable.source is not None
        else {"name": variable.name, "value": variable.value}
        for variable in own
    ]
    return {**container, **({"env": [*kept, *added]} if kept or added else {})}
