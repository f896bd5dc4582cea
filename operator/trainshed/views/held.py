"""What pods of a job that is over still hold, which users are charged for: in the headline, and in the row of a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from trainshed.api.coerce import as_mapping, replica_specs
from trainshed.api.job import Document
from trainshed.api.status import Status
from trainshed.fit.amounts import listed, times, total
from trainshed.fit.demands import pod_devices
from trainshed.plan.facts import Facts


def by_status(status: Status, job: Document) -> str:
    """Return what the pods hold that the status counts, such as `3 pods still hold 24 nvidia.com/gpu`; empty if none.

    Pods without devices are not worth a word here.
    """
    if not status.over:
        return ""
    counts = {role.lower(): count.active + count.not_running for role, count in status.replica_statuses.items()}
    templates = {role.lower(): as_mapping(found.get("template")) for _, role, found in replica_specs(job)}
    return _said(counts, {role: as_mapping(template.get("spec")) for role, template in templates.items()})


def by_facts(facts: Facts) -> str:
    """Return what the pods hold that are there, in the same words."""
    if not facts.status.over:
        return ""
    counts = Counter(replica.role for replica, pod in facts.current.items() if not pod.over)
    return _said(counts, {role: as_mapping(group.template.get("spec")) for role, group in facts.groups.items()})


def _said(counts: Mapping[str, int], specs: Mapping[str, Document]) -> str:
    held = total(times(pod_devices(specs.get(role, {})), count) for role, count in counts.items() if count)
    number = sum(count for role, count in counts.items() if pod_devices(specs.get(role, {})))
    pods = "1 pod still holds" if number == 1 else f"{number} pods still hold"
    return f"{pods} {listed(held)}" if held else ""
