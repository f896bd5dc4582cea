"""What each replica did and when: the arithmetic of the timeline, from pods whose lives are known to the second."""

from __future__ import annotations

import pytest

from support.builders import T0, at
from support.played_jobs import Life, Play, a_document
from trainshed.ui.replica_history import Row, rows
from trainshed.ui.seen_facts import facts_of, lives_of

PULLS = ("ErrImagePull", "not found")


def row_of(*lives: Life, now: float, replica: str = "worker-0", restart: str = "OnFailure") -> Row:
    file = Play(a_document(restart=restart, Master=1, Worker=1), lives).file(now)
    facts = facts_of(file, at(now))
    assert facts
    return next(row for row in rows(facts, lives_of(file.pods)) if row.name == replica)


def spans(row: Row) -> list[tuple[str, float, float]]:
    """The spans of a row, in seconds after the creation of the job."""
    times = [(one.begin - T0, one.end - T0) for one in row.spans]
    return [
        (str(one.act), *(time.total_seconds() for time in pair)) for one, pair in zip(row.spans, times, strict=True)
    ]


@pytest.mark.parametrize(
    ("life", "now", "expected"),
    [
        (Life("worker-0", scheduled=None, started=None, unplaced="no room"), 90, [("Scheduling", 0, 90)]),
        (Life("worker-0", scheduled=5, started=None, waits=PULLS), 60, [("Scheduling", 0, 5), ("ImagePull", 5, 60)]),
        (
            Life("worker-0", scheduled=5, started=35),
            100,
            [("Scheduling", 0, 5), ("ImagePull", 5, 35), ("Running", 35, 100)],
        ),
        (
            Life("worker-0", scheduled=5, init=(7, 20), started=35),
            100,
            [("Scheduling", 0, 5), ("Init", 5, 20), ("ImagePull", 20, 35), ("Running", 35, 100)],
        ),
        (Life("worker-0", scheduled=5, init=(7, None), started=None), 50, [("Scheduling", 0, 5), ("Init", 5, 50)]),
        (
            Life("worker-0", scheduled=5, started=35, probed=True, ready=65),
            100,
            [("Scheduling", 0, 5), ("ImagePull", 5, 35), ("ProgramStartup", 35, 65), ("Running", 65, 100)],
        ),
        (
            Life("worker-0", scheduled=5, started=35, probed=True),
            100,
            [("Scheduling", 0, 5), ("ImagePull", 5, 35), ("ProgramStartup", 35, 100)],
        ),
        (
            Life("worker-0", scheduled=5, started=35, ended=80, code=1),
            100,
            [("Scheduling", 0, 5), ("ImagePull", 5, 35), ("Running", 35, 80)],
        ),
        (
            Life("worker-0", scheduled=5, started=35, deleted=80, grace=30),
            95,
            [("Scheduling", 0, 5), ("ImagePull", 5, 35), ("Running", 35, 80), ("Terminating", 80, 95)],
        ),
        (
            Life("worker-0", scheduled=5, started=35, deleted=80, grace=30, removed=92),
            300,
            [("Scheduling", 0, 5), ("ImagePull", 5, 35), ("Running", 35, 80), ("Terminating", 80, 92)],
        ),
        (
            Life("worker-0", scheduled=5, started=None, runs=((20, 30, 1, "Error"),)),
            50,
            [("Scheduling", 0, 5), ("ImagePull", 5, 20), ("Running", 20, 30), ("BackOff", 30, 50)],
        ),
        (
            Life("worker-0", scheduled=5, started=45, runs=((20, 30, 1, "Error"),)),
            70,
            [
                ("Scheduling", 0, 5),
                ("ImagePull", 5, 20),
                ("Running", 20, 30),
                ("BackOff", 30, 45),
                ("Running", 45, 70),
            ],
        ),
        (  # of three runs the kubelet keeps the last
            Life("worker-0", scheduled=5, started=None, runs=((9, 10, 1, "E"), (20, 21, 1, "E"), (40, 44, 1, "E"))),
            60,
            [("Scheduling", 0, 5), ("Earlier", 5, 40), ("Running", 40, 44), ("BackOff", 44, 60)],
        ),
    ],
)
def test_spans_of_a_pod_are_those_of_its_life(life, now, expected):
    assert spans(row_of(life, now=now)) == expected


