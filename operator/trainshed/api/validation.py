"""The rules of a job's spec: CEL for the API server, and the same in Python for servers and clients without CEL.

Each rule has the sentence that users read if a spec breaks it, which is the same in both; see `plan/messages`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from msgspec.structs import replace

from .coerce import as_mapping, as_sequence
from .framework import Framework
from .job import Job, ReplicaGroup
from .spec import MOST_REPLICAS, Level, Rule, ValidationInput, containers_of, has_pod_spec, replica_count

#: The longest name of a Service, and so of a replica (RFC 1035).
MAX_NAME_LENGTH = 63


@cache
def rules(framework: Framework) -> tuple[Rule, ...]:
    """Return the rules of a kind: those of all kinds, then its own."""
    return (
        *(_names(framework) if framework.objects.services or framework.objects.job_service else ()),
        *_roles(framework),
        *_containers(framework),
        *framework.rules,
    )


def violations(framework: Framework, job: ValidationInput) -> tuple[str, ...]:
    """Return the messages of the rules that a job violates; each `[*]` is replaced by the role or the index."""
    return tuple(
        _at(rule.message, names)
        for rule in rules(framework)
        if not rule.check(job)  # most jobs keep all rules: this saves looking at each part
        for names, part in _inputs(job, rule.level)
        if not rule.check(part)
    )


def _at(message: str, names: tuple[str, ...]) -> str:
    for name in names:
        message = message.replace("[*]", f"[{name}]", 1)
    return message


def _inputs(job: ValidationInput, level: Level) -> Iterator[tuple[tuple[str, ...], ValidationInput]]:
    """Yield the parts of a job to which a rule of this level applies, with the names of each part."""
    if "[*]" not in level:
        yield (), job
        return
    for role, group in job.roles.items():
        if level is Level.CONTAINERS and not has_pod_spec(group):
            continue
        if level is not Level.CONTAINER:
            yield (role,), replace(job, roles={role: group})
            continue
        for index, container in enumerate(containers_of(group)):
            alone = group.model_copy(update={"template": {"spec": {"containers": [container]}}})
            yield (role, str(index)), replace(job, roles={role: alone})


def roles(framework: Framework) -> tuple[str, ...]:
    """Return the role names for comparison, in lower case if the kind accepts any case."""
    return tuple(role.lower() for role in framework.roles) if framework.case_insensitive else framework.roles


def max_name_length(job: ValidationInput) -> int:
    """Return the greatest length of a job's name for which the names of its replicas are valid."""
    suffixes = (len(role) + len(str(max(replica_count(group), 1) - 1)) for role, group in job.roles.items())
    return MAX_NAME_LENGTH - 2 - max(suffixes, default=0)


def required_role(field: str, role: str) -> Rule:
    """Return the rule that a job has this role; `field` holds its roles."""
    return Rule(
        f"'{role}' in self.{field}",
        f"spec.{field}[{role}]: Required value: must be present",
        lambda job: role in job.roles,
        level=Level.SPEC,
    )


def single_replica(field: str, role: str, *, default: bool) -> Rule:
    """Return the rule that this role, if the job has it, has one replica; with `default` also if none is given."""
    allowed = (None, 1) if default else (1,)
    return Rule(
        f"!('{role}' in self.{field}) || self.{field}['{role}'].?replicas.orValue({1 if default else 0}) == 1",
        f"spec.{field}[{role}].replicas: Forbidden: must be 1",
        lambda job: role not in job.roles or job.roles[role].replicas in allowed,
        level=Level.SPEC,
    )


def named_containers(field: str) -> Rule:
    """Return the rule that each container has a name."""
    return Rule(
        "size(self.name) > 0",
        f"spec.{field}[*].template.spec.containers[*].name: Required value: is required",
        lambda job: all(container.get("name") for containers in job.containers for container in containers),
        level=Level.CONTAINER,
    )


