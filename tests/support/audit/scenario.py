"""Scenarios for the tests of the auditor: changes of a job and its pods, one by one."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from . import api_fields
from .api_fields import ATTEMPT, INDEX, JOB, JOBS, ROLE
from .auditor import Auditor
from .change import CREATED, DELETED, KUBELET, MODIFIED, OPERATOR, USER, Change, Object
from .final_state import RunEnd

#: The time at which scenarios begin, in the format of the API.
FAR = "2027-01-15T08:00:00Z"
KINDS = {"tfjobs": "TFJob", "jaxjobs": "JAXJob", "pytorchjobs": "PyTorchJob", "mpijobs": "MPIJob"}


class Scenario:
    """A cluster with one namespace; each method makes one change, a second after the last, and passes it on."""

    def __init__(self, auditor: Auditor | None = None) -> None:
        self.auditor = auditor or Auditor()
        self.changes: list[Change] = []
        self.now = api_fields.seconds(FAR)
        self.objects: dict[tuple[str, str], Object] = {}
        self._version = 0

    @property
    def violated(self) -> set[str]:
        """The checks that have found a violation."""
        return {found.oracle for found in self.auditor.violations}

    def job(self, plural: str = "jaxjobs", name: str = "job", policy: dict | None = None, **roles: Any) -> Object:
        """Create a job with this number of replicas of each role; a role may also be a whole replica spec."""
        groups = {
            role: spec if isinstance(spec, dict) else {"replicas": spec, "restartPolicy": "ExitCode"}
            for role, spec in roles.items()
        }
        spec = {"runPolicy": policy or {}, JOBS[plural]: groups}
        return self.make(plural, name, USER, kind=KINDS[plural], spec=spec)

    def pod(self, name: str, job: Object, actor: str = OPERATOR, attempt: int = 0) -> Object:
        role, _, index = name.removeprefix(f"{job['metadata']['name']}-").rpartition("-")
        labels = {JOB: job["metadata"]["name"], ROLE: role, INDEX: index}
        meta = {"labels": labels, "annotations": {ATTEMPT: str(attempt)}, **owned(job)}
        return self.make("pods", name, actor, kind="Pod", metadata=meta, status={"phase": "Pending"})

    def make(self, plural: str, name: str, actor: str, *, metadata: dict | None = None, **rest: Any) -> Object:
        meta = {"namespace": "ml", "name": name, "uid": f"{name}-{self._version}", **(metadata or {})}
        return self._apply(CREATED, plural, name, actor, {"metadata": meta, **rest})

    def change(self, plural: str, name: str, actor: str, edit: Callable[[Object], object]) -> Object:
        found = copy.deepcopy(self.objects[plural, name])
        edit(found)
        return self._apply(MODIFIED, plural, name, actor, found)

    def status(self, plural: str, name: str = "job", actor: str = OPERATOR, **fields: Any) -> Object:
        """Write fields of a status; `states` names the conditions, `-Running` is one that is false.

        `said` is the message of the last one.
        """
        if "states" in fields:
            states = fields.pop("states").split()
            fields["blocked"] = {"reason": "Forbidden"} if "Blocked" in states else None
            states = [one for one in states if one != "Blocked"]
            fields["conditions"] = [
                {
                    "type": one.lstrip("-"),
                    "status": "False" if one.startswith("-") else "True",
                    "lastTransitionTime": f"{self.now:06}.{number}",
                }
                for number, one in enumerate(states)
            ]
            fields["conditions"][-1]["message"] = fields.pop("said", "")
        return self.change(plural, name, actor, lambda found: found.setdefault("status", {}).update(fields))

    def ends(self, name: str, code: int = 0, **fields: Any) -> Object:
        """Let a pod end by itself."""
        state = {"containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": code}}}]}
        return self.status("pods", name, KUBELET, phase="Failed" if code else "Succeeded", **state, **fields)

    def delete(self, plural: str, name: str, actor: str = OPERATOR) -> None:
        self._apply(DELETED, plural, name, actor, None)

    def scale(self, workers: int) -> None:
        self.change(
            "jaxjobs", "job", USER, lambda job: job["spec"]["jaxReplicaSpecs"]["Worker"].update(replicas=workers)
        )

    def hold(self, *finalizers: str) -> None:
        self.change("pods", "job-worker-0", OPERATOR, lambda pod: pod["metadata"].update(finalizers=list(finalizers)))

    def _apply(self, verb: str, plural: str, name: str, actor: str, after: Object | None) -> Object:
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
        self.auditor.on_change(change)
        return change.object


def owned(job: Object) -> dict[str, Any]:
    """Return the metadata of an object that a job controls."""
    meta = job["metadata"]
    return {"ownerReferences": [{"kind": job["kind"], "name": meta["name"], "uid": meta["uid"], "controller": True}]}


def with_pods(count: int, *, of: int = 0, policy: dict | None = None) -> tuple[Scenario, Object]:
    """Return a job and the pods of its first workers, or of all."""
    scenario = Scenario()
    job = scenario.job(Worker=of or count, policy=policy)
    for index in range(count):
        scenario.pod(f"job-worker-{index}", job)
    return scenario, job


def failed_once(restarts: int = 1) -> tuple[Scenario, Object]:
    """Return a job of two workers, one of which was killed, with this number of counted restarts."""
    scenario = Scenario()
    job = scenario.job(Worker=2)
    for name in ("job-worker-0", "job-worker-1"):
        scenario.pod(name, job)
        scenario.status("pods", name, KUBELET, phase="Running")
    scenario.status("jaxjobs", states="Created Running")
    scenario.ends("job-worker-1", 137)
    if restarts:
        scenario.status("jaxjobs", states="Created Restarting", restarts=restarts, attempts={"Worker": 1})
    return scenario, job


def done(scenario: Scenario, **known: Any) -> set[str]:
    """Run the final checks; return the checks that have found a violation."""
    scenario.auditor.close(RunEnd(at=scenario.now + 60, **known))
    return scenario.violated
