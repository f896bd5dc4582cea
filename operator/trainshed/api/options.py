"""What only some kinds let users choose, its defaults filled in."""

from __future__ import annotations

from .job import Elastic, Options, Replicas, Ssh
from .spec import ElasticPolicy, JobSpec, MPIJobSpec, MPIJobV2Spec, PyTorchJobSpec, TFJobSpec


def options(spec: JobSpec, groups: tuple[Replicas, ...]) -> Options:
    """The options of a job whose roles are these."""
    if isinstance(spec, TFJobSpec):
        return Options(success_policy=spec.success_policy or "", dynamic_workers=bool(spec.enable_dynamic_worker))
    if isinstance(spec, PyTorchJobSpec):
        return _pytorch(spec, groups)
    if isinstance(spec, MPIJobSpec):
        return Options(slots=spec.slots_per_worker or 1, main_container=spec.main_container or "")
    return Options(slots=spec.slots_per_worker or 1, ssh=_ssh(spec)) if isinstance(spec, MPIJobV2Spec) else Options()


def _ssh(spec: MPIJobV2Spec) -> Ssh:
    return Ssh(
        path=spec.ssh_auth_mount_path or Ssh().path,
        implementation=spec.mpi_implementation or Ssh().implementation,
        at_startup=spec.launcher_creation_policy == "AtStartup",
        works=bool(spec.run_launcher_as_worker),
    )


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
        metrics=tuple(policy.metrics or ()),
    )
