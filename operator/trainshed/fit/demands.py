"""What a pod asks for: the requests and limits of its containers, as the scheduler and quotas count them.

The rules are those of k8s.io/component-helpers/resource: init containers run one after another, sidecars among them
beside the others, and resources of the whole pod take the place of those of its containers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from trainshed.api.coerce import as_mapping, as_sequence, parse_count, parse_text
from trainshed.api.job import Document, Job
from trainshed.api.quantities import requests as requests_of

from .amounts import HUGE_PAGES, Amounts, most, parsed, times, total

#: The resources that a pod can ask for as a whole.
OF_PODS = ("cpu", "memory")
#: Where a port is taken: protocol and number.
Port = tuple[str, int]


class RoleDemand(msgspec.Struct, frozen=True):
    """The pods of a role: their names, and the spec that they have in common; `priority` is None if it is not known."""

    role: str
    names: tuple[str, ...]
    spec: Document
    priority: int | None = None

    @property
    def count(self) -> int:
        """The number of pods."""
        return len(self.names)

    @property
    def requests(self) -> dict[str, int]:
        """What each pod requests."""
        return pod_amounts(self.spec, "requests")

    @property
    def limits(self) -> dict[str, int]:
        """What each pod is limited to."""
        return pod_amounts(self.spec, "limits")

    @property
    def total(self) -> dict[str, int]:
        """What all pods request."""
        return times(self.requests, self.count)


def containers(spec: Document) -> Iterator[Document]:
    """Yield the init containers and the containers of a pod."""
    for part in ("initContainers", "containers"):
        yield from map(as_mapping, as_sequence(spec.get(part)))


def container_amounts(container: Document, field: str) -> dict[str, int]:
    """Return the `requests` or `limits` of a container; what has only a limit is requested as well."""
    if field == "requests":
        return parsed(requests_of(container))
    return parsed(as_mapping(container.get("resources")).get(field))


def pod_amounts(spec: Document, field: str) -> dict[str, int]:
    """Return the `requests` or `limits` of a pod."""
    running = total(
        container_amounts(as_mapping(container), field) for container in as_sequence(spec.get("containers"))
    )
    beside: dict[str, int] = {}
    starting: dict[str, int] = {}
    for container in map(as_mapping, as_sequence(spec.get("initContainers"))):
        amounts = total((beside, container_amounts(container, field)))
        if container.get("restartPolicy") == "Always":
            beside = amounts
        starting = most(starting, amounts)
    found = most(total((running, beside)), starting)
    whole = container_amounts(spec, field)
    found |= {name: amount for name, amount in whole.items() if name in OF_PODS or name.startswith(HUGE_PAGES)}
    overhead = parsed(spec.get("overhead"))
    return total((found, overhead if field == "requests" else _known(overhead, found)))


def _known(overhead: Amounts, limits: Amounts) -> dict[str, int]:
    return {name: amount for name, amount in overhead.items() if name in limits}


def pod_devices(spec: Document) -> dict[str, int]:
    """Return the extended resources that a pod requests: their names have the domain of a vendor."""
    return {name: amount for name, amount in pod_amounts(spec, "requests").items() if "/" in name and amount}


def devices(job: Job) -> Amounts:
    """Return the extended resources that all replicas of a job request."""
    return total(times(pod_devices(group.template.get("spec") or {}), group.count) for group in job.groups)


def is_best_effort(spec: Document) -> bool:
    """Return whether a pod has neither requests nor limits of processors and memory (its class of quality)."""
    holders: tuple[Mapping[str, object], ...] = (spec, *containers(spec))
    fields = (parsed(as_mapping(holder.get("resources")).get(part)) for holder in holders for part in PARTS)
    return not any(amounts.get(name) for amounts in fields for name in OF_PODS)


PARTS = ("requests", "limits")


def host_ports(spec: Document) -> frozenset[Port]:
    """Return the ports of the node that a pod takes."""
    ports = (as_mapping(port) for item in containers(spec) for port in as_sequence(item.get("ports")))
    is_host = spec.get("hostNetwork") is True
    taken = (
        (
            parse_text(port.get("protocol")) or "TCP",
            parse_count(port.get("hostPort") or (is_host and port.get("containerPort"))),
        )
        for port in ports
    )
    return frozenset(port for port in taken if port[1])
