"""Jobs whose members are placed together, their groups, and what is decided about both, in a few words."""

from __future__ import annotations

from support.builders import a_job, replace, run_policy, seen
from trainshed.api.actions import CreateDependent, DeleteDependent, UpdateDependent
from trainshed.api.framework import JobDefaults
from trainshed.api.job import Scheduling
from trainshed.api.objects import Dependent
from trainshed.plan import plan

VOLCANO, PLUGINS = JobDefaults(gang_scheduler="volcano"), JobDefaults(gang_scheduler="scheduler-plugins")
DEPENDENTS = (CreateDependent, UpdateDependent, DeleteDependent)


def a_gang(kind="PyTorchJob", *, needs=({"requests": {"cpu": "1"}},), asked=None, policy=None, **fields):
    """A job, by default of a master and two workers; `needs` are the resources of each container."""
    roles = {} if set(fields) & {"master", "worker"} else {"master": 1, "worker": 2}
    containers = [{"name": f"c{number}", "image": "x", "resources": found} for number, found in enumerate(needs)]
    wanted = replace(policy or run_policy(), scheduling=Scheduling(**(asked or {})))
    return a_job(kind, policy=wanted, template={"spec": {"containers": containers}}, **roles, **fields)


def decided(job, *pods, group=None, job_defaults=VOLCANO, **fields):
    """What a look decides while this is the job's group."""
    there = (group,) if group else ()
    return plan(replace(seen(job, *pods, job_defaults=job_defaults, **fields), dependents=there))


def about_group(decision):
    """What is to be done about the group."""
    return [action for action in decision.actions if isinstance(action, DEPENDENTS)]


def spec(job, job_defaults=VOLCANO, group=None):
    """The spec of the group that is to be made."""
    (action,) = about_group(decided(job, job_defaults=job_defaults, group=group, services=()))
    return action.body["spec"] if isinstance(action, CreateDependent) else action.patch["spec"]


def a_group(job, phase="", *, job_defaults=VOLCANO, conditions=(), **fields) -> Dependent:
    """The group as it was made, in this phase."""
    (action,) = about_group(decided(job, job_defaults=job_defaults, services=()))
    document = {**action.body, "status": {"phase": phase, "conditions": list(conditions)} if phase else {}}
    known = {"name": job.name, "uid": "g1", "version": "5", "owner": job.uid, "namespace": "ml", "job": job.name}
    return replace(Dependent(action.resource, document=document, **known), **fields)
