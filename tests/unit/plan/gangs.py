"""Builders of jobs with gang scheduling and of their PodGroups, and the plan for both."""

from __future__ import annotations

from support.builders import a_job, replace, run_policy, seen
from trainshed.api.actions import CreateDependent, DeleteDependent, UpdateDependent
from trainshed.api.framework import JobDefaults
from trainshed.api.job import Scheduling
from trainshed.api.objects import Dependent
from trainshed.plan import plan

VOLCANO, PLUGINS = JobDefaults(gang_scheduler="volcano"), JobDefaults(gang_scheduler="scheduler-plugins")
KUBERNETES = JobDefaults(gang_scheduler="kubernetes")
KAI = JobDefaults(gang_scheduler="kai-scheduler")
DEPENDENTS = (CreateDependent, UpdateDependent, DeleteDependent)


def a_gang(kind="PyTorchJob", *, needs=({"requests": {"cpu": "1"}},), asked=None, policy=None, **fields):
    """A job, by default of a master and two workers; `needs` are the resources of each container."""
    roles = {} if set(fields) & {"master", "worker"} else {"master": 1, "worker": 2}
    containers = [{"name": f"c{number}", "image": "x", "resources": found} for number, found in enumerate(needs)]
    wanted = replace(policy or run_policy(), scheduling=Scheduling(**(asked or {})))
    return a_job(kind, policy=wanted, template={"spec": {"containers": containers}}, **roles, **fields)


def decided(job, *pods, group=None, job_defaults=VOLCANO, unserved=(), **fields):
    """Return the plan while this is the job's group."""
    there = (group,) if group else ()
    return plan(replace(seen(job, *pods, job_defaults=job_defaults, **fields), dependents=there, unserved=unserved))


def about_group(decision):
    return [action for action in decision.actions if isinstance(action, DEPENDENTS)]


def spec(job, job_defaults=VOLCANO, group=None):
    (action,) = about_group(decided(job, job_defaults=job_defaults, group=group, services=()))
    return action.body["spec"] if isinstance(action, CreateDependent) else action.patch["spec"]


def a_group(job, phase="", *, job_defaults=VOLCANO, conditions=(), **fields) -> Dependent:
    """Return the group as the operator created it, in this phase."""
    (action,) = about_group(decided(job, job_defaults=job_defaults, services=()))
    document = {**action.body, "status": {"phase": phase, "conditions": list(conditions)} if phase else {}}
    known = {"name": job.name, "uid": "g1", "version": "5", "owner": job.uid, "namespace": "ml", "job": job.name}
    return replace(Dependent(action.resource, document=document, **known), **fields)
