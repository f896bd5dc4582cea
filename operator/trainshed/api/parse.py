"""Parses a job document into a Job with its defaults and its list of problems."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace
from pydantic import ValidationError
from pydantic.alias_generators import to_snake

from . import kueue_groups, ports
from .coerce import as_mapping, as_sequence, parse_integer, parse_time
from .framework import Framework, JobDefaults, own_container
from .job import (
    KUEUE_PREFIX,
    MAX_PARSED,
    QUEUE_LABEL,
    CleanPodPolicy,
    Document,
    Job,
    KueueForm,
    RecordDecisions,
    ReplicaGroup,
    RestartPolicy,
    RestartScope,
    RunPolicy,
    Scheduling,
    ServiceForm,
    packed,
)
from .job_annotations import KUEUE, PREFIX, SERVICES, JobAnnotations, job_annotations
from .spec import LONGEST_DEADLINE, JobSpec, ReplicaSpec, SchedulingPolicy, ValidationInput
from .validation import has_full_searches, violations

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

#: The problem of a job whose pods are to be a group of Kueue, without a queue.
NO_QUEUE = f"metadata.annotations[{KUEUE}]: Forbidden: must not be PodGroup: the job has no label {QUEUE_LABEL}"
#: kubectl's copy of the whole job, which pods do not get.
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
#: Writes the text that is hashed: one encoder for all templates, because making one takes a quarter of the time.
SORTED = json.JSONEncoder(sort_keys=True)
#: The most characters of a wrong value in a message.
LONGEST_SHOWN = 100
#: Returns the name that a field of a document has in Python.
_attribute = cache(to_snake)


class ParsedSpec(msgspec.Struct, frozen=True):
    """What its spec and its name say of a job, which stays the same while its generation does.

    `unreadable` has the problems of a spec that cannot be read, `violations` those of one that can. `obstacles` keep
    the job from having one Service, and `invalid` has the problems that its kind finds, by the form of its Services.
    """

    policy: RunPolicy
    groups: tuple[ReplicaGroup, ...] = ()
    options: object = None
    queued: bool = False
    unreadable: tuple[str, ...] = ()
    violations: tuple[str, ...] = ()
    obstacles: tuple[str, ...] = ()
    invalid: tuple[tuple[ServiceForm, tuple[str, ...]], ...] = ()


def job(document: Document, framework: Framework, job_defaults: JobDefaults) -> Job:
    """Parse a job; if the spec cannot be read, `problems` has the reasons and the job has no replicas."""
    return assembled(document.get("metadata"), parsed_spec(document, framework, job_defaults), framework, job_defaults)


def assembled(metadata: object, spec: ParsedSpec, framework: Framework, job_defaults: JobDefaults) -> Job:
    """Return the job that has this metadata and this spec."""
    metadata = as_mapping(metadata)
    texts = as_mapping(metadata.get("annotations"))
    annotations, problems = job_annotations(texts)
    form, unfit = _service_form(framework, spec, annotations.services, job_defaults.services)
    queue = kueue_groups.labels_of(metadata)
    unqueued = (NO_QUEUE,) if annotations.kueue is KueueForm.POD_GROUP and not queue else ()
    default = job_defaults.kueue if queue and not framework.in_kueue else KueueForm.JOB
    grouped = (annotations.kueue or default) is KueueForm.POD_GROUP
    problems = (*spec.unreadable, *problems, *unqueued, *spec.violations, *unfit)
    return Job(
        kind=framework.kind,
        namespace=str(metadata.get("namespace", "")),
        name=str(metadata.get("name", "")),
        uid=str(metadata.get("uid", "")),
        version=str(metadata.get("resourceVersion", "")),
        generation=parse_integer(metadata.get("generation")),
        deleting=metadata.get("deletionTimestamp") is not None,
        groups=spec.groups,
        policy=spec.policy,
        options=spec.options,
        scope=RestartScope.JOB if grouped else annotations.scope,
        fail_on_disruption=annotations.fail_on_disruption,
        force_delete_after=annotations.force_delete_after,
        startup_deadline=annotations.startup_deadline,
        pod_end_grace=annotations.pod_end_grace,
        checkpoint_grace=annotations.checkpoint_grace,
        avoid_failed_nodes=annotations.avoid_failed_nodes,
        hang_deadline=annotations.hang_deadline,
        restarts_when_hung=annotations.restarts_when_hung,
        debug_port=annotations.debug_port,
        track_results=annotations.track_results and job_defaults.track_results,
        services=form,
        progress=annotations.progress,
        log_expression=annotations.log_expression,
        record=annotations.record and job_defaults.record,
        decisions=_records_decisions(annotations, job_defaults),
        notify=annotations.notify if job_defaults.notify else "",
        queued=spec.queued or _names_kueue(metadata),
        queue_labels=queue,
        grouped=grouped,
        problems=problems or dict(spec.invalid).get(form, ()),
        annotations=_annotations(texts, job_defaults),
        api_version=framework.api_version,
        created=parse_time(metadata.get("creationTimestamp")),
    )


def _records_decisions(annotations: JobAnnotations, job_defaults: JobDefaults) -> bool:
    match job_defaults.record_decisions:
        case RecordDecisions.ALL:
            return True
        case RecordDecisions.ANNOTATED:
            return annotations.decisions
        case _:
            return False


def parsed_spec(document: Document, framework: Framework, job_defaults: JobDefaults) -> ParsedSpec:
    """Parse the spec of a job."""
    spec, unreadable = _spec(document, framework)
    if spec is None:
        return ParsedSpec(_legible_policy(document, framework), unreadable=unreadable)
    metadata = as_mapping(document.get("metadata"))
    name, namespace = str(metadata.get("name", "")), str(metadata.get("namespace", ""))
    roles: dict[str, ReplicaSpec] = getattr(spec, _attribute(framework.field))
    written = {_canonical(framework, role): group for role, group in roles.items()}
    texts = {role: _sorted_json(group.template or {}) for role, group in written.items()}
    known = [role for role in framework.roles if role in written]
    groups = tuple(_replicas(framework, spec, (role, texts[role]), written[role]) for role in known)
    policy, chosen = _policy(spec, framework, job_defaults), framework.options(spec, groups)
    broken = violations(framework, ValidationInput(name, roles, spec))
    bare = Job(
        kind=framework.kind,
        namespace=namespace,
        name=name,
        uid="",
        version="",
        generation=0,
        deleting=False,
        groups=groups,
        policy=policy,
        options=chosen,
    )
    return ParsedSpec(
        policy=policy,
        groups=_packed(groups) if sum(map(len, texts.values())) > MAX_PARSED else groups,
        options=chosen,
        queued=any(_names_kueue(group.template.get("metadata")) for group in groups),
        violations=broken,
        obstacles=_obstacles(framework, groups),
        invalid=() if broken else _invalid(bare, framework, job_defaults),
    )


def _invalid(
    bare: Job, framework: Framework, job_defaults: JobDefaults
) -> tuple[tuple[ServiceForm, tuple[str, ...]], ...]:
    """Return the problems that its kind finds in a job by its spec and its name, by the form of its Services."""
    jobs = [replace(bare, services=form) for form in ServiceForm]
    found = [(one.services, framework.hooks.validate(one, job_defaults)) for one in jobs]
    return tuple([pair for pair in found if pair[1]])


def _packed(groups: tuple[ReplicaGroup, ...]) -> tuple[ReplicaGroup, ...]:
    """Return the groups with their templates packed."""
    templates = packed(group.template for group in groups)
    return tuple(replace(group, template=template) for group, template in zip(groups, templates, strict=True))


def _spec(document: Document, framework: Framework) -> tuple[JobSpec | None, tuple[str, ...]]:
    try:
        return framework.spec.model_validate(document.get("spec")), ()
    except ValidationError as error:
        sentences = (_sentence(item) for item in error.errors(include_url=False))
        return None, tuple(dict.fromkeys(sentences))  # a quantity has an error for each of its types


#: What is wrong with a value, by pydantic's errors, in words of OpenAPI.
WRONG = {
    "bool_type": "must be of type boolean",
    "dict_type": "must be of type object",
    "int_type": "must be of type integer",
    "list_type": "must be of type array",
    "model_type": "must be of type object",
    "string_type": "must be of type string",
    "too_short": "must not be empty",
}
QUANTITY_FORM = "must be a quantity, such as 500m or 16Gi"


def _sentence(error: ErrorDetails) -> str:
    """Return an error of pydantic in the words of the API server."""
    kind, value, location = error["type"], error["input"], error["loc"]
    is_quantity = location[-3:-2] == ("minResources",)  # the last part is one of the types of a quantity
    parts = location[:-1] if is_quantity else location
    path = "spec" + "".join(f".{part}" if isinstance(part, str) else f"[{part}]" for part in parts)
    if kind == "missing" or value is None:
        return f"{path}: Required value"
    if kind == "literal_error":
        choices = filter(None, re.findall("'([^']*)'", error["ctx"]["expected"]))
        listed = ", ".join(f'"{choice}"' for choice in choices)
        return f"{path}: Unsupported value: {shown(value)}supported values: {listed}"
    if kind == "too_long":
        return f"{path}: Too many: {len(value)}: must have at most {error['ctx']['max_length']} items"
    wrong = WRONG.get(kind) or error["msg"].replace("Input should", "must", 1)
    return f"{path}: Invalid value: {shown(value)}{QUANTITY_FORM if is_quantity else wrong}"


def shown(value: object) -> str:
    """Return a wrong value for a message, with a colon and a space after it; an object or a list is left out."""
    return "" if isinstance(value, (dict, list)) else f"{json.dumps(value, ensure_ascii=False)[:LONGEST_SHOWN]}: "


def _names_kueue(metadata: object) -> bool:
    """Return whether a label or an annotation is Kueue's."""
    found = as_mapping(metadata)
    keys = (*as_mapping(found.get("labels")), *as_mapping(found.get("annotations")))
    return any(str(key).startswith(KUEUE_PREFIX) for key in keys)


