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


def of_kind(kind: str, role: str, count: int, seconds: int | None = None) -> Step:
    """Return the creation of a job that asks, with a deadline."""
    policy = () if seconds is None else (("activeDeadlineSeconds", seconds),)
    return Step(
        0.0, "create", how=JobRequest(kind, "a", ((role, count),), "Always", policy, annotations=ASKS.annotations)
    )


#: What is no fault of a ring, though decisions are stored late, in another order, or not at all.
FAULTLESS = {
    "SIGTERM kills a process that begins": Schedule(
        seed=2848723157, gang="volcano", steps=(of_kind("PyTorchJob", "Worker", 1, 1), Step(0.0, "stop", how=0.0))
    ),
    "a process that ends while it does not reach the server stores nothing": Schedule(
        seed=3026467074,
        steps=(of_kind("JAXJob", "Worker", 2, 1), Step(0.0, "partition", 7, 40.0), Step(13.549, "stop", 2, 3.0)),
    ),
    "a process that ends writes what waits": Schedule(
        seed=274202797,
        steps=(
            Step(0.0, "create", how=JobRequest("TFJob", "a", (("Worker", 1),), annotations=ASKS.annotations)),
            Step(0.006, "set field", 5, ("tfReplicaSpecs.Worker.restartPolicy", "Always")),
            Step(0.125, "stop", 6, 3.0),
            Step(0.078, "set field", 2, ("tfReplicaSpecs.Worker.replicas", 2)),
            Step(2.725, "stop", 6, 3.0),
            Step(2.397, "oom", how=137),
            Step(1.303, "stop", 2, 3.0),
        ),
    ),
    "what is decided while others wait for their write waits as well": Schedule(
        seed=4248030450,
        steps=(
            of_kind("PyTorchJob", "Worker", 3),
            Step(22.986, "restart container", 4, 1),
            Step(1.338, "forge status", 4, "verdict"),
        ),
    ),
    "two processes that lead for a moment store what they have decided one after the other": Schedule(
        seed=430783326,
        operators=2,
        gang="volcano",
        steps=(of_kind("XGBoostJob", "Master", 1, 1), Step(0.024, "delete lease", 6)),
    ),
    "a process that has not heard of a deletion begins a ring for the job that is gone": Schedule(
        seed=1279168805,
        operators=2,
        gang="volcano",
        steps=(
            of_kind("JAXJob", "Worker", 2),
            Step(0.193, "not ready"),
            Step(0.022, "recover nodes", 4),
            Step(0.555, "disrupt", 7, "PreemptionByScheduler"),
            Step(0.337, "recover nodes", 6),
            Step(2.397, "recover nodes", 4),
            Step(0.026, "delete lease", 1),
            Step(10.685, "recreate job", 6, "Foreground"),
            Step(0.0, "pause watch", 4),
        ),
    ),
    "two processes that lead for a moment decide the same about snapshots that differ": Schedule(
        seed=156515337,
        operators=2,
        steps=(
            Step(
                0.0,
                "create",
                how=JobRequest(
                    "XGBoostJob",
                    "a",
                    (("Master", 1),),
                    "Always",
                    (("cleanPodPolicy", "Running"),),
                    annotations=(
                        ("trainshed.dev/restart-scope", "Job"),
                        ("trainshed.dev/track-results", "true"),
                        ("trainshed.dev/services", "Job"),
                        (RECORD, "Decisions"),
                    ),
                ),
            ),
            Step(2.195, "delete service", 7),
            Step(0.346, "reject", 2, "OutOfmemory"),
            Step(2.384, "recover nodes", 1),
            Step(0.192, "restart container", 4, 137),
            Step(79.916, "reject", 2, "Evicted"),
            Step(0.712, "delete lease", 1),
        ),
    ),
}
#: The server throttles a write for longer than the operator that ends waits for its reconciles.
THROTTLED_AT_END = Schedule(
    seed=625556203,
    gang="volcano",
    steps=(
        Step(
            0.0,
            "create",
            how=JobRequest(
                "TFJob",
                "a",
                (("PS", 2), ("Worker", 1)),
                "Always",
                (("cleanPodPolicy", "None"),),
                annotations=(*ASKS.annotations, ("trainshed.dev/force-delete-after", "1m")),
            ),
        ),
        Step(8.794, "fail write", how=(2, 429, "after")),
        Step(1.896, "reject", 4, "Evicted"),
        Step(0.333, "stop", 6, 0.0),
    ),
)


def test_an_operator_that_ends_records_what_it_has_decided_though_a_reconcile_is_broken_off():
    assert run(THROTTLED_AT_END).violations == ()


@pytest.mark.parametrize("claim", FAULTLESS)
def test_what_is_no_fault_of_a_ring_is_not_reported(claim: str):
    assert run(FAULTLESS[claim]).violations == ()


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
