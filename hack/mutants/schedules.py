"""Plays random schedules in the simulation until one breaks a promise: `python -m mutants.schedules 0 200`."""

from __future__ import annotations

import sys

from simulation.drawing import draw, draw_variant
from simulation.play import play


def main(first: int, last: int) -> int:
    """Play the schedules and the variants of the seeds from `first` up to `last`, that one left out.

    Returns 1 if one fails, and prints a line as pytest does.
    """
    for seed in range(first, last):
        for name, drawn in (("seed", draw), ("variant", draw_variant)):
            violations = play(drawn(seed)).violations
            if violations:
                print(f"FAILED {violations[0].oracle}-with-{name}-{seed} - {violations[0]}")
                return 1
    print(f"{2 * (last - first)} schedules passed")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