def _canonical(framework: Framework, role: str) -> str:
    if not framework.case_insensitive:
        return role
    return next((known for known in framework.roles if known.lower() == role.lower()), role)


def _replicas(framework: Framework, spec: JobSpec, named: tuple[str, str], group: ReplicaSpec) -> ReplicaGroup:
    """Return the replicas of a role; `named` are its name and its template as text."""
    role, text = named
    template, container = group.template or {}, framework.container
    listed = as_sequence(as_mapping(template.get("spec")).get("containers"))
    containers = [item for item in listed if isinstance(item, dict)]
    by_kind, name = own_container(container, containers), spec.named_container
    own = own_container(container, containers, name) if name else by_kind
    declared = ports.of_container(by_kind, container)
    return ReplicaGroup(
        role=role,
        count=_replica_count(framework, role, group),
        restart_policy=_restart_policy(framework, role, group),
        template=template,
        ports=declared,
        port=ports.own_number(declared, container),
        template_hash=hashlib.sha256(text.encode()).hexdigest()[:10] if text else "",
        container=str(own.get("name", "")),
    )


def _sorted_json(template: Document) -> str:
    """Return the text of which ReplicaGroup has a hash: the same for equal templates, whatever the order of their keys.

    A template that is nested so deep that it cannot be written has none.
    """
    try:
        return SORTED.encode(template)
    except RecursionError:
        return ""


