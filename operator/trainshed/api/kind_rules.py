"""The rules that only jobs of one kind must keep."""

from __future__ import annotations

from .claim import Claim, Place, Rule, containers, count
from .framework import Framework
from .spec import ElasticPolicy, PyTorchJobSpec


def kind_rules(framework: Framework) -> tuple[Rule, ...]:
    """The rules of this kind, which may have none of its own."""
    own = {"TFJob": _tensorflow, "PyTorchJob": _pytorch, "XGBoostJob": _xgboost, "MPIJob": _mpi}.get(framework.kind)
    return own(framework) if own else ()


def _tensorflow(framework: Framework) -> tuple[Rule, ...]:
    field = f"self.spec.{framework.field}"
    return (
        Rule(
            f"{field}.all(r, {field}.exists_one(s, s.lowerAscii() == r.lowerAscii()))",
            "spec.tfReplicaSpecs: Invalid value: a replica type must not appear twice in different cases",
            lambda claim: len({role.lower() for role in claim.roles}) == len(claim.roles),
        ),
        Rule(
            f"!({field}.exists(r, r.lowerAscii() == 'chief') && {field}.exists(r, r.lowerAscii() == 'master'))",
            "spec.tfReplicaSpecs: Forbidden: must not have more than 1 Chief or Master role",
            lambda claim: not {"chief", "master"} <= {role.lower() for role in claim.roles},
        ),
    )


def _pytorch(framework: Framework) -> tuple[Rule, ...]:
    field = f"self.spec.{framework.field}"
    elastic = "has(self.spec.elasticPolicy)"
    nproc = "has(self.spec.nprocPerNode)"
    return (
        _one_master(framework),
        Rule(
            f"!('Worker' in {field}) || !has({field}['Worker'].replicas) || {field}['Worker'].replicas >= 1",
            "spec.pytorchReplicaSpecs[Worker].replicas: Forbidden: must be at least 1",
            lambda claim: "Worker" not in claim.roles or count(claim.roles["Worker"]) >= 1,
        ),
        Rule(
            f"!{elastic} || 'Worker' in {field}",
            "spec.pytorchReplicaSpecs[Worker]: Required value: must be configured if elastic policy is used",
            lambda claim: _elastic(claim) is None or "Worker" in claim.roles,
        ),
        Rule(
            f"!({elastic} && has(self.spec.elasticPolicy.minReplicas) && has(self.spec.elasticPolicy.maxReplicas))"
            " || self.spec.elasticPolicy.minReplicas <= self.spec.elasticPolicy.maxReplicas",
            "spec.elasticPolicy.minReplicas: Invalid value: must be no more than maxReplicas",
            lambda claim: _in_order(_elastic(claim)),
        ),
        Rule(
            f"!({nproc} && {elastic} && has(self.spec.elasticPolicy.nProcPerNode))",
            "spec.elasticPolicy.nProcPerNode: Forbidden: must not be used with spec.nprocPerNode",
            lambda claim: not _nproc_twice(claim),
        ),
    )


def _xgboost(framework: Framework) -> tuple[Rule, ...]:
    return (
        Rule(
            f"'Master' in self.spec.{framework.field}",
            f"spec.{framework.field}[Master]: Required value: must be present",
            lambda claim: "Master" in claim.roles,
        ),
        _one_master(framework),
    )


def _mpi(framework: Framework) -> tuple[Rule, ...]:
    field, path = f"self.spec.{framework.field}", f"spec.{framework.field}"
    return (
        Rule(
            f"'Launcher' in {field}",
            f"{path}[Launcher]: Required value: must be present",
            lambda claim: "Launcher" in claim.roles,
        ),
        Rule(
            f"!('Launcher' in {field}) || !has({field}['Launcher'].replicas) || {field}['Launcher'].replicas == 1",
            f"{path}[Launcher].replicas: Forbidden: must be 1",
            lambda claim: "Launcher" not in claim.roles or count(claim.roles["Launcher"]) == 1,
        ),
        Rule(
            "size(self.name) > 0",
            f"{path}[*].template.spec.containers[*].name: Required value: must be required",
            lambda claim: all(item.get("name") for group in claim.roles.values() for item in containers(group)),
            place=Place.CONTAINER,
        ),
        *(_mpi_by_ssh(framework) if framework.version == "v2beta1" else ()),
    )


def _mpi_by_ssh(framework: Framework) -> tuple[Rule, ...]:
    field, path = f"self.spec.{framework.field}", f"spec.{framework.field}"
    return (
        Rule(
            f"!('Worker' in {field}) || (has({field}['Worker'].replicas) && {field}['Worker'].replicas >= 1)",
            f"{path}[Worker].replicas: Invalid value: must be greater than or equal to 1",
            lambda claim: "Worker" not in claim.roles or (claim.roles["Worker"].replicas or 0) >= 1,
        ),
        Rule(
            "!has(self.restartPolicy) || self.restartPolicy != 'Always'",
            f'{path}[*].restartPolicy: Invalid value: supported values: "Never", "OnFailure", "ExitCode"',
            lambda claim: all(group.restart_policy != "Always" for group in claim.roles.values()),
            place=Place.REPLICAS,
        ),
    )


def _one_master(framework: Framework) -> Rule:
    field = f"self.spec.{framework.field}"
    return Rule(
        f"!('Master' in {field}) || (has({field}['Master'].replicas) && {field}['Master'].replicas == 1)",
        f"spec.{framework.field}[Master].replicas: Forbidden: must be 1",
        lambda claim: "Master" not in claim.roles or claim.roles["Master"].replicas == 1,
    )


def _elastic(claim: Claim) -> ElasticPolicy | None:
    return claim.spec.elastic_policy if isinstance(claim.spec, PyTorchJobSpec) else None


def _in_order(policy: ElasticPolicy | None) -> bool:
    least, most = (policy.min_replicas, policy.max_replicas) if policy else (None, None)
    return least is None or most is None or least <= most


def _nproc_twice(claim: Claim) -> bool:
    policy = _elastic(claim)
    if not isinstance(claim.spec, PyTorchJobSpec) or policy is None:
        return False
    return claim.spec.nproc_per_node is not None and policy.n_proc_per_node is not None
