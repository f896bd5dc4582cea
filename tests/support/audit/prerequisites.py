"""V1: a pod is created only if its job may have pods and the objects that the pod needs exist.

A pod of a gang needs the PodGroup of its job, which Volcano must have admitted; and a pod needs the Secrets and
ConfigMaps of its job that it mounts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from . import api_fields
from .change import CREATED, DELETED, OPERATOR, Change, Object, Violation
from .records import IN_FLIGHT, NEVER, JobRecord, Records

GROUPS = "podgroups"
NEEDED = (GROUPS, "secrets", "configmaps")
#: The name of a pod's PodGroup: an annotation for Volcano, a label for the coscheduling plugin.
VOLCANO_NAME, COSCHEDULING_NAME = "scheduling.k8s.io/group-name", "scheduling.x-k8s.io/pod-group"
#: The API group of Volcano's PodGroups, and their phases before Volcano has admitted them.
VOLCANO, OUTSIDE = "scheduling.volcano.sh/", ("", "Pending")
#: The kinds of volumes that are a job's own, and the field of a volume that holds their name.
VOLUMES = {"secret": ("secrets", "secretName"), "configMap": ("configmaps", "name")}


class Prerequisites:
    """Records until when each object existed, and which PodGroups were admitted.

    `watched` are the plurals of the objects, besides jobs and pods, of which all changes are reported: others are not
    missed. With `gang` every pod of a job must name a PodGroup. `in_flight` are the seconds for which the operator may
    act on outdated facts.
    """

    def __init__(self, watched: Collection[str] = NEEDED, *, gang: bool = False, in_flight: float = IN_FLIGHT) -> None:
        self._watched = frozenset(watched)
        self._gang = gang
        self._in_flight = in_flight
        self._admitted: set[str] = set()
        self._gone: dict[tuple[str, str, str], tuple[float, Object]] = {}

    def on_change(self, change: Change, records: Records) -> Iterator[Violation]:
        """Record a PodGroup, a Secret or a ConfigMap; check a pod that the operator created."""
        found, meta = change.object, api_fields.meta(change.object)
        if change.plural == GROUPS and api_fields.status(found).get("phase", "") not in OUTSIDE:
            self._admitted.add(api_fields.uid(found))
        if change.verb == DELETED and change.plural in NEEDED:
            key = (change.plural, str(meta.get("namespace", "")), str(meta.get("name", "")))
            self._gone[key] = (change.at, found)
        job = records.job(change)
        if change.plural == "pods" and change.verb == CREATED and change.actor == OPERATOR and job is not None:
            wrong = (*self._early(found, job, change.at, records), *_lags(job, change.at, self._in_flight))
            for message in wrong:
                yield Violation("V1", str(meta.get("name")), change.at, f"made, though {message}")

    def _early(self, pod: Object, job: JobRecord, at: float, records: Records) -> Iterator[str]:
        name = _group(pod)
        if self._gang and not name:
            yield f"{job.title} is placed as a gang, and the pod names no PodGroup"
        if name and GROUPS in self._watched:
            group = self._there(GROUPS, pod, name, at, records)
            if group is None or (api_fields.owner(group) != job.uid and not self._orphaned(group, job, at)):
                yield f"{job.title} has no PodGroup {name}"
            elif str(group.get("apiVersion")).startswith(VOLCANO) and api_fields.uid(group) not in self._admitted:
                yield f"PodGroup {name} was not admitted"
        for plural, mounted in _mounted(pod):
            own = mounted.startswith(f"{api_fields.meta(job.document).get('name')}-")
            if own and plural in self._watched and self._there(plural, pod, mounted, at, records) is None:
                yield f"there is no {mounted} among the {plural}"

    def _there(self, plural: str, pod: Object, name: str, at: float, records: Records) -> Object | None:
        """Return the object of this name that exists, or existed when the operator may have read it."""
        key = (plural, str(api_fields.meta(pod).get("namespace", "")), name)
        when, last = self._gone.get(key, (NEVER, None))
        return records.objects.get(key) or (last if when > at - self._in_flight else None)

    def _orphaned(self, group: Object, job: JobRecord, at: float) -> bool:
        """Return whether it lost its owner with a deletion of the job that the operator may not have seen yet."""
        return not api_fields.owner(group) and job.gone is not None and job.gone > at - self._in_flight


def _lags(job: JobRecord, at: float, in_flight: float) -> Iterator[str]:
    """Yield why the job may have no pods, if the operator must know it."""
    if job.over and job.ended < at - in_flight and not job.forged:
        yield f"{job.title} was over"
    if all(api_fields.policy(spec).get("suspend") for spec in job.known_specs(at, in_flight)):
        yield f"{job.title} was suspended"


def _group(pod: Object) -> str:
    meta = api_fields.meta(pod)
    annotations, labels = meta.get("annotations") or {}, meta.get("labels") or {}
    return str(annotations.get(VOLCANO_NAME) or labels.get(COSCHEDULING_NAME) or "")


def _mounted(pod: Object) -> Iterator[tuple[str, str]]:
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        for kind, (plural, field) in VOLUMES.items():
            if name := (volume.get(kind) or {}).get(field):
                yield plural, str(name)