def _restart_policy(framework: Framework, role: str, group: ReplicaSpec) -> RestartPolicy:
    defaults = framework.defaults
    container_restarts = role in defaults.on_failure_by_default
    return RestartPolicy(
        group.restart_policy or (RestartPolicy.ON_FAILURE if container_restarts else defaults.restart_policy)
    )


def _replica_count(framework: Framework, role: str, group: ReplicaSpec) -> int:
    return (0 if role in framework.defaults.zero_by_default else 1) if group.replicas is None else group.replicas


def _policy(spec: JobSpec, framework: Framework, job_defaults: JobDefaults) -> RunPolicy:
    policy, older = spec.run_policy, spec.top_level_clean_pod_policy
    return RunPolicy(
        clean_pods=CleanPodPolicy(policy.clean_pod_policy or older or job_defaults.clean_pods),
        ttl=policy.ttl_seconds_after_finished,
        deadline=policy.active_deadline_seconds,
        backoff_limit=framework.defaults.backoff_limit if policy.backoff_limit is None else policy.backoff_limit,
        suspend=policy.suspend,
        managed_elsewhere=policy.managed_by not in (None, framework.naming.manager),
        scheduling=_scheduling(policy.scheduling_policy or SchedulingPolicy()),
    )


def _scheduling(policy: SchedulingPolicy) -> Scheduling:
    return Scheduling(
        min_available=policy.min_available,
        queue=policy.queue or "",
        min_resources=policy.min_resources,
        priority_class=policy.priority_class or "",
        timeout=policy.schedule_timeout_seconds,
    )


