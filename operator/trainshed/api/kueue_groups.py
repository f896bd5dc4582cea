"""Groups of plain pods that Kueue admits: their names, and the labels, annotations and gates of their pods.

The names are those of Kueue 0.19 (pkg/controller/jobs/pod/constants). A pod that names a parent gets no finalizer of
Kueue, which would keep its name from its successor, and none of the defaults of Kueue's webhook: it needs all of this.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .coerce import as_mapping
from .job import KUEUE_PREFIX, QUEUE_LABEL, Job, KueueForm, ReplicaGroup
from .job_annotations import KUEUE
from .objects import POD_GROUP_SIZE_ANNOTATION

#: Kueue removes this gate when it admits the group. The operator sets it, so that no pod starts without Kueue.
GATE = {"name": f"{KUEUE_PREFIX}admission"}
#: The field of the status with the name of the group.
WORKLOAD = "kueueWorkload"
#: Characters of a job's name in that of its group, which is the value of a label.
NAME_LENGTH = 40


def is_grouped(document: Mapping[str, Any]) -> bool:
    """Return whether Kueue admits the pods of a job as a group: its annotation or its status says so.

    The status also says it of a job that the operator's settings make one.
    """
    asked = as_mapping(as_mapping(document.get("metadata")).get("annotations")).get(KUEUE)
    return asked == KueueForm.POD_GROUP or bool(as_mapping(document.get("status")).get(WORKLOAD))


def labels_of(metadata: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return Kueue's labels of a job that names a queue, such as that of its priority; none of one without a queue."""
    found = {
        key: str(value) for key, value in as_mapping(metadata.get("labels")).items() if key.startswith(KUEUE_PREFIX)
    }
    return tuple(sorted(found.items())) if found.get(QUEUE_LABEL) else ()


def name_of(job: str, uid: str, attempts: Mapping[str, int]) -> str:
    """Return the name of the group of a job, which is that of its Workload: each attempt has a group of its own."""
    return f"{job[:NAME_LENGTH]}-{uid[:8]}-{sum(attempts.values())}"


def pod_labels(job: Job, group: str) -> dict[str, str]:
    """Return the labels of a pod of a group; none without a group."""
    if not group:
        return {}
    return {**dict(job.queue_labels), f"{KUEUE_PREFIX}managed": "true", f"{KUEUE_PREFIX}pod-group-name": group}


def pod_annotations(job: Job, replicas: ReplicaGroup) -> dict[str, str]:
    """Return the annotations of the pods of a role in a group.

    A group gets no more pods once none of it runs: the next attempt has another one. So Kueue takes the quota back when
    all pods have ended, whether or not they have succeeded. The pods of one role and template are a pod set of the
    Workload.
    """
    if not job.grouped:
        return {}
    return {
        POD_GROUP_SIZE_ANNOTATION: str(job.size),
        f"{KUEUE_PREFIX}retriable-in-group": "false",
        f"{KUEUE_PREFIX}pod-suspending-parent": "trainshed",
        f"{KUEUE_PREFIX}role-hash": f"{replicas.role.lower()}-{replicas.template_hash}".rstrip("-"),
    }
