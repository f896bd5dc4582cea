"""Random schedules break no promise, and the same seed plays the same way wherever it is played."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import pytest

from simulation.drawing import draw
from simulation.play import play

#: So many schedules a run plays: few with the fast tests, the others with the slow; `make simulate N=1000000` plays
#: more, and remembers where it was.
FEW, MANY = 100, int(os.environ.get("TRAINSHED_SCHEDULES", "2000"))
TRACE = "import sys; from simulation.test_schedules import traced; print(traced(int(sys.argv[1])))"


def traced(seed: int) -> str:
    """A hash of all that happens in the schedule of a seed."""
    return hashlib.sha256("\n".join(play(draw(seed)).trace).encode()).hexdigest()


def broken(seeds: range) -> str:
    """Which promises are broken, and how to see it again."""
    wrong = {seed: report.violations[0] for seed in seeds if (report := play(draw(seed))).violations}
    return "\n".join(
        f"{found}\n  PYTHONPATH=tests:hack python -m simulation --seed {seed}" for seed, found in wrong.items()
    )


def test_few_schedules_break_no_promise():
    assert broken(range(FEW)) == ""


@pytest.mark.apiserver  # it needs none, but a minute or more: it stands where there is time for it
def test_many_schedules_break_no_promise():
    assert broken(range(FEW, MANY)) == ""


def test_a_seed_plays_the_same_way_in_another_process_with_other_hashes():
    for seed in (3, 8, 21):
        others = {
            subprocess.run(
                (sys.executable, "-c", TRACE, str(seed)),
                env={**os.environ, "PYTHONHASHSEED": salt, "PYTHONPATH": "tests:hack"},
                capture_output=True,
                text=True,
                check=True,
            ).stdout.strip()
            for salt in ("1", "77")
        }
        assert others == {traced(seed)}, seed