def _legible_policy(document: Document, framework: Framework) -> RunPolicy:
    """Return the run policy of a spec that cannot be read: who manages the job, and what takes its pods away."""
    policy = as_mapping(as_mapping(document.get("spec")).get("runPolicy"))
    seconds = policy.get("activeDeadlineSeconds")
    return RunPolicy(
        managed_elsewhere=policy.get("managedBy") not in (None, framework.naming.manager),
        suspend=policy.get("suspend") is True,
        deadline=seconds if type(seconds) is int and 0 <= seconds <= LONGEST_DEADLINE else None,
    )


def _annotations(found: Mapping[str, Any], job_defaults: JobDefaults) -> Document:
    """Return the annotations that the planner reads: a gang's PodGroup gets all of them."""
    every = bool(job_defaults.gang_scheduler)
    kept = {key: str(found[key]) for key in found if key.startswith(PREFIX) or (every and key != LAST_APPLIED)}
    return packed((dict(sorted(kept.items())),))[0]


#: The fields of a pod that decide under which name DNS finds it; with one Service a job the operator sets them.
HOST_FIELDS = ("hostname", "subdomain", "setHostnameAsFQDN")


def _service_form(
    framework: Framework, spec: ParsedSpec, asked: ServiceForm | None, default: ServiceForm
) -> tuple[ServiceForm, tuple[str, ...]]:
    """Return the form of a job's Services, and the problems of a job whose template does not allow what it asks for.

    `asked` is the job's own choice. The `default` of the operator does not apply where a template does not allow it,
    nor to a kind without Services for its replicas.
    """
    if (asked or default) is ServiceForm.REPLICA or spec.unreadable or not framework.objects.services:
        return ServiceForm.REPLICA, ()
    if not spec.obstacles:
        return ServiceForm.JOB, ()
    problems = (f"metadata.annotations[{SERVICES}]: Forbidden: must not be Job: {what}" for what in spec.obstacles)
    return ServiceForm.REPLICA, tuple(problems) if asked else ()


def _obstacles(framework: Framework, groups: tuple[ReplicaGroup, ...]) -> tuple[str, ...]:
    """Return what in the templates does not allow one Service for the job."""
    return tuple(
        f"spec.{framework.field}[{group.role}].template.spec.{what}" for group in groups for what in _own_hosts(group)
    )


def _own_hosts(group: ReplicaGroup) -> Iterator[str]:
    spec = as_mapping(group.template.get("spec"))
    for field in HOST_FIELDS:
        if spec.get(field):
            yield f"{field} is set, and the operator would have to change it"
    if has_full_searches(group):
        yield "dnsConfig.searches has no space for one more domain"
