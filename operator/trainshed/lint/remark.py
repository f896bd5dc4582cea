"""The parts of a rule: what it looks at, and what it says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import msgspec

from trainshed.api.coerce import as_mapping, as_sequence, parse_text
from trainshed.api.framework import Framework, own_container
from trainshed.api.job import Document, Job, ReplicaGroup
from trainshed.api.quantities import parse_quantity

#: The names of resources that are GPUs, or parts of them.
GPU = re.compile(r"[\w.-]+/(?:gpu(?:\.shared)?|mig-[\w.-]+)", re.ASCII)


class Remark(msgspec.Struct, frozen=True):
    """What is wrong at a path below `spec`, or below the spec of a role if there is one."""

    path: str
    message: str
    role: str = ""


class Part(msgspec.Struct, frozen=True):
    """A container of the template of a role; `own` is the framework's own one."""

    group: ReplicaGroup
    container: Document
    path: str
    own: bool

    def remark(self, path: str, message: str) -> Remark:
        """Return a remark about a field of the container, or about the container if `path` is empty."""
        return Remark(f"{self.path}.{path}" if path else self.path, message, self.group.role)

    @property
    def words(self) -> list[str]:
        """The command and its arguments."""
        return [parse_text(word) for field in ("command", "args") for word in as_sequence(self.container.get(field))]

    @property
    def env(self) -> dict[str, str]:
        """The variables that have a value in the template."""
        items = map(as_mapping, as_sequence(self.container.get("env")))
        return {parse_text(item.get("name")): parse_text(item["value"]) for item in items if "value" in item}

    def amounts(self, field: str) -> dict[str, str]:
        """Return the `requests` or the `limits`."""
        found = as_mapping(as_mapping(self.container.get("resources")).get(field))
        return {name: str(amount) for name, amount in found.items()}

    @property
    def gpus(self) -> int:
        """The GPUs that the container gets."""
        found = {**self.amounts("requests"), **self.amounts("limits")}
        return sum(int(parse_quantity(amount) or 0) for name, amount in found.items() if GPU.fullmatch(name))


class LintedJob(msgspec.Struct, frozen=True):
    """A valid job, and its spec as it is written."""

    job: Job
    framework: Framework
    spec: Document

    def parts(self) -> Iterator[Part]:
        """Yield the containers of all roles, init containers first."""
        for group in self.groups:
            spec = pod_spec(group)
            containers = list(map(as_mapping, as_sequence(spec.get("containers"))))
            own = own_container(self.framework.container, containers, group.container)
            for container in map(as_mapping, as_sequence(spec.get("initContainers"))):
                yield Part(group, container, _path("initContainers", container), own=False)
            for container in containers:
                yield Part(group, container, _path("containers", container), own=container is own)

    def own_parts(self) -> Iterator[Part]:
        """Yield the framework's own container of each role."""
        return (part for part in self.parts() if part.own)

    @property
    def groups(self) -> list[ReplicaGroup]:
        """The roles that have replicas."""
        return [group for group in self.job.groups if group.count]

    def gpus(self, group: ReplicaGroup) -> int:
        """Return the GPUs that all containers of a pod of this role get."""
        return sum(part.gpus for part in self.parts() if part.group is group)

    @property
    def has_gpus(self) -> bool:
        """True if pods of the job get GPUs."""
        return any(part.gpus for part in self.parts())


class LintRule(msgspec.Struct, frozen=True):
    """A rule with its name, its check and what to do; `is_error` is whether the API server refuses the pods."""

    name: str
    check: Callable[[LintedJob], Iterator[Remark]]
    advice: str
    is_error: bool = False


def pod_spec(group: ReplicaGroup) -> Document:
    """Return the spec of the pods of a role."""
    return as_mapping(group.template.get("spec"))


def _path(field: str, container: Document) -> str:
    return f"template.spec.{field}[{parse_text(container.get('name'))}]"
