"""What is left of a schedule that fails is what makes it fail."""

from __future__ import annotations

from simulation.schedule import Schedule, Step
from simulation.shrinking import shrunk

LONG = Schedule(1, tuple(Step(2.5, "succeed" if i % 7 else "fail", i, i) for i in range(60)), operators=2, finish=True)


def test_only_the_steps_that_matter_are_left_in_their_order():
    def fails(schedule: Schedule) -> bool:
        told = [step.how for step in schedule.steps]
        return 14 in told and 35 in told[told.index(14) :]

    small = shrunk(LONG, fails)
    assert [(step.how, step.after, step.which) for step in small.steps] == [(14, 0.0, 0), (35, 0.0, 0)]
    assert small.operators == 1
    assert not small.finish


def test_a_pause_that_matters_stays_and_becomes_a_round_one():
    small = shrunk(LONG, lambda schedule: sum(step.after for step in schedule.steps) > 4)
    assert [step.after for step in small.steps] == [5.0]


def test_it_gives_up_after_so_many_tries():
    asked = []
    shrunk(LONG, lambda schedule: bool(asked.append(schedule)), tries=25)
    assert len(asked) == 25
