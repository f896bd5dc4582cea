"""Short stories for the auditor: a job and its pods, told change by change."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from . import words
from .auditor import Auditor
from .change import CREATED, DELETED, KUBELET, MODIFIED, OPERATOR, USER, Change, Object
from .ending import Ending
from .words import ATTEMPT, INDEX, JOB, JOBS, ROLE

#: The time at which stories begin, as the API spells it.
FAR = "2027-01-15T08:00:00Z"
KINDS = {"tfjobs": "TFJob", "jaxjobs": "JAXJob", "pytorchjobs": "PyTorchJob", "mpijobs": "MPIJob"}


class Story:
    """A cluster of one namespace; each verb is one change, told to the auditor at once, a second after the last."""

    def __init__(self, auditor: Auditor | None = None) -> None:
        self.auditor = auditor or Auditor()
        self.changes: list[Change] = []
        self.now = words.seconds(FAR)
        self.objects: dict[tuple[str, str], Object] = {}
        self._version = 0

    @property
    def broken(self) -> set[str]:
        """Which oracles have spoken."""
        return {found.oracle for found in self.auditor.violations}

    def job(self, plural: str = "jaxjobs", name: str = "job", policy: dict | None = None, **roles: Any) -> Object:
        """A user makes a job with so many replicas of each role; a role may also be a whole replica spec."""
        groups = {
            role: spec if isinstance(spec, dict) else {"replicas": spec, "restartPolicy": "ExitCode"}
            for role, spec in roles.items()
        }
        spec = {"runPolicy": policy or {}, JOBS[plural]: groups}
        return self.make(plural, name, USER, kind=KINDS[plural], spec=spec)

    def pod(self, name: str, job: Object, actor: str = OPERATOR, attempt: int = 0) -> Object:
        """Somebody makes the pod of a job."""
        role, _, index = name.removeprefix(f"{job['metadata']['name']}-").rpartition("-")
        labels = {JOB: job["metadata"]["name"], ROLE: role, INDEX: index}
        meta = {"labels": labels, "annotations": {ATTEMPT: str(attempt)}, **owned(job)}
        return self.make("pods", name, actor, kind="Pod", metadata=meta, status={"phase": "Pending"})

    def make(self, plural: str, name: str, actor: str, *, metadata: dict | None = None, **rest: Any) -> Object:
        """Somebody makes something."""
        meta = {"namespace": "ml", "name": name, "uid": f"{name}-{self._version}", **(metadata or {})}
        return self._tell(CREATED, plural, name, actor, {"metadata": meta, **rest})

    def change(self, plural: str, name: str, actor: str, edit: Callable[[Object], object]) -> Object:
        """Somebody changes something."""
        found = copy.deepcopy(self.objects[plural, name])
        edit(found)
        return self._tell(MODIFIED, plural, name, actor, found)

    def status(self, plural: str, name: str = "job", actor: str = OPERATOR, **fields: Any) -> Object:
        """Somebody writes fields of a status; `states` names the conditions, `-Running` is one that is false.

        `said` is the message of the last one.
        """
        if "states" in fields:
            states = fields.pop("states").split()
            fields["conditions"] = [
                {"type": one.lstrip("-"), "status": "False" if one.startswith("-") else "True"} for one in states
            ]
            fields["conditions"][-1]["message"] = fields.pop("said", "")
        return self.change(plural, name, actor, lambda found: found.setdefault("status", {}).update(fields))

    def ends(self, name: str, code: int = 0, **fields: Any) -> Object:
        """A pod ends by itself."""
        state = {"containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": code}}}]}
        return self.status("pods", name, KUBELET, phase="Failed" if code else "Succeeded", **state, **fields)

    def delete(self, plural: str, name: str, actor: str = OPERATOR) -> None:
        """Somebody deletes something, and it is gone at once."""
        self._tell(DELETED, plural, name, actor, None)

    def _tell(self, verb: str, plural: str, name: str, actor: str, after: Object | None) -> Object:
        self.now += 1
        self._version += 1
        before = self.objects.get((plural, name))
        if after is None:
            del self.objects[plural, name]
        else:
            after["metadata"]["resourceVersion"] = str(self._version)
            self.objects[plural, name] = after
        change = Change(self.now, actor, verb, plural, before, after)
        self.changes.append(change)
        self.auditor.hear(change)
        return change.object


def owned(job: Object) -> dict[str, Any]:
    """The metadata of what a job controls."""
    meta = job["metadata"]
    return {"ownerReferences": [{"kind": job["kind"], "name": meta["name"], "uid": meta["uid"], "controller": True}]}


def failed_once(restarts: int = 1) -> tuple[Story, Object]:
    """A job of two workers, one of which was killed, and the restart of which is stored so often."""
    story = Story()
    job = story.job(Worker=2)
    for name in ("job-worker-0", "job-worker-1"):
        story.pod(name, job)
        story.status("pods", name, KUBELET, phase="Running")
    story.status("jaxjobs", states="Created Running")
    story.ends("job-worker-1", 137)
    if restarts:
        story.status("jaxjobs", states="Created Restarting", restarts=restarts, attempts={"Worker": 1})
    return story, job


def done(story: Story, **known: Any) -> set[str]:
    """Which oracles have spoken when all is over."""
    story.auditor.close(Ending(at=story.now + 60, **known))
    return story.broken