def _names(framework: Framework) -> tuple[Rule, ...]:
    field = f"self.spec.{framework.field}"
    last = f"(has({field}[r].replicas) && {field}[r].replicas > 1 ? {field}[r].replicas - 1 : 0)"
    fits = f"({MAX_NAME_LENGTH - 2} - {field}.map(r, size(r) + size(string({last}))).max())"
    short = _always_valid_length(framework)
    return (
        Rule(
            "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            "metadata.name: Invalid value: should match: a DNS-1035 label must consist of lower case alphanumeric"
            " characters or '-', start with an alphabetic character, and end with an alphanumeric character",
            lambda job: _is_dns_label(job.name),
        ),
        Rule(
            f"size(self.metadata.name) <= {short} || size({field}) == 0 || size(self.metadata.name) <= {fits}",
            "metadata.name: Invalid value: too long: the names of its replicas would exceed 63 characters",
            lambda job: len(job.name) <= max_name_length(job),
            f"[{fits}].map(longest, {_length_messages(framework)}[longest - {short}])[0]",
        ),
    )


def _roles(framework: Framework) -> tuple[Rule, ...]:
    path = f"spec.{framework.field}"
    known = list(roles(framework))
    case = ".lowerAscii()" if framework.case_insensitive else ""
    supported = ", ".join(f'"{role}"' for role in framework.roles)
    return (
        Rule(
            f"self.all(r, r{case} in {known})",
            f"{path}: Invalid value: supported replica types: {supported}",
            lambda job: all(_normalized(framework, role) in known for role in job.roles),
            level=Level.ROLES,
        ),
        Rule(
            f"self.map(r, self[r].?replicas.orValue(1)).sum() <= {MOST_REPLICAS}",
            f"{path}: Invalid value: must be no more than {MOST_REPLICAS} replicas in sum",
            lambda job: sum(replica_count(group) for group in job.roles.values()) <= MOST_REPLICAS,
            level=Level.ROLES,
        ),
    )


def _containers(framework: Framework) -> tuple[Rule, ...]:
    path = f"spec.{framework.field}[*].template.spec.containers"
    unspecified = f"{path}: Required value: must be specified"
    named = f"must have at least one container with name {framework.container.name}"
    also = f", and {named}" if framework.container.by_name else ""
    by_name = Rule(
        f"self.exists(c, c.name == '{framework.container.name}')",
        f"{path}: Required value: {named}",
        lambda job: all(
            any(container.get("name") == framework.container.name for container in containers)
            for containers in job.containers
        ),
        level=Level.CONTAINERS,
    )
    return (
        Rule(
            "has(self.template) && has(self.template.spec)",
            f"{unspecified} in a template{also}",
            lambda job: all(has_pod_spec(group) for group in job.roles.values()),
            level=Level.REPLICAS,
        ),
        Rule(
            "size(self) > 0",
            unspecified,
            lambda job: all(job.containers),
            level=Level.CONTAINERS,
        ),
        Rule(
            "self.?image.orValue('') != ''",
            f"{path}[*].image: Required value: is required",
            lambda job: all(container.get("image") for containers in job.containers for container in containers),
            level=Level.CONTAINER,
        ),
        *((by_name,) if framework.container.by_name else ()),
    )


def _always_valid_length(framework: Framework) -> int:
    """Return the greatest length that is valid for the names of all jobs of this kind."""
    return MAX_NAME_LENGTH - 2 - max(map(len, framework.roles)) - len(str(MOST_REPLICAS - 1))


def _length_messages(framework: Framework) -> list[str]:
    """Return a message for each possible limit.

    A message that converted the number to text would exceed CEL's cost limit, which assumes unbounded text.
    """
    message = (
        "too long: no more than {} characters fit with these replicas, because <name>-<replica type>-<index> must not"
        " exceed 63"
    )
    return [message.format(length) for length in range(_always_valid_length(framework), MAX_NAME_LENGTH)]


