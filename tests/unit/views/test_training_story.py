"""What `trainshed explain` says of a training that has reported."""

from __future__ import annotations

import pytest

from support.builders import a_job, at, pods_of, replace, run_policy, running, seen
from trainshed.api.signs import LateRank, Operations, RankAt, Signs, StackGroup, Stacks, Steps
from trainshed.api.status import ConditionType, Straggler
from trainshed.api.training import trainer_status
from trainshed.plan import conditions, plan
from trainshed.plan.facts import Facts
from trainshed.views import story, training_story

UNKNOWN = "which rank is behind is not known"
LOSS = ("loss", "0.31")


@pytest.mark.parametrize(
    ("metrics", "found", "sentence"),
    [
        (
            [LOSS],
            {"step": 520, "total_steps": 1000, "remaining_seconds": 480},
            "Training is at step 520 of 1000 (52 %), about 7m48s remain; loss 0.31; last report 12s ago.",
        ),
        ([], {"step": 1, "remaining_seconds": 5}, "Training is at step 1, about 0s remain; last report 12s ago."),
        ([], {"step": 7, "epoch": 1.5}, "Training is at step 7 in epoch 1.5; last report 12s ago."),
        ([], {"epoch": 2, "percentage": 20}, "Training is at epoch 2 (20 %); last report 12s ago."),
        ([], {"percentage": 20}, "Training is at 20 %; last report 12s ago."),
        (
            [("loss", "4.156444549560547"), ("current_step", "74"), ("epoch", "0.5"), ("rate", "2.125e-05")],
            {"step": 74},
            "Training is at step 74; loss 4.156, rate 2.125e-05; last report 12s ago.",
        ),
        (
            [("host", "node-a.example.com")],
            {"step": 7},
            "Training is at step 7; host node-a.example.com; last report 12s ago.",
        ),
        ([LOSS], {"remaining_seconds": 5}, "loss 0.31; last report 12s ago."),
    ],
)
def test_how_far_a_training_is_takes_one_sentence(metrics, found, sentence):
    assert training_lines(metrics, found) == (sentence,)


@pytest.mark.parametrize(
    ("state", "word"),
    [(ConditionType.SUCCEEDED, "was"), (ConditionType.SUSPENDED, "was"), (ConditionType.STALLED, "is")],
)
def test_the_last_report_of_a_job_that_does_not_train_stays_but_no_time_remains(state, word):
    found = {"step": 9, "total_steps": 10, "remaining_seconds": 50}
    assert training_lines([], found, state) == (f"Training {word} at step 9 of 10 (90 %); last report 12s ago.",)


def test_the_story_of_a_stalled_job_says_why_and_what_to_do():
    job = a_job("PyTorchJob", master=1, worker=1, hang_deadline=600)
    signs = Signs(Steps(at(0), 7, 1.0, 1.0))
    stalled = plan(replace(seen(job, *pods_of(job), status=running(job), now=at(600)), signs=signs)).status
    chapters = story.tell(Facts(seen(job, *pods_of(job), status=stalled, now=at(660))), {}).chapters
    lines = {chapter.title: chapter.lines for chapter in chapters}
    (words,) = lines["Stalled"]
    usual = f"a step takes 1 s as a rule, and is reported every 1 s; {UNKNOWN}"
    assert words == f"no progress for 11m, noticed 60s ago: no step since step 7 at 2026-01-01T12:00:00Z; {usual}"
    assert "Blocked" not in lines
    advice = lines["What to do"][0]
    assert advice.startswith("Look before it is restarted: steps show that a job hangs, and not which rank is")
    assert "hangs.ncclRas.enabled" in advice
    assert "trainshed.dev/hang-action: Restart" in advice


def test_the_rank_that_is_behind_comes_first_in_the_story_of_a_hang():
    job = a_job("PyTorchJob", master=1, worker=1, hang_deadline=600)
    late = LateRank(1, "10.0.0.1", 101, "AllReduce", 41, 42, "mnist-worker-0", "node-b")
    signs = Signs(operations=Operations(at(0), 12, True, (late,), 2))
    stalled = plan(replace(seen(job, *pods_of(job), status=running(job), now=at(600)), signs=signs)).status
    chapters = story.tell(Facts(seen(job, *pods_of(job), status=stalled, now=at(660))), {}).chapters
    lines = {chapter.title: chapter.lines for chapter in chapters}
    assert lines["Stalled"][0] == "rank 1 (mnist-worker-0 on node-b) is behind, and the others wait for it"
    assert "begin with the rank or the replica that is named above" in lines["What to do"][0]
    assert "Training" not in lines


def test_the_story_of_a_job_that_runs_again_after_a_hang_says_which_rank_was_behind_and_what_all_did():
    job = a_job("PyTorchJob", master=1, worker=1, hang_deadline=600, restarts_when_hung=True)
    late = LateRank(1, "10.0.0.1", 101, "AllReduce", 41, 42, "mnist-worker-0", "node-b")
    where = RankAt(1, "mnist-worker-0", "mnist-worker-0", "node-b")
    groups = (StackGroup(1, (where,), "load (data.py:9)"), StackGroup(1, (RankAt(0, "h"),), "all_reduce (c10d.py:7)"))
    signs = Signs(operations=Operations(at(0), 12, True, (late,), 2), stacks=Stacks(at(600), groups), asks=True)
    status = running(job)
    for second in (600, 601, 602):
        status = plan(replace(seen(job, *pods_of(job), status=status, now=at(second)), signs=signs)).status
    again = plan(seen(job, *pods_of(job, attempt=1), status=status, now=at(640))).status
    chapters = story.tell(Facts(seen(job, *pods_of(job, attempt=1), status=again, now=at(642))), {}).chapters
    lines = {chapter.title: chapter.lines for chapter in chapters}
    behind = "behind the other ranks: rank 1 (mnist-worker-0 on node-b, pid 101, AllReduce 41 of 42)"
    known = "rank 1 (mnist-worker-0 on node-b) is in load (data.py:9); rank 0 (host h) is in all_reduce (c10d.py:7)"
    still = f"NCCL RAS: no count has moved since 2026-01-01T12:00:00Z, in 12 answers; {behind}"
    assert lines["Failure"] == (
        f"41s ago: worker-0 made no progress 10m1s after start: {still}",
        f"| stacks: {known}",
        f"| {still}",
    )


