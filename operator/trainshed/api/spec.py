"""Pydantic models for the parts of specs that kinds share. The CRD schemas are made from them.

The fields are those of v1's API; enums and bounds are Trainshed's.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

#: The largest number of replicas of a role, and of a job.
MOST_REPLICAS = 100_000

Count = Annotated[int, Field(ge=0, le=2**31 - 1, json_schema_extra={"format": "int32"})]
Seconds = Annotated[int, Field(ge=0, le=10**10, json_schema_extra={"format": "int64"})]
PortNumber = Annotated[int, Field(ge=1, le=65535, json_schema_extra={"format": "int32"})]


class Model(BaseModel):
    """A part of a spec: camelCase in documents, snake_case in Python; unknown fields are ignored.

    Types are strict, as in the API server: neither the text "3" nor `true` is a number.
    """

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True, strict=True)


class SchedulingPolicy(Model):
    """`spec.runPolicy.schedulingPolicy`."""

    min_available: Count | None = None
    queue: Annotated[str, Field(max_length=253)] | None = None
    min_resources: dict[str, int | str] | None = None
    priority_class: str | None = None
    schedule_timeout_seconds: Count | None = None


class CommonRunPolicy(Model):
    """The fields of `spec.runPolicy`; each API group version has its own values of `managedBy`."""

    clean_pod_policy: Literal["All", "Running", "None"] | None = None
    ttl_seconds_after_finished: Count | None = None
    active_deadline_seconds: Seconds | None = None
    backoff_limit: Count | None = None
    scheduling_policy: SchedulingPolicy | None = None
    suspend: Annotated[bool, BeforeValidator(lambda value: False if value is None else value)] = False
    managed_by: str | None = None


class RunPolicy(CommonRunPolicy):
    """`spec.runPolicy` of training-operator's kinds."""

    managed_by: Literal["kubeflow.org/training-operator", "kueue.x-k8s.io/multikueue"] | None = None


#: The API server replaces null by the default of the field; so does this.
FILLED = BeforeValidator(lambda value: {} if value is None else value)
Policy = Annotated[RunPolicy, FILLED]


class ReplicaSpec(Model):
    """The spec of one role. The template is a Kubernetes PodTemplateSpec, kept unchanged."""

    replicas: Annotated[int, Field(ge=0, le=MOST_REPLICAS, json_schema_extra={"format": "int32"})] | None = None
    restart_policy: Literal["Always", "OnFailure", "Never", "ExitCode"] | None = None
    template: dict[str, Any] | None = None


class Elasticity(Model):
    """The elastic policy fields that kinds share: bounds of the replicas, and metrics for a HorizontalPodAutoscaler."""

    min_replicas: Count | None = None
    max_replicas: Count | None = None
    max_restarts: Count | None = None
    metrics: Annotated[list[dict[str, Any]], Field(max_length=64)] | None = None


class JobSpec(Model):
    """The fields that the specs of all kinds have."""

    run_policy: Annotated[CommonRunPolicy, FILLED]

    @property
    def top_level_clean_pod_policy(self) -> str | None:
        """The cleanPodPolicy outside of `runPolicy`, where a kind has such a field."""
        return None
