"""Where a formula is known, many runs come to what it says."""

from __future__ import annotations

import math
import statistics

import pytest

from support.predictions import DAY, HOUR, MINUTE, assumed, pytorch, runs
from trainshed.whatif.assumptions import PATIENCE, RunEnding
from trainshed.whatif.prediction import Predictor
from trainshed.whatif.recommendations import recommendations, young_daly


def test_a_run_without_a_failure_takes_exactly_its_start_its_training_and_its_checkpoints():
    reliable = assumed(run_time=10 * HOUR, mtbf=1e15, checkpoint_every=HOUR, checkpoint_cost=20, start_up=90)
    (run,) = runs(pytorch(4), reliable, 1)
    assert (run.ending, run.seconds) == (RunEnding.SUCCEEDED, 90 + 10 * HOUR + 9 * 20)
    assert run.seconds == reliable.undisturbed
    used = {use: amounts[0] for use, amounts in run.used.items()}  # of 4 replicas with 8 devices each
    assert used == {"training": 320 * HOUR, "lostWork": 0, "checkpoints": 32 * 180, "restarts": 0, "start": 32 * 90}


@pytest.mark.slow
def test_without_checkpoints_the_mean_time_is_that_of_waiting_for_one_undisturbed_run():
    # Each attempt needs W + R without a failure of rate 1/M: E = M (exp((W + R) / M) - 1).
    training, restart, mean = 12 * HOUR, 30 * MINUTE, 10 * HOUR
    world = assumed(run_time=training, mtbf=mean, start_up=restart, restart_cost=restart)
    found = runs(pytorch(1), world, 500)
    times = [run.seconds for run in found]
    expected = mean * math.expm1((training + restart) / mean)
    assert abs(statistics.mean(times) - expected) < 3 * statistics.stdev(times) / math.sqrt(len(times))
    assert {run.ending for run in found} == {RunEnding.SUCCEEDED}
    met = statistics.mean(run.node_failures + run.program_failures for run in found)
    assert met == pytest.approx(world.likely_failures, rel=0.2)


def test_the_failures_of_starts_that_are_made_again_are_reckoned_with():
    world = assumed(run_time=HOUR, mtbf=10 * HOUR, start_up=20 * HOUR, restart_cost=MINUTE)
    assert world.likely_failures - world.expected_failures > math.expm1(2) - 1
    endless = assumed(run_time=HOUR, mtbf=10 * HOUR, start_up=150 * HOUR)
    assert endless.likely_failures == PATIENCE * endless.expected_failures


def mean_with(every: float, count: int = 60) -> float:
    """The mean time of a run of 6 days, with a failure in 10 hours, and checkpoints of 2 minutes."""
    world = assumed(run_time=6 * DAY, mtbf=10 * HOUR, checkpoint_every=every, checkpoint_cost=120, restart_cost=300)
    return statistics.mean(run.seconds for run in runs(pytorch(1), world, count))


@pytest.mark.slow
@pytest.mark.parametrize("every", [10 * MINUTE, 50 * MINUTE, 3 * HOUR])
def test_with_checkpoints_the_mean_time_is_that_of_daly(every):
    mean, restart, cost = 10 * HOUR, 300, 120
    expected = mean * math.exp(restart / mean) * math.expm1((every + cost) / mean) * 6 * DAY / every
    assert mean_with(every) == pytest.approx(expected, rel=0.02)


@pytest.mark.slow
def test_the_best_interval_is_that_of_young_and_daly_within_five_percent():
    # Around its minimum the mean time is a parabola of the interval's logarithm; its vertex is where it is least.
    best = young_daly(120, 10 * HOUR)
    assert best == pytest.approx(math.sqrt(2 * 120 * 10 * HOUR), rel=0.05)
    steps = (-0.8, -0.4, 0.0, 0.4, 0.8)
    means = [mean_with(best * math.exp(step)) for step in steps]
    curve = sum(
        (5 * step**2 - sum(other**2 for other in steps)) * mean for step, mean in zip(steps, means, strict=True)
    )
    slope = sum(step * mean for step, mean in zip(steps, means, strict=True)) / sum(step**2 for step in steps)
    spread = sum((5 * step**2 - sum(other**2 for other in steps)) * step**2 for step in steps)
    vertex = -slope / (2 * curve / spread)
    assert math.exp(vertex) == pytest.approx(1, abs=0.05)


@pytest.mark.slow
def test_the_share_of_runs_that_a_limit_ends_is_that_of_their_failures():
    # With backoffLimit 0 the first failure of the program ends the job: a run of W succeeds with exp(-W / M).
    world = assumed(run_time=10 * HOUR, mtbf=20 * HOUR, program_failures=1, exit_code=137, checkpoint_every=HOUR)
    found = runs(pytorch(1, policy={"backoffLimit": 0}), world, 600)
    passed = sum(run.ending is RunEnding.SUCCEEDED for run in found) / 600
    assert passed == pytest.approx(math.exp(-0.5), abs=0.06)
    assert {run.ending for run in found} == {RunEnding.SUCCEEDED, RunEnding.BACKOFF_LIMIT}


@pytest.mark.slow
def test_the_interval_that_is_advised_is_near_that_of_young_and_daly():
    world = assumed(run_time=6 * DAY, mtbf=10 * HOUR, checkpoint_every=5 * HOUR, checkpoint_cost=120, restart_cost=300)
    source = Predictor(1)
    advice = recommendations(source.predict(pytorch(1), world, 40), source)
    numbers = next(one for one in advice if one.about == "checkpointInterval").numbers
    assert numbers["simulatedBestSeconds"] == pytest.approx(numbers["youngDalySeconds"], abs=1)
    assert numbers["meanSeconds"] < numbers["presentMeanSeconds"]
