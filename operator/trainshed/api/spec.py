"""The models of a job's spec that all kinds share, and the rules that a spec must keep."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Literal

import msgspec
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

#: The largest number of replicas of a role, and of a job.
MOST_REPLICAS = 100_000

Count = Annotated[int, Field(ge=0, le=2**31 - 1, json_schema_extra={"format": "int32"})]
#: The most seconds of a deadline.
LONGEST_DEADLINE = 10**10
Seconds = Annotated[int, Field(ge=0, le=LONGEST_DEADLINE, json_schema_extra={"format": "int64"})]
#: The pattern of a quantity in v1's CRDs. A few that it accepts are none, such as an exponent with a fraction.
_NUMBER = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
QUANTITY_PATTERN = rf"^(\+|-)?{_NUMBER}(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?{_NUMBER}))?$"
Quantity = int | Annotated[str, Field(pattern=QUANTITY_PATTERN)]
PortNumber = Annotated[int, Field(ge=1, le=65535, json_schema_extra={"format": "int32"})]


def null_is(default: object) -> BeforeValidator:
    """Return a validator that replaces null by the default of a field, as the API server does."""
    return BeforeValidator(lambda value: default if value is None else value)


class Model(BaseModel):
    """A part of a spec: camelCase in documents, snake_case in Python; unknown fields are ignored.

    Types are strict, as in the API server: neither the text "3" nor `true` is a number.
    """

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True, strict=True)


class SchedulingPolicy(Model):
    """`spec.runPolicy.schedulingPolicy`."""

    min_available: Count | None = None
    queue: str | None = None
    min_resources: Annotated[dict[str, Quantity], Field(max_length=256)] | None = None
    priority_class: str | None = None
    schedule_timeout_seconds: Count | None = None


class CommonRunPolicySpec(Model):
    """The fields of `spec.runPolicy`; each API group version has its own values of `managedBy`.

    An empty text stands for the default, as in v1: typed clients write it.
    """

    clean_pod_policy: Literal["", "All", "Running", "None"] | None = None
    ttl_seconds_after_finished: Count | None = None
    active_deadline_seconds: Seconds | None = None
    backoff_limit: Count | None = None
    scheduling_policy: SchedulingPolicy | None = None
    suspend: Annotated[bool, null_is(default=False)] = False
    managed_by: str | None = None


class RunPolicySpec(CommonRunPolicySpec):
    """`spec.runPolicy` of training-operator's kinds."""

    managed_by: Literal["kubeflow.org/training-operator", "kueue.x-k8s.io/multikueue"] | None = None


RunPolicyField = Annotated[RunPolicySpec, null_is({})]


class ReplicaSpec(Model):
    """The spec of one role. The template is a Kubernetes PodTemplateSpec, kept unchanged."""

    replicas: Annotated[int, Field(ge=0, le=MOST_REPLICAS, json_schema_extra={"format": "int32"})] | None = None
    restart_policy: Literal["", "Always", "OnFailure", "Never", "ExitCode"] | None = None
    template: dict[str, Any] | None = None


class Elasticity(Model):
    """The elastic policy fields that kinds share: bounds of the replicas, and metrics for a HorizontalPodAutoscaler."""

    min_replicas: Count | None = None
    max_replicas: Count | None = None
    max_restarts: Count | None = None
    metrics: Annotated[list[dict[str, Any]], Field(max_length=256)] | None = None


class JobSpec(Model):
    """The fields that the specs of all kinds have."""

    run_policy: Annotated[CommonRunPolicySpec, null_is({})]

    @property
    def top_level_clean_pod_policy(self) -> str | None:
        """The cleanPodPolicy outside of `runPolicy`, where a kind has such a field."""
        return None

    @property
    def named_container(self) -> str:
        """The name that the job gives the framework's own container, where a kind has such a field."""
        return ""


class ValidationInput(msgspec.Struct, frozen=True, dict=True):
    """The input of a rule: `roles` as written, `name` from the metadata, `spec` an instance of the kind's model."""

    name: str
    roles: dict[str, ReplicaSpec]
    spec: Any

    @cached_property
    def containers(self) -> list[list[dict[str, object]]]:
        """The containers of each role's template, which most rules look at."""
        return [containers_of(group) for group in self.roles.values()]


class Level(StrEnum):
    """The level of a rule: the path of its `self`, where `{field}` is the field of the roles.

    The API server converts an object to CEL again for each field that a rule reads, with the schemas of all fields that
    the object may have (`Properties` in apiextensions-apiserver 0.37, schema/cel/model). So a rule is cheap at the
    level of the fields that it reads, and it does not read a pod spec or a container more often than necessary.
    """

    JOB = ""
    SPEC = "spec"
    ROLES = "spec.{field}"
    REPLICAS = "spec.{field}[*]"
    CONTAINERS = "spec.{field}[*].template.spec.containers"
    CONTAINER = "spec.{field}[*].template.spec.containers[*]"


class Rule(msgspec.Struct, frozen=True):
    """A validation rule, in CEL for the CRD and in Python for the operator.

    `cel` must be true for each object of the `level`, and `check` for the job. `message_cel` is a CEL expression for a
    message that contains numbers. A message has v1's form: path, type of error, detail.
    """

    cel: str
    message: str
    check: Callable[[ValidationInput], bool]
    message_cel: str = ""
    level: Level = Level.JOB


class UpdateRule(msgspec.Struct, frozen=True):
    """A rule for changes of the spec, which only the API server can check: `cel` compares `self` with `oldSelf`.

    A message has the form of those of `Rule`.
    """

    cel: str
    message: str


def replica_count(group: ReplicaSpec) -> int:
    """Return the number of replicas of a role; the default is 1."""
    return 1 if group.replicas is None else group.replicas


def has_pod_spec(group: ReplicaSpec) -> bool:
    """Return whether a role has a template with a pod spec."""
    return isinstance((group.template or {}).get("spec"), dict)


def containers_of(group: ReplicaSpec) -> list[dict[str, object]]:
    """Return the containers of a role's template; list items that are not objects are skipped."""
    found = group.template["spec"].get("containers") if group.template and has_pod_spec(group) else None
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