@pytest.mark.parametrize(
    ("life", "now", "expected"),
    [
        (Life("worker-0", ended=80, code=1), 100, [("failed", 80, "exited with code 1")]),
        (
            Life("worker-0", ended=80, code=137, reason="OOMKilled"),
            100,
            [("failed", 80, "failed (OOMKilled, exit code 137)")],
        ),
        (Life("worker-0", ended=80), 100, [("succeeded", 80, "succeeded")]),
        (
            Life("worker-0", disrupted=(70, "EvictionByEvictionAPI"), deleted=70),
            75,
            [("disrupted", 70, "was evicted through the API, for example by a node drain (EvictionByEvictionAPI)")],
        ),
        (
            Life("worker-0", started=45, runs=((20, 30, 3, "Error"),)),
            70,
            [("restarted", 30, "exited with code 3, and was restarted by the kubelet")],
        ),
        (
            Life("worker-0", ended=80, pod_reason=("Evicted", "The node was low on memory."), code=137),
            100,
            [("failed", 80, "was evicted by the kubelet: The node was low on memory.")],
        ),
    ],
)
def test_what_happens_to_a_pod_is_marked_with_its_cause(life, now, expected):
    row = row_of(life, now=now)
    assert [(str(one.sign), (one.time - T0).total_seconds(), one.text) for one in row.marks] == expected


def test_pods_of_all_attempts_are_in_the_row_of_their_replica():
    first = Life("worker-0", started=20, ended=50, code=1, deleted=52, removed=60)
    second = Life("worker-0", created=62, scheduled=64, started=70, attempt=1)
    found = row_of(first, second, now=100)
    assert [(one.attempt, str(one.act)) for one in found.spans] == [
        *((0, act) for act in ("Scheduling", "ImagePull", "Running")),
        *((1, act) for act in ("Scheduling", "ImagePull", "Running")),
    ]
    assert (found.state, found.ready, found.last.lasts if found.last else None) == ("Running", True, True)


@pytest.mark.parametrize(
    ("lives", "now", "state", "well"),
    [
        ((), 10, "NotCreated", False),
        ((Life("worker-0"),), 100, "Running", True),
        ((Life("worker-0", ended=50),), 100, "Succeeded", True),
        ((Life("worker-0", ended=50, code=2),), 100, "Failed", False),
        ((Life("worker-0", deleted=50, removed=60),), 100, "Gone", False),
        ((Life("worker-0", started=None),), 100, "ImagePull", False),
        ((Life("worker-0", started=45, runs=((20, 30, 1, "Error"),)),), 100, "Running", False),
    ],
)
def test_a_replica_that_is_well_runs_or_has_succeeded_and_never_failed(lives, now, state, well):
    found = row_of(*lives, now=now)
    assert (found.state, found.is_well) == (state, well)


def test_a_span_says_when_it_was_and_why():
    life = Life("worker-0", scheduled=None, started=None, unplaced="0/4 nodes are available: 4 Insufficient cpu.")
    assert row_of(life, now=90).spans[0].text == (
        "Scheduling 12:00:00 to 12:01:30, 90s so far: 0/4 nodes are available: 4 Insufficient cpu."
    )


def test_a_replica_that_is_no_longer_asked_for_keeps_its_row():
    file = Play(a_document(Master=1, Worker=2), (Life("worker-5", deleted=50, removed=60),)).file(100)
    facts = facts_of(file, at(100))
    assert facts
    assert [row.name for row in rows(facts, lives_of(file.pods))] == ["master-0", "worker-0", "worker-1", "worker-5"]


@pytest.mark.parametrize(
    ("first", "now", "said"),
    [
        ({"code": 137, "restart": "ExitCode"}, 200, "was stopped, as worker-0 was killed by SIGKILL (137) first"),
        ({}, 200, "was stopped: its pod was deleted"),
    ],
)
def test_a_replica_that_was_stopped_has_not_failed_and_says_who_had(first, now, said):
    restart = first.pop("restart", "OnFailure")
    failed = Life("worker-0", ended=100 if first else None, **first)
    stopped = Life("master-0", deleted=110, ended=115, code=143)
    row = row_of(failed, stopped, now=now, replica="master-0", restart=restart)
    assert [(str(one.sign), one.text) for one in row.marks] == [("stopped", said)]
    assert (row.state, row.is_well) == ("Stopped", True)


def test_a_replica_that_is_stopped_after_a_success_says_so():
    row = row_of(
        *(Life("master-0", ended=100), Life("worker-0", deleted=110, ended=115, code=143)), now=200, replica="worker-0"
    )
    assert [one.text for one in row.marks] == ["was stopped, as the job had succeeded"]
