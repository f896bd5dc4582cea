"""Dictionaries in: defaults filled, problems collected, nothing ever raised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from .framework import Framework
from .indexes import Indexes
from .job import CleanPodPolicy, Document, Elastic, Job, Options, Port, Replicas, RestartPolicy, RunPolicy, Scope
from .rules import Claim, rules
from .site import Site
from .spec import SPECS, ElasticPolicy, JobSpec, PyTorchJobSpec, ReplicaSpec, TFJobSpec
from .status import Condition, Failure, Kind, Retries, Status, Tally

RESTART_SCOPE = "trainshed.dev/restart-scope"
ON_DISRUPTION = "trainshed.dev/on-disruption"
OURS = "kubeflow.org/training-operator"


def job(document: Document, framework: Framework, site: Site) -> Job:
    """The job in this document; what is wrong with it stands in `problems`, and it has no replicas then."""
    metadata = _mapping(document.get("metadata"))
    spec, problems = _spec(document, framework)
    name = str(metadata.get("name", ""))
    scope, on_disruption, more = _annotations(_mapping(metadata.get("annotations")))
    found = Job(
        kind=framework.kind,
        namespace=str(metadata.get("namespace", "")),
        name=name,
        uid=str(metadata.get("uid", "")),
        version=str(metadata.get("resourceVersion", "")),
        generation=_integer(metadata.get("generation")),
        deleting=metadata.get("deletionTimestamp") is not None,
        replicas=(),
        policy=_managed(document),
        scope=scope,
        fail_on_disruption=on_disruption,
        problems=(*problems, *more),
    )
    if spec is None:
        return found
    return _complete(found, framework, site, spec)


def status(document: Document) -> Status:
    """The status in this document; what does not look like one of ours is passed over."""
    found = _mapping(document.get("status"))
    tallies = _mapping(found.get("replicaStatuses"))
    retry = _mapping(found.get("retry"))
    return Status(
        conditions=tuple(condition for item in _list(found.get("conditions")) if (condition := _condition(item))),
        tallies={str(role): _tally(_mapping(item)) for role, item in tallies.items()},
        start=_time(found.get("startTime")),
        completion=_time(found.get("completionTime")),
        attempts={str(role): _integer(count) for role, count in _mapping(found.get("attempts")).items()},
        retries=Retries(
            used=_integer(found.get("restarts")),
            streak=_integer(retry.get("streak")),
            not_before=_time(retry.get("notBefore")),
            in_place=_integer(retry.get("inPlace")),
            in_place_gone=_integer(retry.get("inPlaceGone")),
        ),
        replacing=tuple(str(uid) for uid in _list(found.get("replacing"))),
        failure=_failure(_mapping(found.get("failure"))),
    )


def _spec(document: Document, framework: Framework) -> tuple[JobSpec | None, tuple[str, ...]]:
    try:
        return SPECS[framework.kind].model_validate(document.get("spec")), ()
    except ValidationError as error:
        return None, tuple(_sentence(item["loc"], item["msg"]) for item in error.errors(include_url=False))


def _sentence(location: tuple[int | str, ...], message: str) -> str:
    path = "".join(f".{part}" if isinstance(part, str) else f"[{part}]" for part in location)
    return f"spec{path}: Invalid value: {message}"


def _complete(found: Job, framework: Framework, site: Site, spec: JobSpec) -> Job:
    roles: dict[str, ReplicaSpec] = getattr(spec, _snake(framework.field))
    claim = Claim(framework, found.name, roles, spec)
    problems = (*found.problems, *(rule.message for rule in rules(framework) if not rule.kept(claim)))
    written = {_canonical(framework, role): group for role, group in roles.items()}
    groups = tuple(_replicas(framework, role, written[role]) for role in framework.roles if role in written)
    whole = replace(found, replicas=groups, policy=_policy(spec, site), options=_options(spec, groups))
    whole = replace(whole, problems=problems)
    return whole if problems else replace(whole, problems=framework.refuses(whole, site))


def _snake(field: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in field)


def _canonical(framework: Framework, role: str) -> str:
    if not framework.any_case:
        return role
    return next((known for known in framework.roles if known.lower() == role.lower()), role)


def _replicas(framework: Framework, role: str, group: ReplicaSpec) -> Replicas:
    template = group.template or {}
    ports = _ports(framework, template)
    own = next((port.number for port in ports if port.name == framework.port_name), framework.port)
    if all(port.name != framework.port_name for port in ports):
        ports = (*ports, Port(framework.port_name, framework.port))
    return Replicas(
        role=role,
        count=1 if group.replicas is None else group.replicas,
        restart_policy=RestartPolicy(group.restart_policy or framework.restart_policy),
        template=template,
        ports=ports,
        port=own,
    )


def _ports(framework: Framework, template: Document) -> tuple[Port, ...]:
    containers = [item for item in _list(_mapping(template.get("spec")).get("containers")) if isinstance(item, dict)]
    named = (item for item in containers if item.get("name") == framework.container)
    container = next(named, containers[0] if containers else {})
    ports = (item for item in _list(container.get("ports")) if isinstance(item, dict))
    return tuple(Port(str(port.get("name", "")), _integer(port.get("containerPort"))) for port in ports)


def _policy(spec: JobSpec, site: Site) -> RunPolicy:
    policy = spec.run_policy
    return RunPolicy(
        clean_pods=CleanPodPolicy(policy.clean_pod_policy or site.clean_pods),
        ttl=policy.ttl_seconds_after_finished,
        deadline=policy.active_deadline_seconds,
        backoff_limit=policy.backoff_limit,
        suspend=policy.suspend,
        managed_elsewhere=policy.managed_by not in (None, OURS),
    )


def _managed(document: Document) -> RunPolicy:
    """Who manages a job is asked even if the rest of its spec makes no sense to us."""
    policy = _mapping(_mapping(document.get("spec")).get("runPolicy"))
    return RunPolicy(managed_elsewhere=policy.get("managedBy") not in (None, OURS))


def _options(spec: JobSpec, groups: tuple[Replicas, ...]) -> Options:
    if isinstance(spec, TFJobSpec):
        return Options(success_policy=spec.success_policy or "", dynamic_workers=bool(spec.enable_dynamic_worker))
    return _pytorch(spec, groups)


def _pytorch(spec: PyTorchJobSpec, groups: tuple[Replicas, ...]) -> Options:
    policy = spec.elastic_policy
    per_node = spec.nproc_per_node
    if per_node is None and (policy is None or policy.n_proc_per_node is None):
        per_node = "auto"
    return Options(nproc_per_node=per_node, elastic=_elastic(policy, groups) if policy else None)


def _elastic(policy: ElasticPolicy, groups: tuple[Replicas, ...]) -> Elastic:
    workers = next((group.count for group in groups if group.role == "Worker"), 1)
    bounds = [bound for bound in (policy.min_replicas, policy.max_replicas) if bound is not None] or [workers]
    return Elastic(
        minimum=bounds[0],
        maximum=bounds[-1],
        backend=policy.rdzv_backend,
        host=policy.rdzv_host,
        port=policy.rdzv_port,
        rdzv_id=policy.rdzv_id,
        rdzv_conf=tuple((pair.key, pair.value) for pair in policy.rdzv_conf or ()),
        standalone=bool(policy.standalone),
        nproc_per_node=policy.n_proc_per_node,
        max_restarts=policy.max_restarts,
    )


def _annotations(annotations: Mapping[str, Any]) -> tuple[Scope | None, bool, tuple[str, ...]]:
    problems = []
    scope, disruption = annotations.get(RESTART_SCOPE, "Auto"), annotations.get(ON_DISRUPTION, "Replace")
    if scope not in ("Auto", *Scope):
        problems.append(_unsupported(RESTART_SCOPE, scope, ("Auto", *Scope)))
    if disruption not in ("Replace", "Fail"):
        problems.append(_unsupported(ON_DISRUPTION, disruption, ("Replace", "Fail")))
    return Scope(scope) if scope in tuple(Scope) else None, disruption == "Fail", tuple(problems)


def _unsupported(key: str, value: object, supported: tuple[str, ...]) -> str:
    listed = ", ".join(f'"{item}"' for item in supported)
    return f'metadata.annotations[{key}]: Unsupported value: "{value}": supported values: {listed}'


def _condition(item: object) -> Condition | None:
    found = _mapping(item)
    kind = found.get("type")
    if kind not in tuple(Kind):
        return None
    updated = _time(found.get("lastUpdateTime")) or datetime.fromtimestamp(0, UTC)
    changed = _time(found.get("lastTransitionTime")) or updated
    words = (str(found.get("reason", "")), str(found.get("message", "")))
    return Condition(Kind(kind), found.get("status") == "True", *words, updated=updated, changed=changed)


def _tally(found: Mapping[str, Any]) -> Tally:
    return Tally(
        active=_integer(found.get("active")),
        succeeded=_integer(found.get("succeeded")),
        failed=_integer(found.get("failed")),
        ready=_integer(found.get("ready")),
        selector=str(found.get("selector", "")),
        done=Indexes.parse(str(found.get("succeededIndexes", ""))),
    )


def _failure(found: Mapping[str, Any]) -> Failure | None:
    time = _time(found.get("time"))
    if time is None:
        return None
    code = found.get("exitCode")
    return Failure(
        pod=str(found.get("pod", "")),
        kind=str(found.get("class", "")),
        reason=str(found.get("reason", "")),
        exit_code=code if isinstance(code, int) else None,
        node=str(found.get("node", "")),
        message=str(found.get("message", "")),
        time=time,
    )


def _time(value: object) -> datetime | None:
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
        return found and (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _integer(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
