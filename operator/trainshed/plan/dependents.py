"""Creates, updates and deletes the other objects of a job: ConfigMaps, RBAC, autoscalers, PodGroups."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from trainshed.api.actions import Action, CreateDependent, DeleteDependent, PodState, UpdateDependent
from trainshed.api.coerce import as_mapping, as_sequence
from trainshed.api.digest import Digest, ManyTexts
from trainshed.api.framework import Framework, PodNames, child_name, job_labels
from trainshed.api.job import Job
from trainshed.api.objects import LAST_APPLIED_HASH, ROLES, Dependent, DesiredDependent, Phase, Resource
from trainshed.api.quantities import parse_quantity

from . import builders, pod_groups, reporting_pods
from .facts import Facts


def desired(facts: Facts) -> tuple[DesiredDependent, ...]:
    """Return all objects that the job should own while it has pods.

    No right is left to the pods of a deleted job, nor, once they terminate, to those of one that is suspended or at its
    end: a Role that names the others would be written for each that goes.
    """
    status, job = facts.status, facts.job
    ends = job.policy.suspend or status.over or status.ending is not None
    none = job.deleting or (ends and facts.terminating)
    pods = PodNames(_running(facts), () if none else (pod.name for pod in facts.snapshot.pods))
    own = facts.framework.hooks.dependents(job, facts.snapshot.job_defaults, pods)
    return (*pod_groups.desired(facts), *own, *reporting_pods.desired(facts.snapshot))


def apply(facts: Facts) -> tuple[Action, ...]:
    """Create missing objects, update changed ones, and delete temporary ones that are no longer desired."""
    there = {(dependent.resource, dependent.name): dependent for dependent in facts.snapshot.dependents}
    wanted = desired(facts)
    names = {(target.resource, target.name) for target in wanted}
    made = (_create_or_update(facts, target, there.get((target.resource, target.name))) for target in wanted)
    unwanted = (dependent for key, dependent in there.items() if key not in names and dependent.resource.temporary)
    return (*(action for action in made if action), *_delete(unwanted))


def prune(facts: Facts) -> tuple[Action, ...]:
    """Delete temporary objects: the job has no pods any more, or soon will not. Its Role names only those left."""
    temporary = _delete(dependent for dependent in facts.snapshot.dependents if dependent.resource.temporary)
    return (*update_roles(facts), *temporary)


def update_roles(facts: Facts) -> tuple[Action, ...]:
    """Let the Roles of the job name the pods that exist, whatever else is done for the job.

    The name of a pod that is gone may be that of another job's pod next. A Role that another controller has written
    for a job of its own is left to it.
    """
    found = (dependent for dependent in facts.snapshot.dependents if dependent.resource is ROLES)
    roles = {role.name: role for role in found if _is_applied_here(role) or not facts.job.policy.managed_elsewhere}
    if not roles:
        return ()
    wanted = (target for target in desired(facts) if target.resource is ROLES and target.name in roles)
    updates = (_create_or_update(facts, target, roles[target.name]) for target in wanted)
    return tuple(action for action in updates if action)


def takes_back(role: Dependent, patch: Mapping[str, Any]) -> bool | None:
    """Return whether a patch takes names out of the rules of a Role; None if those of a large one are not known."""
    rules = role.document.get("rules")
    if isinstance(rules, Digest) or not all(map(_is_known, as_sequence(rules))):
        return None
    return not _named(rules) <= _named(patch.get("rules"))


def _named(rules: object) -> set[str]:
    lists = (as_sequence(as_mapping(rule).get("resourceNames")) for rule in as_sequence(rules))
    return {str(name) for names in lists for name in names}


#: What a launcher gets rights to in other pods.
PODS = frozenset(("pods", "pods/exec"))


def without_pods(role: Dependent) -> Mapping[str, Any] | None:
    """Return the patch that takes all rights to pods from a Role whose job is gone, None if it is not to be changed.

    What others have written stays. The rules of a large Role are not known: all of them, or those, are removed.
    """
    rules = role.document.get("rules")
    if not _is_applied_here(role):
        return None
    found = () if isinstance(rules, Digest) else as_sequence(rules)
    kept = [rule for rule in found if _is_known(rule) and PODS.isdisjoint(map(str, as_sequence(rule.get("resources"))))]
    if len(kept) == len(found) and not isinstance(rules, Digest):
        return None
    return {"metadata": {"uid": role.uid, "resourceVersion": role.version}, "rules": kept}


def _is_known(rule: object) -> bool:
    return isinstance(rule, dict) and not any(isinstance(part, Digest) for part in rule.values())


def _is_applied_here(found: Dependent) -> bool:
    return _applied_hash(found.document) is not None


def _applied_hash(document: Mapping[str, Any]) -> object:
    annotations = as_mapping(document.get("metadata")).get("annotations")
    if isinstance(annotations, ManyTexts):
        return annotations.applied
    return as_mapping(annotations).get(LAST_APPLIED_HASH)


def _create_or_update(facts: Facts, target: DesiredDependent, found: Dependent | None) -> Action | None:
    if found is None:
        if target.shared and not facts.missing:
            return None  # may belong to another owner; its existence is checked when pods are created
        return CreateDependent(target.resource, target.name, body(facts.framework, facts.job, target), target.shared)
    if found.deleting or not _differs(facts, target, found):
        return None
    patch, digest = _patch(facts, target, found), _hash(target)
    return UpdateDependent(target.resource, target.name, patch, digest, _pod_state(facts, target, digest))


def _pod_state(facts: Facts, target: DesiredDependent, digest: str) -> PodState | None:
    """Return what the content of a dependent owes to the pods, None for one that the kind of job does not define."""
    full = facts.once(_with_all_pods).get((target.resource, target.name))
    if full is None:
        return None
    rules = target.content.get("rules", ()) if target.resource is ROLES else ()
    rights = (rule["resourceNames"] for rule in rules if not PODS.isdisjoint(rule["resources"]))
    return PodState(full, frozenset().union(*rights), complete=digest == full)


def _with_all_pods(facts: Facts) -> dict[tuple[Resource, str], str]:
    """Return the digests of the dependents as they are when all pods of the job run."""
    names = [child_name(facts.job, replica) for replica in facts.job.all_replicas]
    made = facts.framework.hooks.dependents(facts.job, facts.snapshot.job_defaults, PodNames(names, names))
    return {(target.resource, target.name): _hash(target) for target in made}


def body(framework: Framework, job: Job, target: DesiredDependent) -> dict[str, Any]:
    """Return the body of a dependent for its creation."""
    metadata = _dependent_metadata(framework, job, target) | {
        "name": target.name,
        "ownerReferences": [builders.owner_reference(job)],
    }
    head = {"apiVersion": target.resource.api_version, "kind": target.resource.kind}
    spec = {"spec": {**target.content.get("spec", {}), **target.first_spec}} if target.first_spec else {}
    return {**head, "metadata": metadata, **target.content, **spec}


def _dependent_metadata(framework: Framework, job: Job, target: DesiredDependent) -> dict[str, Any]:
    labels = dict(target.labels) | job_labels(framework, job)
    return {"labels": labels, "annotations": dict(target.annotations) | {LAST_APPLIED_HASH: _hash(target)}}


def _hash(target: DesiredDependent) -> str:
    text = json.dumps((target.content, target.labels, target.annotations), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _differs(facts: Facts, target: DesiredDependent, found: Dependent) -> bool:
    wanted = {"metadata": _dependent_metadata(facts.framework, facts.job, target), **target.content}
    answer = facts.snapshot.answers.get(found.uid, {})
    return not covers(found.document, wanted, answer if _applied_hash(answer) == _hash(target) else None)


def covers(actual: object, wanted: object, answer: object = None) -> bool:
    """Return whether an object has all desired fields, with quantities in any notation and defaults added.

    The server may leave out fields that are empty, zero or false. Of large fields there is only a digest. The server's
    form of one may have another digest than what was sent: then it has to be that of the `answer` to that write.
    """
    if isinstance(actual, (Digest, ManyTexts)):
        return _stands_for(actual, wanted, answer)
    if actual is None:
        return not wanted
    if isinstance(wanted, Mapping):
        known = as_mapping(answer)
        return isinstance(actual, Mapping) and all(
            covers(actual.get(key), value, known.get(key)) for key, value in wanted.items()
        )
    if isinstance(wanted, (list, tuple)):
        if not isinstance(actual, list) or len(actual) != len(wanted):
            return False
        return all(map(covers, actual, wanted, (*as_sequence(answer), *(None for _ in wanted))))
    amount = parse_quantity(wanted)
    return actual == wanted or (amount is not None and amount == parse_quantity(actual))


def _stands_for(actual: Digest | ManyTexts, wanted: object, answer: object) -> bool:
    """Return whether a part that is not known is as desired. Texts have one form, and entries of metadata as well."""
    if isinstance(actual, ManyTexts):
        has_one_form = actual.whole is None
        return actual.stands_for(as_mapping(wanted)) or (actual == answer and not has_one_form)
    return actual.stands_for(wanted) or (actual == answer and not isinstance(wanted, str))


def is_applied(patch: Mapping[str, Any], found: Dependent) -> bool:
    """Return whether the answer to a merge patch has what was desired; else the next plan would patch it again.

    Of a part that is known only as a digest it cannot be said that it was changed: the server may write it otherwise.
    """
    metadata = {key: value for key, value in patch["metadata"].items() if key not in ("uid", "resourceVersion")}
    return covers(found.document, _without_null({**patch, "metadata": metadata}), found.document)


def _without_null(patch: object) -> object:
    """Return what a merge patch sets. What it removes and is there again does not matter to the next plan."""
    if not isinstance(patch, Mapping):
        return patch
    return {key: _without_null(value) for key, value in patch.items() if value is not None}


def _patch(facts: Facts, target: DesiredDependent, found: Dependent) -> dict[str, Any]:
    content: Mapping[str, object] = target.content
    if target.first_spec is None:
        content = {key: _merged(found.document.get(key), value) for key, value in content.items()}
    identity = {"uid": found.uid, "resourceVersion": found.version}
    return {"metadata": _dependent_metadata(facts.framework, facts.job, target) | identity, **content}


def _merged(actual: object, wanted: object) -> object:
    """Return the merge patch; fields that exist and are not desired are removed by null."""
    if isinstance(actual, Digest) and isinstance(wanted, Mapping):
        return dict.fromkeys(actual.names) | dict(wanted)
    if not (isinstance(actual, Mapping) and isinstance(wanted, Mapping)):
        return wanted
    kept = {key: _merged(actual.get(key), value) for key, value in wanted.items()}
    return dict.fromkeys(actual.keys() - wanted.keys()) | kept


def _delete(dependents: Iterable[Dependent]) -> tuple[DeleteDependent, ...]:
    return tuple(
        DeleteDependent(dependent.resource, dependent.name, dependent.uid)
        for dependent in dependents
        if not dependent.deleting
    )


def _running(facts: Facts) -> Iterator[str]:
    """Yield the names of the running pods of the current attempt; few kinds need them."""
    return (pod.name for pod in facts.current.values() if pod.phase is Phase.RUNNING and not pod.deleting)