def test_a_hang_that_steps_have_shown_blames_no_replica_and_no_node():
    job = a_job("PyTorchJob", master=1, worker=1, hang_deadline=600, restarts_when_hung=True)
    status, pods = running(job), [replace(pod, node="node-b") for pod in pods_of(job)]
    for second in (600, 601):
        signs = Signs(Steps(at(0), 7, 1.0))
        status = plan(replace(seen(job, *pods, status=status, now=at(second)), signs=signs)).status
    chapters = story.tell(Facts(seen(job, status=status, now=at(602))), {}).chapters
    lines = {chapter.title: chapter.lines for chapter in chapters}
    assert lines["History"][0] == "1s ago: the job made no progress after a run of 10m; 2 replicas were restarted"
    assert lines["Failure"][0].startswith("1s ago: the job made no progress: no step since step 7 at")
    assert "nothing shows which rank is the cause" in lines["What to do"][0]
    assert "node" not in " ".join(lines["What to do"])


@pytest.mark.parametrize(
    ("one", "sentence"),
    [
        (Straggler(1, "mnist-worker-0", "node-b"), "rank 1 (mnist-worker-0 on node-b) lags behind the others"),
        (Straggler(0, "", "node-b"), "rank 0 (node-b) lags behind the others"),
        (Straggler(9), "rank 9 lags behind the others"),
    ],
)
def test_ranks_that_lag_are_named_with_pod_and_node(one, sentence):
    job = a_job("PyTorchJob", master=1, worker=1)
    facts = Facts(seen(job, *pods_of(job), status=replace(running(job), stragglers=(one,)), now=at(12)))
    (lines,) = [chapter.lines for chapter in story.tell(facts, {}).chapters if chapter.title == "Training"]
    assert lines == (f"{sentence}, which wait for it",)


@pytest.mark.parametrize(
    ("deadline", "remaining", "early"),
    [
        (7200, 17_900, "3h"),
        (7200, 7259 - 100, ""),  # less than a minute
        (7200, 7460 - 100, ""),  # less than a twentieth of what remains
        (7200, 7600, "8m20s"),
        (None, 18_000, ""),
        (7200, None, ""),
    ],
)
def test_a_story_warns_in_time_of_a_deadline_that_stops_the_training_too_early(deadline, remaining, early):
    job = a_job("PyTorchJob", master=1, worker=1, policy=run_policy(deadline=deadline))
    report = trainer_status(at(100), step=7, remaining_seconds=remaining)
    status = replace(running(job), start=at(0), trainer=report)
    chapters = {
        one.title: one.lines
        for one in story.tell(Facts(seen(job, *pods_of(job), status=status, now=at(112))), {}).chapters
    }
    words = f"activeDeadlineSeconds stops it about {early} before its training ends"
    assert training_story.miss(status, deadline) == (words if early else "")
    (line,) = chapters.get("Deadline", ("",))
    assert line.startswith(words if early else "")
    assert ("activeDeadlineSeconds" in "".join(chapters["What to do"])) is bool(early)


def test_the_story_of_a_training_that_is_stopped_too_early_says_when_and_which_deadline_is_enough():
    job = a_job("PyTorchJob", master=1, worker=1, policy=run_policy(deadline=7200))
    status = replace(running(job), start=at(0), trainer=trainer_status(at(0), step=7, remaining_seconds=18_000))
    facts = Facts(seen(job, *pods_of(job), status=status, now=at(60)))
    chapters = {one.title: one.lines for one in story.tell(facts, {}).chapters}
    assert chapters["Deadline"][0].endswith(": the job is stopped in 119m, and the training needs about 4h59m more")
    assert '"activeDeadlineSeconds":19800}' in chapters["What to do"][0]


@pytest.mark.parametrize("kind", [ConditionType.STALLED, ConditionType.SUSPENDED, ConditionType.SUCCEEDED])
def test_no_time_is_known_that_a_training_needs_which_does_not_train(kind):
    job = a_job("PyTorchJob", master=1, worker=1)
    status = replace(running(job), start=at(0), trainer=trainer_status(at(0), step=7, remaining_seconds=18_000))
    ended = conditions.Condition(kind, True, "", "", at(1), at(1))
    assert training_story.miss(status, 60)
    assert training_story.miss(replace(status, conditions=(*status.conditions, ended)), 60) == ""


def training_lines(metrics, found, state=None):
    job = a_job("PyTorchJob", master=1, worker=1)
    status = replace(running(job), trainer=trainer_status(at(0), metrics, **found))
    if state:
        ended = conditions.Condition(state, True, "", "", at(1), at(1))
        status = replace(status, conditions=(ended,))
    chapters = story.tell(Facts(seen(job, *pods_of(job), status=status, now=at(12))), {}).chapters
    return next(chapter.lines for chapter in chapters if chapter.title == "Training")
