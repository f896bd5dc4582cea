"""V2: no pod loses the Service by which its peers find it, and at rest a job has the Services that its pods need."""

from __future__ import annotations

from collections.abc import Iterator

from . import api_fields
from .change import OPERATOR, Change, Object, Violation
from .records import IN_FLIGHT, JobRecord, Records

#: The annotation of a pod with the name of its job's one Service.
JOB_SERVICE = "trainshed.dev/job-service"


class RequiredServices:
    """Checks the Services that the operator deletes, and those that exist at the end.

    `in_flight` are the seconds for which the operator may not know of a pod. Where no Service was ever reported,
    they are not watched, and nothing is missed.
    """

    def __init__(self, in_flight: float = IN_FLIGHT) -> None:
        self._in_flight = in_flight
        self._watched = False

    def on_change(self, change: Change, records: Records) -> Iterator[Violation]:
        """Check that no pod needs a Service that the operator deletes."""
        self._watched = self._watched or change.plural == "services"
        job = records.job(change) if change.plural == "services" and change.actor == OPERATOR else None
        if job is None or not change.requests_deletion or job.gone is not None or job.over or job.plural == "mpijobs":
            return
        since = change.at - self._in_flight
        if any(api_fields.policy(spec).get("suspend") for spec in job.specs_since(since)):
            return
        name = api_fields.meta(change.object).get("name")
        for pod in _pods(job, records):
            record = job.pods[api_fields.uid(pod)]
            lives = record.made and record.alive and "deletionTimestamp" not in api_fields.meta(pod)
            stays = lives and record.born < since and not job.given_up(record) and not job.was_surplus(record)
            if stays and needed(pod) == name:
                yield Violation(
                    "V2", api_fields.title("services", change.object), change.at, f"deleted, and {record.name} runs"
                )

    def close(self, records: Records, at: float) -> Iterator[Violation]:
        """Compare the Services of each running job with its pods, at the end."""
        for job in records.jobs.values() if self._watched else ():
            if job.gone is None and not job.over and not job.forged and job.plural != "mpijobs" and _runs(job.document):
                for problem in _problems(job, records):
                    yield Violation("V2", job.title, at, problem)


def needed(pod: Object) -> str:
    """The name of the Service by which a pod is found."""
    marked = (api_fields.meta(pod).get("annotations") or {}).get(JOB_SERVICE)
    return str(marked or api_fields.meta(pod).get("name"))


def _problems(job: JobRecord, records: Records) -> Iterator[str]:
    pods = [pod for pod in _pods(job, records) if api_fields.recognizable(pod)]
    if not pods:
        return
    name = str(api_fields.meta(job.document).get("name"))
    wanted = {needed(pod) for pod in pods}
    possible_names = {
        f"{name}-{role}-{i}" for role, n in api_fields.counts(job.plural, job.document).items() for i in range(n)
    }
    possible = wanted | (set() if wanted == {name} else possible_names)
    found = [service for (plural, _, _), service in records.objects.items() if plural == "services"]
    there = {str(api_fields.meta(service).get("name")) for service in found if api_fields.owner(service) == job.uid}
    if missing := wanted - there:
        yield f"its pods run without the Services {sorted(missing)}"
    if left := there - possible:
        yield f"no pod needs its Services {sorted(left)}"


def _runs(job: Object) -> bool:
    blocked = api_fields.condition(job, "Blocked") or "deletionTimestamp" in api_fields.meta(job)
    return api_fields.condition(job, "Running") and not blocked and not api_fields.policy(job).get("suspend")


def _pods(job: JobRecord, records: Records) -> list[Object]:
    found = (pod for (plural, _, _), pod in records.objects.items() if plural == "pods")
    return [pod for pod in found if api_fields.owner(pod) == job.uid and api_fields.uid(pod) in job.pods]
