"""Random schedules break no promise in other clusters: with a gang scheduler, MPIJob v2beta1, deadlines for pods."""

from __future__ import annotations

import os

import pytest

from simulation.drawing import draw_variant
from simulation.once import create
from simulation.play import play
from simulation.schedule import Schedule, Step
from support.audit.change import CREATED

#: The number of schedules: few with the fast tests, the others with the slow.
FEW, MANY = 60, int(os.environ.get("TRAINSHED_SCHEDULES", "2000")) // 2


def broken(seeds: range) -> list[str]:
    """The first promise that each of these schedules breaks."""
    reports = {seed: play(draw_variant(seed)).violations for seed in seeds}
    return [f"variant {seed}: {found[0]}" for seed, found in reports.items() if found]


def test_few_variants_break_no_promise():
    assert broken(range(FEW)) == []


@pytest.mark.apiserver  # it needs none, but half a minute or more: it stands where there is time for it
def test_many_variants_break_no_promise():
    assert broken(range(FEW, MANY)) == []


def test_the_variants_make_pod_groups_and_keys_and_admit_the_groups():
    heard = [one for seed in range(FEW) for one in play(draw_variant(seed)).heard]
    assert {one.plural for one in heard if one.verb == CREATED} >= {"podgroups", "secrets", "pods"}
    assert {(one.after or {}).get("status", {}).get("phase") for one in heard if one.plural == "podgroups"} >= {
        "Pending",
        "Running",
    }


@pytest.mark.parametrize("change", [("runPolicy.suspend", True), ("tfReplicaSpecs.Worker.replicas", 1)])
def test_a_job_that_was_changed_while_its_watch_was_silent_gets_no_pods_for_what_it_was(change):
    schedule = Schedule(
        seed=1,
        steps=(
            Step(after=0.0, what="quota", how=1),
            create("TFJob", "a", (("Worker", 3),), "OnFailure"),
            Step(after=5.0, what="hold", which=2),
            Step(after=0.0, what="set", how=change),
            Step(after=2.0, what="no quota"),
            Step(after=20.0, what="no quota"),
        ),
    )
    assert play(schedule).violations == ()
