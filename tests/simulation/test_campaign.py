"""A campaign goes on where it was stopped, and its figures are for people as well."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from .campaign import Progress, run


def test_a_campaign_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    file = tmp_path / "simulate.toml"
    whole, told = Progress(), []
    run(range(3), 1, whole, told.append)
    first = Progress.read(file)
    assert first == Progress()
    run(range(2), 1, first, lambda so_far: so_far.write(file, "make simulate N=2"))
    again = Progress.read(file)
    assert again == first
    run(range(3), 1, again, told.append)
    assert (again.next, again.schedules, again.sums) == (3, 3, whole.sums)


def test_what_was_found_and_said_outlives_a_stop(tmp_path: Path) -> None:
    file = tmp_path / "simulate.toml"
    sums = Counter({"violations": 1, "faults/kill": 2, "requests": 9})
    found = Progress(7, 7, {"5": "V1 with a pod"}, 1.5, sums, "said")
    found.write(file, "make simulate")
    assert Progress.read(file) == found
