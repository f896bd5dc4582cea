"""What a user writes: pydantic models from which the CRD schemas are made (shape: v1's API, enums and bounds: ours)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

#: So many replicas a role may have at the most, and a whole job.
MOST_REPLICAS = 100_000

Count = Annotated[int, Field(ge=0, le=2**31 - 1, json_schema_extra={"format": "int32"})]
Seconds = Annotated[int, Field(ge=0, le=10**10, json_schema_extra={"format": "int64"})]
PortNumber = Annotated[int, Field(ge=1, le=65535, json_schema_extra={"format": "int32"})]


class Model(BaseModel):
    """A part of a spec: camelCase outside, snake_case inside; what we do not know is passed over.

    Strict, as the API server is: neither the text "3" nor `true` is a number.
    """

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True, strict=True)


class SchedulingPolicy(Model):
    """How a gang scheduler is to treat the job."""

    min_available: Count | None = None
    queue: Annotated[str, Field(max_length=253)] | None = None
    min_resources: dict[str, int | str] | None = None
    priority_class: str | None = None
    schedule_timeout_seconds: Count | None = None


class Lifetime(Model):
    """How long a job may run, and what remains of it."""

    clean_pod_policy: Literal["All", "Running", "None"] | None = None
    ttl_seconds_after_finished: Count | None = None
    active_deadline_seconds: Seconds | None = None
    backoff_limit: Count | None = None
    scheduling_policy: SchedulingPolicy | None = None
    suspend: Annotated[bool, BeforeValidator(lambda value: False if value is None else value)] = False


class RunPolicy(Lifetime):
    """The same, and who manages the job."""

    managed_by: Literal["kubeflow.org/training-operator", "kueue.x-k8s.io/multikueue"] | None = None


class MPIRunPolicy(Lifetime):
    """The same where the operator has another name."""

    managed_by: Literal["kubeflow.org/mpi-operator", "kueue.x-k8s.io/multikueue"] | None = None


#: The API server puts the default where a key stands with nothing after it, and so do we.
FILLED = BeforeValidator(lambda value: {} if value is None else value)
Policy = Annotated[RunPolicy, FILLED]


class ReplicaSpec(Model):
    """One role of a job. The template is a Kubernetes PodTemplateSpec, kept just as it came."""

    replicas: Annotated[int, Field(ge=0, le=MOST_REPLICAS, json_schema_extra={"format": "int32"})] | None = None
    restart_policy: Literal["Always", "OnFailure", "Never", "ExitCode"] | None = None
    template: dict[str, Any] | None = None


class TFJobSpec(Model):
    """The spec of a TFJob."""

    run_policy: Policy = RunPolicy()
    success_policy: Literal["", "AllWorkers"] | None = None
    enable_dynamic_worker: bool | None = None
    tf_replica_specs: Annotated[dict[str, ReplicaSpec], Field(min_length=1, max_length=5)]


class RendezvousConf(Model):
    """A further setting of torchrun's rendezvous."""

    key: str
    value: str


class Elasticity(Model):
    """Between how many replicas a job may train, and what a HorizontalPodAutoscaler goes by."""

    min_replicas: Count | None = None
    max_replicas: Count | None = None
    max_restarts: Count | None = None
    metrics: Annotated[list[dict[str, Any]], Field(max_length=64)] | None = None


class ElasticPolicy(Elasticity):
    """The elasticity of a PyTorchJob, and where its nodes meet."""

    rdzv_backend: Literal["c10d", "etcd", "etcd-v2"] | None = None
    rdzv_port: PortNumber | None = None
    rdzv_host: str | None = None
    rdzv_id: str | None = None
    rdzv_conf: Annotated[list[RendezvousConf], Field(max_length=64)] | None = None
    standalone: bool | None = None
    n_proc_per_node: Count | None = None


class PyTorchJobSpec(Model):
    """The spec of a PyTorchJob."""

    run_policy: Policy = RunPolicy()
    elastic_policy: ElasticPolicy | None = None
    nproc_per_node: Annotated[str, Field(max_length=16)] | None = None
    pytorch_replica_specs: Annotated[dict[str, ReplicaSpec], Field(min_length=1, max_length=2)]


class XGBoostJobSpec(Model):
    """The spec of an XGBoostJob."""

    run_policy: Policy = RunPolicy()
    xgb_replica_specs: Annotated[dict[str, ReplicaSpec], Field(min_length=1, max_length=2)]


class PaddleJobSpec(Model):
    """The spec of a PaddleJob. v1 does nothing about its elastic policy, and neither do we."""

    run_policy: Policy = RunPolicy()
    elastic_policy: Elasticity | None = None
    paddle_replica_specs: Annotated[dict[str, ReplicaSpec], Field(min_length=1, max_length=2)]


class JAXJobSpec(Model):
    """The spec of a JAXJob."""

    run_policy: Policy = RunPolicy()
    jax_replica_specs: Annotated[dict[str, ReplicaSpec], Field(min_length=1, max_length=2)]


class MPIJobSpec(Model):
    """The spec of an MPIJob. The pod policy that stands beside the run policy is the older way to say the same."""

    run_policy: Policy = RunPolicy()
    slots_per_worker: Count | None = None
    clean_pod_policy: Literal["All", "Running", "None"] | None = None
    main_container: str | None = None
    mpi_replica_specs: Annotated[dict[str, ReplicaSpec], Field(min_length=1, max_length=2)]


class MPIJobV2Spec(Model):
    """The spec of an MPIJob of v2beta1."""

    run_policy: Annotated[MPIRunPolicy, FILLED] = MPIRunPolicy()
    slots_per_worker: Count | None = None
    run_launcher_as_worker: bool | None = None
    ssh_auth_mount_path: str | None = None
    launcher_creation_policy: Literal["AtStartup", "WaitForWorkersReady"] | None = None
    mpi_implementation: Literal["OpenMPI", "Intel", "MPICH"] | None = None
    mpi_replica_specs: Annotated[dict[str, ReplicaSpec], Field(min_length=1, max_length=2)]


JobSpec = TFJobSpec | PyTorchJobSpec | XGBoostJobSpec | PaddleJobSpec | JAXJobSpec | MPIJobSpec | MPIJobV2Spec
#: The model of each kind's spec, by the version and the kind.
SPECS: dict[tuple[str, str], type[JobSpec]] = {
    ("v1", "TFJob"): TFJobSpec,
    ("v1", "PyTorchJob"): PyTorchJobSpec,
    ("v1", "XGBoostJob"): XGBoostJobSpec,
    ("v1", "PaddleJob"): PaddleJobSpec,
    ("v1", "JAXJob"): JAXJobSpec,
    ("v1", "MPIJob"): MPIJobSpec,
    ("v2beta1", "MPIJob"): MPIJobV2Spec,
}
