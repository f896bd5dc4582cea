"""V1: a pod is made only for a job that may have pods, and only once what the pod needs is there.

A pod of a gang needs the PodGroup of its job, which Volcano must have admitted; and a pod needs the Secrets and
ConfigMaps of its job that it mounts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from . import words
from .change import CREATED, DELETED, OPERATOR, Change, Object, Violation
from .ledger import NEVER, UNDER_WAY, JobFile, Ledger

GROUPS = "podgroups"
NEEDED = (GROUPS, "secrets", "configmaps")
#: How a pod names its PodGroup: to Volcano by an annotation, to the coscheduling plugin by a label.
VOLCANO_NAME, COSCHEDULING_NAME = "scheduling.k8s.io/group-name", "scheduling.x-k8s.io/pod-group"
#: The API group of Volcano's PodGroups, and their phases before Volcano has admitted them.
VOLCANO, OUTSIDE = "scheduling.volcano.sh/", ("", "Pending")
#: The kinds of volumes that are a job's own, and the field of a volume that holds their name.
VOLUMES = {"secret": ("secrets", "secretName"), "configMap": ("configmaps", "name")}


class Prerequisites:
    """Remembers until when each object was there, and which PodGroups were admitted.

    `watched` are the plurals of the objects, besides jobs and pods, of which all changes are reported: others are not
    missed. With `gang` every pod of a job must name a PodGroup. `under_way` are the seconds for which the operator may
    act on what is no longer so.
    """

    def __init__(self, watched: Collection[str] = NEEDED, *, gang: bool = False, under_way: float = UNDER_WAY) -> None:
        self._watched = frozenset(watched)
        self._gang = gang
        self._under_way = under_way
        self._admitted: set[str] = set()
        self._gone: dict[tuple[str, str, str], tuple[float, Object]] = {}

    def hear(self, change: Change, ledger: Ledger) -> Iterator[Violation]:
        """Note a PodGroup, a Secret or a ConfigMap; look at a pod that the operator has made."""
        found, meta = change.object, words.meta(change.object)
        if change.plural == GROUPS and words.status(found).get("phase", "") not in OUTSIDE:
            self._admitted.add(words.uid(found))
        if change.verb == DELETED and change.plural in NEEDED:
            key = (change.plural, str(meta.get("namespace", "")), str(meta.get("name", "")))
            self._gone[key] = (change.at, found)
        job = ledger.job(change)
        if change.plural == "pods" and change.verb == CREATED and change.actor == OPERATOR and job is not None:
            wrong = (*self._early(found, job, change.at, ledger), *_lags(job, change.at - self._under_way))
            for told in wrong:
                yield Violation("V1", str(meta.get("name")), change.at, f"made, though {told}")

    def _early(self, pod: Object, job: JobFile, at: float, ledger: Ledger) -> Iterator[str]:
        name = _group(pod)
        if self._gang and not name:
            yield f"{job.title} is placed as a gang, and the pod names no PodGroup"
        if name and GROUPS in self._watched:
            group = self._there(GROUPS, pod, name, at, ledger)
            if group is None or (words.owner(group) != job.uid and not self._orphaned(group, job, at)):
                yield f"{job.title} has no PodGroup {name}"
            elif str(group.get("apiVersion")).startswith(VOLCANO) and words.uid(group) not in self._admitted:
                yield f"PodGroup {name} was not admitted"
        for plural, mounted in _mounted(pod):
            own = mounted.startswith(f"{words.meta(job.document).get('name')}-")
            if own and plural in self._watched and self._there(plural, pod, mounted, at, ledger) is None:
                yield f"there is no {mounted} among the {plural}"

    def _there(self, plural: str, pod: Object, name: str, at: float, ledger: Ledger) -> Object | None:
        """The object of this name that is there, or was there when the operator may have looked."""
        key = (plural, str(words.meta(pod).get("namespace", "")), name)
        when, last = self._gone.get(key, (NEVER, None))
        return ledger.objects.get(key) or (last if when > at - self._under_way else None)

    def _orphaned(self, group: Object, job: JobFile, at: float) -> bool:
        """Whether it has lost its owner with a deletion of the job that the operator may not have seen yet."""
        return not words.owner(group) and job.gone is not None and job.gone > at - self._under_way


def _lags(job: JobFile, since: float) -> Iterator[str]:
    """Why the job may have no pods, if that has been so from `since` until now."""
    if job.over and job.ended < since and not job.forged:
        yield f"{job.title} was over"
    if all(words.policy(spec).get("suspend") for spec in job.specs_since(since)):
        yield f"{job.title} was suspended"


def _group(pod: Object) -> str:
    meta = words.meta(pod)
    annotations, labels = meta.get("annotations") or {}, meta.get("labels") or {}
    return str(annotations.get(VOLCANO_NAME) or labels.get(COSCHEDULING_NAME) or "")


def _mounted(pod: Object) -> Iterator[tuple[str, str]]:
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        for kind, (plural, field) in VOLUMES.items():
            if name := (volume.get(kind) or {}).get(field):
                yield plural, str(name)
