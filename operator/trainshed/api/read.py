"""Parse the document of a job: fill in defaults and collect problems; no document raises an error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError
from pydantic.alias_generators import to_snake

from .annotations import knobs
from .claim import Claim
from .framework import Container, Framework
from .job import CleanPodPolicy, Document, Job, Port, Replicas, RestartPolicy, RunPolicy, Scheduling
from .pieces import integer, mapping, sequence, time
from .recall import status
from .rules import complaints
from .site import Site
from .spec import JobSpec, ReplicaSpec, SchedulingPolicy

#: kubectl's copy of the whole job, which pods do not get.
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

__all__ = ["job", "status"]


def job(document: Document, framework: Framework, site: Site) -> Job:
    """Parse a job; if the spec cannot be read, `problems` says why and the job has no replicas."""
    metadata = mapping(document.get("metadata"))
    spec, problems = _spec(document, framework)
    name = str(metadata.get("name", ""))
    asked, more = knobs(mapping(metadata.get("annotations")))
    found = Job(
        kind=framework.kind,
        namespace=str(metadata.get("namespace", "")),
        name=name,
        uid=str(metadata.get("uid", "")),
        version=str(metadata.get("resourceVersion", "")),
        generation=integer(metadata.get("generation")),
        deleting=metadata.get("deletionTimestamp") is not None,
        replicas=(),
        policy=_managed(document, framework),
        scope=asked.scope,
        fail_on_disruption=asked.fail_on_disruption,
        force_delete_after=asked.force_delete_after,
        startup_deadline=asked.startup_deadline,
        keep_results=asked.keep_results and site.keep_results,
        problems=(*problems, *more),
        annotations=_own(mapping(metadata.get("annotations"))),
        api_version=framework.api_version,
        created=time(metadata.get("creationTimestamp")),
    )
    if spec is None:
        return found
    return _complete(found, framework, site, spec)


def _spec(document: Document, framework: Framework) -> tuple[JobSpec | None, tuple[str, ...]]:
    try:
        return framework.spec.model_validate(document.get("spec")), ()
    except ValidationError as error:
        return None, tuple(_sentence(item["loc"], item["msg"]) for item in error.errors(include_url=False))


def _sentence(location: tuple[int | str, ...], message: str) -> str:
    path = "".join(f".{part}" if isinstance(part, str) else f"[{part}]" for part in location)
    return f"spec{path}: Invalid value: {message}"


def _complete(found: Job, framework: Framework, site: Site, spec: JobSpec) -> Job:
    roles: dict[str, ReplicaSpec] = getattr(spec, to_snake(framework.field))
    problems = (*found.problems, *complaints(framework, Claim(found.name, roles, spec)))
    written = {_canonical(framework, role): group for role, group in roles.items()}
    groups = tuple(_replicas(framework, role, written[role]) for role in framework.roles if role in written)
    whole = replace(
        found,
        replicas=groups,
        policy=_policy(spec, framework, site),
        options=framework.options(spec, groups),
        problems=problems,
    )
    return whole if problems else replace(whole, problems=framework.hooks.validate(whole, site))


def _canonical(framework: Framework, role: str) -> str:
    if not framework.case_insensitive:
        return role
    return next((known for known in framework.roles if known.lower() == role.lower()), role)


def _replicas(framework: Framework, role: str, group: ReplicaSpec) -> Replicas:
    template, container = group.template or {}, framework.container
    ports = _ports(container, template)
    own = next((port.number for port in ports if port.name == container.port_name), container.port)
    if container.port and all(port.name != container.port_name for port in ports):
        ports = (*ports, Port(container.port_name, container.port))
    return Replicas(
        role=role,
        count=_count(framework, role, group),
        restart_policy=_restart_policy(framework, role, group),
        template=template,
        ports=ports,
        port=own,
    )


def _restart_policy(framework: Framework, role: str, group: ReplicaSpec) -> RestartPolicy:
    defaults = framework.defaults
    in_place = role in defaults.on_failure_by_default
    return RestartPolicy(group.restart_policy or (RestartPolicy.ON_FAILURE if in_place else defaults.restart_policy))


def _count(framework: Framework, role: str, group: ReplicaSpec) -> int:
    return (0 if role in framework.defaults.zero_by_default else 1) if group.replicas is None else group.replicas


def _ports(own: Container, template: Document) -> tuple[Port, ...]:
    containers = [item for item in sequence(mapping(template.get("spec")).get("containers")) if isinstance(item, dict)]
    named = (item for item in containers if own.by_name and item.get("name") == own.name)
    container = next(named, containers[0] if containers else {})
    ports = (item for item in sequence(container.get("ports")) if isinstance(item, dict))
    return tuple(Port(str(port.get("name", "")), integer(port.get("containerPort"))) for port in ports)


def _policy(spec: JobSpec, framework: Framework, site: Site) -> RunPolicy:
    policy, older = spec.run_policy, spec.top_level_clean_pod_policy
    return RunPolicy(
        clean_pods=CleanPodPolicy(policy.clean_pod_policy or older or site.clean_pods),
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


def _managed(document: Document, framework: Framework) -> RunPolicy:
    """Return the part of the run policy that is read even from a spec that is invalid: `managedBy`."""
    policy = mapping(mapping(document.get("spec")).get("runPolicy"))
    return RunPolicy(managed_elsewhere=policy.get("managedBy") not in (None, framework.naming.manager))


def _own(annotations: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((key, str(value)) for key, value in sorted(annotations.items()) if key != LAST_APPLIED)