def _is_dns_label(name: str) -> bool:
    inner = name.replace("-", "a")
    plain = inner.isascii() and inner.isalnum() and name == name.lower()
    return plain and name[0].isalpha() and not name.endswith("-")


def _normalized(framework: Framework, role: str) -> str:
    return role.lower() if framework.case_insensitive else role


#: The longest variable in bytes, including its name and the closing zero (MAX_ARG_STRLEN of Linux).
MAX_VARIABLE_BYTES = 128 * 1024


def list_length(first: str, count: int) -> int:
    """Return the length of a comma-separated list of `count` items: `first`, with index 0, and those that follow.

    The text itself is not built, because for 100,000 replicas it takes megabytes.
    """
    more_digits: int = sum(count - 10**digits for digits in range(1, len(str(count))))
    return count * len(first) + more_digits + max(count - 1, 0)


def variable_too_long(job: Job, field: str, name: str, length: int) -> tuple[str, ...]:
    """Return the problem of a job that needs a variable `name` with a value of `length` bytes, if that is too long."""
    whole = len(name) + len("=") + length + 1
    if whole <= MAX_VARIABLE_BYTES:
        return ()
    problem = (
        f"spec.{field}: Invalid value: {name} for {job.size} replicas takes {whole} bytes, and Linux starts no process"
        f" with a variable of more than {MAX_VARIABLE_BYTES}: ask for fewer replicas, or give the job or its namespace"
        " a shorter name"
    )
    return (problem,)


#: The largest data of a ConfigMap in bytes (MaxSecretSize of Kubernetes).
MAX_CONFIG_MAP_BYTES = 1024 * 1024


def config_map_too_large(job: Job, field: str, name: str, length: int) -> tuple[str, ...]:
    """Return the problem of a job that needs a ConfigMap `name` with `length` bytes of data, if that is too much."""
    if length <= MAX_CONFIG_MAP_BYTES:
        return ()
    problem = (
        f"spec.{field}: Invalid value: the ConfigMap {name} for {job.size} replicas takes {length} bytes, and the API"
        f" server stores at most {MAX_CONFIG_MAP_BYTES}: ask for fewer replicas, or give the job a shorter name"
    )
    return (problem,)


def taken_volumes(group: ReplicaGroup, field: str, mounts: Mapping[str, str]) -> tuple[str, ...]:
    """Return the problems of a template that has a volume or a mount path which the operator adds.

    `mounts` are the paths of these volumes in the framework's container, which is the template's first.
    """
    spec = as_mapping(group.template.get("spec"))
    path = f"spec.{field}[{group.role}].template.spec"
    names = [str(as_mapping(volume).get("name")) for volume in as_sequence(spec.get("volumes"))]
    first = as_mapping(next(iter(as_sequence(spec.get("containers"))), {}))
    paths = [str(as_mapping(mount).get("mountPath")) for mount in as_sequence(first.get("volumeMounts"))]
    twice = [(f"{path}.volumes[*].name", name) for name in names if name in mounts]
    twice += [(f"{path}.containers[0].volumeMounts[*].mountPath", at) for at in paths if at in mounts.values()]
    return tuple(f'{where}: Invalid value: "{what}": is added by the operator' for where, what in twice)


#: The limits of the API server on `dnsConfig.searches`: domains, and characters with the spaces between them. The
#: operator adds one domain, which has at most the length of a DNS name.
MAX_SEARCHES, MAX_SEARCH_CHARACTERS, MAX_DOMAIN = 32, 2048, 253


def has_full_searches(group: ReplicaGroup) -> bool:
    """Return whether the search domains of a template leave no space for one more."""
    config = as_mapping(as_mapping(group.template.get("spec")).get("dnsConfig"))
    searches = [str(domain) for domain in as_sequence(config.get("searches"))]
    return len(searches) >= MAX_SEARCHES or len(" ".join(searches)) + 1 + MAX_DOMAIN > MAX_SEARCH_CHARACTERS
