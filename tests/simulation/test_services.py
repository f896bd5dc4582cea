"""Jobs whose form of Services changes while they run: no pod loses the Service by which its peers find it."""

from __future__ import annotations

import pytest

from simulation.runner import SERVICE_FORMS, Report, run
from simulation.schedule import JobRequest, Schedule, Step
from support.audit.change import CREATED, DELETED, OPERATOR

JOB = JobRequest("PyTorchJob", "a", (("Master", 1), ("Worker", 2)), "ExitCode", (("backoffLimit", 3),))
ALONE = JobRequest("TFJob", "a", (("Worker", 1),))


def life(*steps: Step, default: str = "Replica", job: JobRequest = JOB) -> Report:
    """A job with these steps, under an operator with this default; it succeeds at the end."""
    seed = SERVICE_FORMS if default == "Job" else SERVICE_FORMS + 1
    report = run(Schedule(seed=seed, steps=(Step(0.0, "create", how=job), *steps), finish=True))
    assert report.violations == ()
    return report


def services(report: Report, verb: str) -> list[str]:
    """The names of the Services that the operator has created or deleted, in order."""
    found = (one for one in report.changes if one.plural == "services" and (one.verb, one.actor) == (verb, OPERATOR))
    return [one.object["metadata"]["name"] for one in found]


@pytest.mark.parametrize(
    ("default", "asked", "names"), [("Replica", "Job", ["a"]), ("Job", "Replica", ["a-master-0", "a-worker-0"])]
)
def test_the_form_changes_with_the_next_attempt_of_the_job(default, asked, names):
    change, failure = Step(10.0, "set services", how=asked), Step(20.0, "oom", 0, 137)
    kept, changed = life(change, default=default), life(change, failure, default=default)
    assert not set(names) & set(services(kept, CREATED))
    assert services(kept, DELETED) == []
    assert set(names) <= set(services(changed, CREATED))
    assert sorted(services(changed, DELETED)) == sorted(services(kept, CREATED))


@pytest.mark.parametrize("when", ["before", "after", "answered"])
def test_a_crash_at_any_write_of_a_change_leaves_every_pod_its_service(when):
    steps = (Step(10.0, "set services", how="Job"), Step(20.0, "oom", 0, 137))
    writes = sum(request.writes for request in life(*steps).requests)
    for number in range(1, writes + 1):
        report = life(Step(0.0, "kill at write", how=(number, when)), *steps)
        assert services(report, CREATED)[-1] == "a"


WITHOUT_LABELS = {
    "and another form is the default": Schedule(
        seed=0,
        gang="scheduler-plugins",
        steps=(
            Step(0.0, "create", how=ALONE),
            Step(0.0, "create foreign pod", 1),
            Step(1.016, "remove metadata", how="labels"),
            Step(0.007, "succeed"),
        ),
    ),
    "and a foreign pod has another form": Schedule(
        seed=1144257747,
        steps=(
            Step(0.0, "create", how=ALONE),
            Step(1.0, "remove metadata", how="labels"),
            Step(0.0, "create foreign pod", 1),
            Step(0.011, "succeed"),
        ),
    ),
}


@pytest.mark.parametrize("schedule", WITHOUT_LABELS.values(), ids=WITHOUT_LABELS.keys())
def test_a_pod_that_has_lost_its_labels_keeps_its_service(schedule):
    assert run(schedule).violations == ()
