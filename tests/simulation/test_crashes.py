"""A crash of the operator at any write changes nothing in the end."""

from __future__ import annotations

import pytest

from simulation.once import create
from simulation.play import Report, play
from simulation.schedule import Schedule, Step
from support.audit import words
from support.audit.change import CREATED, OPERATOR


def life(*crash: Step) -> Report:
    """A master and two workers: worker-1 is killed once, and after the restart the job succeeds."""
    policy = (("cleanPodPolicy", "Running"),)
    made = create("PyTorchJob", "a", (("Master", 1), ("Worker", 2)), "ExitCode", policy=policy)
    fails = Step(after=20.0, what="oom", which=2, how=137)
    return play(Schedule(seed=1, steps=(*crash, made, fails, Step(after=60.0, what="unready")), finish=True))


def end(report: Report) -> tuple[object, ...]:
    """The true conditions at the end, the number of restarts, and the pods that were made."""
    job = [one.object for one in report.heard if one.plural == "pytorchjobs"][-1]
    status = words.status(job)
    true = [one["type"] for one in status["conditions"] if one["status"] == "True"]
    pods = [one for one in report.heard if one.plural == "pods" and (one.verb, one.actor) == (CREATED, OPERATOR)]
    return true, status.get("restarts"), sorted(one.object["metadata"]["name"] for one in pods)


@pytest.mark.parametrize("when", ["before", "after", "answered"])
def test_a_crash_at_any_write_changes_nothing_in_the_end(when):
    undisturbed = life()
    assert end(undisturbed)[:2] == (["Created", "Succeeded"], 1)
    writes = sum(one.writes for one in undisturbed.asked)
    assert writes > 10
    for write in range(1, writes + 1):
        crashed = life(Step(after=0.0, what="die at", how=(write, when)))
        assert crashed.violations == (), write
        assert end(crashed) == end(undisturbed), write
