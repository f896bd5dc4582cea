"""Which devices jobs use, by namespace, against what nodes offer: every extended resource, such as nvidia.com/gpu."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from trainshed.api.coerce import as_mapping, parse_text
from trainshed.fit.amounts import UNIT
from trainshed.fit.demands import pod_amounts
from trainshed.fit.packing import RoomOfNode
from trainshed.views.rows import namespace_of

from .model import SeenPod

#: The phases of pods that use nothing any more.
ENDED = ("Succeeded", "Failed")
#: The most resources and namespaces that are counted apart; the others of each are counted together.
MOST_RESOURCES, MOST_NAMESPACES, OTHERS = 64, 512, "(others)"


class DeviceUse(msgspec.Struct):
    """Devices of one resource that pods of jobs in a namespace have, and those for which others wait without a node."""

    in_use: int = 0
    waiting: int = 0
    jobs: int = 0


class Devices(msgspec.Struct, frozen=True):
    """A resource: what jobs use of it by namespace, and what nodes offer, None if nodes may not be read."""

    resource: str
    offered: int | None
    by_namespace: Mapping[str, DeviceUse]

    @property
    def in_use(self) -> int:
        """The devices that jobs of all namespaces use."""
        return sum(use.in_use for use in self.by_namespace.values())

    @property
    def waiting(self) -> int:
        """The devices for which pods of all namespaces wait."""
        return sum(use.waiting for use in self.by_namespace.values())


def offered(nodes: Iterable[RoomOfNode]) -> dict[str, int]:
    """Return the devices that nodes offer to pods, by resource; an extended resource has a domain in its name."""
    found: dict[str, int] = {}
    for node in nodes:
        for name, amount in node.free.items():
            if "/" in name and (name in found or len(found) < MOST_RESOURCES):
                found[name] = found.get(name, 0) + amount // UNIT
    return found


def devices(pods: Iterable[Sequence[SeenPod]], offers: Mapping[str, int] | None) -> list[Devices]:
    """Return each resource that nodes offer or jobs request; `pods` are those of each job. The most used is first."""
    found: dict[str, dict[str, DeviceUse]] = {name: {} for name in offers or {}}
    for of_job in pods:
        counted = set[tuple[str, str]]()
        for pod in of_job:
            for name, amount in _wanted(pod).items():
                if name not in found and len(found) >= MOST_RESOURCES:
                    continue
                namespaces = found.setdefault(name, {})
                own = namespace_of(pod.document)
                namespace = own if own in namespaces or len(namespaces) < MOST_NAMESPACES else OTHERS
                use = namespaces.setdefault(namespace, DeviceUse())
                if as_mapping(pod.document.get("spec")).get("nodeName"):
                    use.in_use += amount
                else:
                    use.waiting += amount
                if (name, namespace) not in counted:
                    counted.add((name, namespace))
                    use.jobs += 1
    known = None if offers is None else offers
    made = [Devices(name, None if known is None else known.get(name, 0), use) for name, use in found.items()]
    return sorted(made, key=lambda one: (-one.in_use, -(one.offered or 0), one.resource))


def _wanted(pod: SeenPod) -> dict[str, int]:
    """Return the devices that a pod has or waits for; none once it has ended or is gone."""
    if pod.removed or parse_text(as_mapping(pod.document.get("status")).get("phase")) in ENDED:
        return {}
    amounts = pod_amounts(dict(as_mapping(pod.document.get("spec"))), "requests")
    return {name: amount // UNIT for name, amount in amounts.items() if "/" in name and amount >= UNIT}
