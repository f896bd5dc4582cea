"""Restarts, success and clean-up of a job, as the policies of Jobs and of their JobSet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.api.coerce import as_mapping
from trainshed.api.framework import Framework, Quorum
from trainshed.api.job import Job, ReplicaGroup, RestartPolicy, RestartScope

from .layout import Layout, ReplicatedJob

#: The backoffLimit of a job without one: it is retried without end.
ENDLESS = 2**31 - 1
#: The exit codes that restartPolicy ExitCode does not retry.
PERMANENT = range(1, 128)
#: The name of the rule by which a JobSet fails when such a code has failed a Job.
RULE = "permanent-exit-code"
FAIL_PERMANENTLY = {
    "name": RULE,
    "action": "FailJobSet",
    "onJobFailureReasons": ["PodFailurePolicy"],
}


def restarts_of(job: Job, framework: Framework) -> RestartScope:
    """Return which pods a restart replaces."""
    return job.scope or framework.hooks.scope(job)


def job_fields(group: ReplicaGroup, job: Job, scope: RestartScope, container: str) -> dict[str, Any]:
    """Return the fields of a Job that retry the pods of a role as its restart policy says."""
    limit = ENDLESS if job.policy.backoff_limit is None else job.policy.backoff_limit
    if group.restart_policy.restarts_in_place:
        return {"backoffLimit": limit}
    if group.restart_policy is RestartPolicy.NEVER:
        return {"backoffLimit": 0}
    codes = {"containerName": container, "operator": "In", "values": [*PERMANENT]}
    rule = {"action": "FailJob", "onExitCodes": codes}
    return {"backoffLimit": limit if scope is RestartScope.REPLICA else 0, "podFailurePolicy": {"rules": [rule]}}


def is_exit_code(rule: object) -> bool:
    """Return whether a rule of a podFailurePolicy is the one that stands for ExitCode."""
    codes = as_mapping(as_mapping(rule).get("onExitCodes"))
    fails = as_mapping(rule).get("action") == "FailJob" and codes.get("operator") == "In"
    return fails and codes.get("values") == [*PERMANENT]


def pod_restart_policy(policy: RestartPolicy) -> str:
    """Return the restart policy of the pods of a Job, which may not be Always."""
    return "OnFailure" if policy.restarts_in_place else "Never"


def failure_policy(job: Job, layout: Layout, scope: RestartScope) -> dict[str, Any]:
    """Return the field of a JobSet by which all pods restart together, if some failures do that."""
    policies = {target.name: _group(job, target).restart_policy for target in layout.targets}
    together = [name for name, policy in policies.items() if policy is RestartPolicy.EXIT_CODE]
    if not together or scope is RestartScope.REPLICA:
        return {}
    limit = ENDLESS if job.policy.backoff_limit is None else job.policy.backoff_limit
    others = [name for name in policies if name not in together]
    fatal = {"name": "other-roles", "action": "FailJobSet", "targetReplicatedJobs": others}
    return {"failurePolicy": {"maxRestarts": limit, "rules": [FAIL_PERMANENTLY, *([fatal] if others else [])]}}


def success_fields(job: Job, framework: Framework, layout: Layout) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return the fields of the JobSet, and of Jobs by their names, that say which pods must succeed."""
    goal = framework.hooks.success_policy(job)
    if goal is None:
        return {}, {}
    of_jobs = dict(_job_success(goal.role, goal.quorum, layout))
    names = [target.name for target in layout.targets if goal.role in {member.role for member in target.members}]
    if layout.merged or len(names) == len(layout.targets):
        return {}, of_jobs
    return {"successPolicy": {"operator": "All", "targetReplicatedJobs": names}}, of_jobs


def _job_success(role: str, quorum: Quorum, layout: Layout) -> Iterator[tuple[str, dict[str, Any]]]:
    for target in layout.targets:
        deciding = [index for index, member in enumerate(target.members) if member.role == role]
        if not deciding or len(target.members) == 1:
            continue
        if quorum is Quorum.ANY:
            yield target.name, {"successPolicy": {"rules": [{"succeededCount": 1}]}}
        elif quorum is Quorum.FIRST or len(deciding) < len(target.members):
            indexes = "0" if quorum is Quorum.FIRST else f"{deciding[0]}-{deciding[-1]}".removesuffix("-0")
            yield target.name, {"successPolicy": {"rules": [{"succeededIndexes": indexes}]}}


def _group(job: Job, target: ReplicatedJob) -> ReplicaGroup:
    return next(group for group in job.groups if group.role == target.role)
