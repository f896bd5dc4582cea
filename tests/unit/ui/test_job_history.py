"""What a job did and when, from its status; and what its limits will do."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import msgspec
import pytest

from support.broken_jobs import BROKEN, REPLICAS, WELL, again, every, lives, training
from support.builders import T0, at
from support.played_jobs import Life, Play, a_document
from trainshed.ui import job_history
from trainshed.ui.drawings import time_bar
from trainshed.ui.job_history import History
from trainshed.ui.replica_history import Span
from trainshed.ui.seen_facts import facts_of, lives_of


def history_of(play: Play, now: float, *, unseen: bool = False) -> History:
    """The history of a job; with `unseen` the pods that are gone were gone before the page was opened."""
    file = play.file(now)
    facts = facts_of(file, at(now))
    assert facts
    return job_history.history(facts, [one for one in lives_of(file.pods) if one.removed is None or not unseen])


def seconds(spans: tuple[Span, ...]) -> list[tuple[str, float, float]]:
    return [(str(one.act), (one.begin - T0).total_seconds(), (one.end - T0).total_seconds()) for one in spans]


def test_the_beginning_of_a_job_has_the_phases_of_its_status():
    found = history_of(Play(a_document(), lives()), 100)
    assert seconds(found.spans) == [("Scheduling", 0, 2), ("ImagePull", 2, 31), ("Running", 31, 100)]


def test_each_restart_is_a_span_from_the_failure_until_the_job_ran_again():
    play, now = WELL["healthy"]()
    assert seconds(history_of(play, now).spans) == [
        *(("Scheduling", 0, 2), ("ImagePull", 2, 21), ("Running", 21, 1500)),
        *(("Restart", 1500, 1548), ("Running", 1548, 5400)),
    ]


def test_a_restart_that_is_not_over_lasts_until_now():
    first = again(0, 0, 300, gone=320, code=1)
    play = Play(a_document(policy={"backoffLimit": 3}), tuple(first))
    found = history_of(play, 315)
    assert seconds(found.spans)[-1] == ("Restart", 300, 315)
    assert found.spans[-1].lasts


def test_a_job_that_stands_still_is_stalled_from_its_last_step_on():
    play, now = BROKEN["stalled"]()
    assert seconds(history_of(play, now).spans)[-2:] == [("Running", 31, 2980), ("Stalled", 2980, 4200)]


@pytest.mark.parametrize("name", [*sorted({*BROKEN, *WELL} - {"crash-loop"})])
def test_the_timeline_of_a_job_and_the_bar_of_its_time_have_the_same_sums(name):
    """Of crash loops the kubelet keeps the last runs only."""
    play, now = (BROKEN | WELL)[name]()
    in_timeline, in_bar = Counter[str](), Counter[str]()
    for one in history_of(play, now).spans:
        in_timeline[one.act] += one.seconds
    for part in time_bar.parts(play.file(now).status, at(now)):
        in_bar[part.act] += part.seconds
    assert in_timeline == in_bar


def test_a_job_whose_replica_has_failed_for_good_does_not_restart():
    play, now = BROKEN["liveness-probe"]()
    assert seconds(history_of(play, now).spans)[-2:] == [("Running", 31, 900), ("Teardown", 900, 960)]
    gone = tuple(replace(one, deleted=970, removed=990) for one in play.lives)
    later = history_of(replace(play, lives=gone, extra=(960,)), 1000)
    assert seconds(later.spans)[-2:] == [("Running", 31, 900), ("Teardown", 900, 991)]


def test_restarts_of_containers_are_restarts_of_the_job_as_far_as_the_kubelet_keeps_them():
    play, now = BROKEN["crash-loop"]()
    assert seconds(history_of(play, now).spans)[2:] == [
        *(("Earlier", 24, 108), ("Running", 108, 113), ("Restart", 113, 160)),
    ]


def test_restarts_of_containers_whose_pods_are_gone_have_only_their_sums():
    play, now = BROKEN["crash-loop"]()
    facts = facts_of(msgspec.structs.replace(play.file(now), pods=()), at(now))
    assert facts
    found = job_history.history(facts, ()).spans
    assert [str(one.act) for one in found] == ["Scheduling", "ImagePull", "Earlier", "Restart"]
    assert found[2].note.startswith("it ran for 16s in all; restarts of containers took ")


def test_a_restart_after_a_suspension_lasts_until_the_replicas_ran_of_which_the_status_says_so():
    """How long all replicas ran says nothing of when, if other times are between."""
    play, now = WELL["healthy"]()
    file = play.file(now)
    spent = msgspec.structs.replace(file.status.time_spent, seconds={**file.status.time_spent.seconds, "Suspended": 9})
    status = msgspec.structs.replace(file.status, time_spent=spent)
    facts = facts_of(msgspec.structs.replace(file, status=status), at(now))
    assert facts
    spans = [one for one in seconds(job_history.history(facts, ()).spans) if one[0] == "Restart"]
    assert spans == [("Restart", 1500, 1547)]


def test_attempts_whose_pods_were_not_seen_are_taken_from_the_status():
    play, now = WELL["healthy"]()
    rows = {row.name: row for row in history_of(play, now, unseen=True).rows}
    assert seconds(rows["worker-0"].spans)[0] == ("Earlier", 21, 1500)
    assert [(one.sign, (one.time - T0).total_seconds()) for one in rows["worker-1"].marks] == [("failed", 1500)]
    assert rows["worker-0"].marks == ()


def test_attempts_whose_pods_were_seen_are_not_drawn_twice():
    play, now = WELL["healthy"]()
    acts = {str(span.act) for row in history_of(play, now).rows for span in row.spans}
    assert "Earlier" not in acts


def ahead(play: Play, now: float) -> list[tuple[str, float]]:
    return [(one.name, (one.time - T0).total_seconds()) for one in history_of(play, now).ahead]


def backs_off() -> Play:
    """A job that fails in the first seconds of each attempt, and waits longer each time."""
    found = [
        one
        for number in range(4)
        for one in again(number, 60.0 * number, 60.0 * number + 40, gone=60.0 * number + 44, code=1)
    ]
    return Play(a_document(policy={"backoffLimit": 9}), tuple(found), extra=(225,))


@pytest.mark.parametrize(
    ("play", "now", "expected"),
    [
        (Play(a_document(policy={"activeDeadlineSeconds": 3600}), lives()), 100, [("activeDeadlineSeconds", 3601)]),
        (
            Play(
                a_document(annotations={"trainshed.dev/startup-deadline": "10m"}),
                lives(Life("worker-1", created=7, scheduled=9, started=None)),
            ),
            100,
            [("trainshed.dev/startup-deadline", 607)],
        ),
        (
            Play(
                a_document(annotations={"trainshed.dev/hang-deadline": "5m", "trainshed.dev/progress": "Logs"}),
                lives(),
                trains=training(900),
                extra=every(60, 600),
            ),
            590,
            [("trainshed.dev/hang-deadline", 820 + 60)],
        ),
        (
            Play(a_document(policy={"ttlSecondsAfterFinished": 600}), lives(Life("master-0", ended=500))),
            550,
            [("ttlSecondsAfterFinished", 501 + 600)],
        ),
        (
            Play(
                a_document(annotations={"trainshed.dev/force-delete-after": "5m"}, restart="OnFailure"),
                lives(Life("worker-1", deleted=100, grace=30)),
            ),
            110,
            [("grace period", 130), ("trainshed.dev/force-delete-after", 430)],
        ),
        (Play(a_document(policy={"suspend": True, "activeDeadlineSeconds": 60})), 30, []),
        (Play(a_document(), lives()), 100, []),
    ],
)
def test_limits_lie_ahead_at_the_time_at_which_they_act(play, now, expected):
    assert ahead(play, now) == expected


def test_a_deadline_that_stops_a_training_too_early_says_by_how_much():
    job = a_document(policy={"activeDeadlineSeconds": 9000}, annotations={"trainshed.dev/progress": "Logs"})
    found = history_of(Play(job, lives(), trains=training(9000), extra=every(60, 5400)), 5400).ahead
    assert found[0].text == "the job fails, about 17m before its training ends"


def test_the_back_off_lies_ahead():
    assert ahead(backs_off(), 223)[0] == ("back-off", 225)


def test_a_suspended_job_is_suspended_until_now():
    play = Play(a_document(policy={"suspend": True}), extra=(10,))
    assert seconds(history_of(play, 600).spans)[-1] == ("Suspended", 0, 600)


def test_a_job_that_is_over_ends_with_its_last_pod():
    found = history_of(Play(a_document(restart="Never"), lives(*(Life(name, ended=500) for name in REPLICAS))), 4000)
    assert (found.over, (found.end - T0).total_seconds()) == (True, 501)
