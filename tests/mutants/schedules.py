"""Plays random schedules in the simulation until one breaks a promise: `python -m mutants.schedules 0 200`."""

from __future__ import annotations

import sys

from sim.drawing import draw
from sim.play import play


def main(first: int, last: int) -> int:
    """Play the seeds from the first up to the last, that one left out; 1 and a line as pytest's if one fails."""
    for seed in range(first, last):
        violations = play(draw(seed)).violations
        if violations:
            print(f"FAILED {violations[0].oracle}-with-seed-{seed} - {violations[0]}")
            return 1
    print(f"{last - first} schedules passed")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
