"""The checks of recorded decisions find what they are for: a ring that loses some, is silent about it, or is wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from simulation.runner import Report, run
from simulation.schedule import RECORD, JobRequest, Schedule, Step
from trainshed.controller.job_decisions import JobDecisions
from trainshed.decisions.recording import Encoder
from trainshed.decisions.ring import Ring

ASKS = JobRequest("PyTorchJob", "a", (("Worker", 1),), "OnFailure", annotations=((RECORD, "Decisions"),))
#: The answer to the first write is lost, and a pod fails twice, with a new process in between.
STORY = Schedule(
    seed=1,
    steps=(
        Step(0.0, "create", how=ASKS),
        Step(0.0, "fail record", how=(0, "after")),
        Step(10.0, "oom", how=137),
        Step(60.0, "kill", how=0.0),
        Step(10.0, "oom", how=137),
    ),
)


def report_of_story() -> Report:
    """Run the story."""
    return run(STORY)


def test_a_ring_survives_a_lost_answer_and_a_crash():
    report = report_of_story()
    assert report.violations == ()
    assert report.counts["rings/decisions"] > 8
    assert report.counts["rings/disturbed requests"] == 1


def test_a_job_that_does_not_ask_makes_no_request_for_a_ring():
    _, *rest = STORY.steps
    steps = (Step(0.0, "create", how=JobRequest("PyTorchJob", "a", (("Worker", 1),))), *rest)
    report = run(Schedule(seed=1, steps=steps))
    assert (report.violations, report.counts["rings/requests"]) == ((), 0)


def lose(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a conflict, take all for stored."""
    monkeypatch.setattr(Ring, "compare", lambda ring, _known: ring.stored())


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write at once whatever waits."""
    due = lambda found: [uid for uid in found._waiting if uid not in found._writing]  # noqa: E731
    monkeypatch.setattr(JobDecisions, "_due", due)


def line_with(monkeypatch: pytest.MonkeyPatch, **fixed: object) -> None:
    """Let each line say something else."""
    line = Encoder.line
    monkeypatch.setattr(Encoder, "line", lambda *found, **words: line(*found, **words | fixed))


def forget_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    """Store snapshots without their pods."""
    line = Encoder.line
    monkeypatch.setattr(
        Encoder, "line", lambda found, saw, plan, **words: line(found, replace(saw, pods=()), plan, **words)
    )


@pytest.mark.parametrize(
    ("seed_bug", "said"),
    [
        (lose, "are lost, one by"),
        (hurry, "it was written at"),
        (lambda patch: line_with(patch, after_restart=False), "is of another process, and after_restart is False"),
        (lambda patch: line_with(patch, missed=3), "0 are lost, and it says 3"),
        (forget_pods, "is otherwise, by"),
    ],
)
def test_what_a_ring_does_wrong_is_found(
    monkeypatch: pytest.MonkeyPatch, seed_bug: Callable[[pytest.MonkeyPatch], None], said: str
):
    seed_bug(monkeypatch)
    found = [one.sentence for one in report_of_story().violations if one.oracle == "V17"]
    assert any(said in sentence for sentence in found), found
