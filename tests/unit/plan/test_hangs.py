"""A job is Stalled when its training does not advance, and a healthy one never, however it behaves."""

from __future__ import annotations

import pytest

from support.builders import a_job, a_pod, at, deleted, event_reasons, pods_of, replace, run_policy, running, seen
from trainshed.api.framework import JobDefaults
from trainshed.api.objects import NodeProblem, NodeReport
from trainshed.api.signs import LateRank, Operations, RankAt, Signs, StackGroup, Stacks, Steps
from trainshed.api.status import ConditionType, Status, Straggler
from trainshed.api.status_codec import parse_status, status_document
from trainshed.api.training import trainer_status
from trainshed.plan import plan
from trainshed.plan.messages import standstill

MINUTES = 60
JOB = a_job("PyTorchJob", master=1, worker=3, hang_deadline=10 * MINUTES)
RESTARTED = replace(JOB, restarts_when_hung=True)
LATE = LateRank(1, "10.0.0.1", 101, "AllReduce", 41, 42, "mnist-worker-0", "node-b")


def decide(signs: Signs, now: float, *, job=JOB, status: Status | None = None, pods=None):
    """The plan of a job whose pods run."""
    snapshot = seen(job, *(pods or pods_of(job)), status=status or running(job), now=at(now))
    return plan(replace(snapshot, signs=signs))


def steps(last: float, median: float = 2.0, gap: float = 20.0) -> Signs:
    return Signs(Steps(at(last), 1240, median, gap), watched=at(0))


def still(since: float, *late: LateRank, ranks: int = 4, hang: bool = True) -> Signs:
    return Signs(operations=Operations(at(since), 12, hang, late, ranks), watched=at(0))


def stalled(decision) -> str:
    """Why the job is Stalled, empty if it is not."""
    found = decision.status.condition(ConditionType.STALLED)
    return f"{found.reason}: {found.message}" if found else ""


def test_a_step_that_is_late_is_noticed_in_time_and_said_once():
    early = decide(steps(100), 699)
    assert (stalled(early), early.requeue_at) == ("", at(700))
    late = decide(steps(100), 700)
    assert stalled(late) == (
        "NoStep: no step since step 1240 at 2026-01-01T12:01:40Z; "
        "a step takes 2 s as a rule, and is reported every 20 s; which rank is behind is not known"
    )
    assert event_reasons(late) == ["PyTorchJobStalled"]
    assert standstill.is_unknown(late.status.condition(ConditionType.STALLED))
    again = decide(steps(100), 900, status=late.status)
    assert (again.status, event_reasons(again)) == (late.status, [])


def ranked(*ready: str, **ends: float) -> list:
    """The pods of a job of which these are ready, and some have ended in a while."""
    found = []
    for pod in pods_of(JOB):
        name = pod.name.removeprefix("mnist-")
        ended = {"phase": "Succeeded", "code": 0, "ended": end} if (end := ends.get(name.replace("-", "_"))) else {}
        found.append(replace(a_pod(name, node="node-c", container="pytorch", **ended), ready=name in ready))
    return found


REST = ("master-0", "worker-0", "worker-1")
BEHIND = Straggler(1, "mnist-worker-0", "node-b")


@pytest.mark.parametrize(
    ("pods", "signs", "words", "named"),
    [
        (ranked(*REST), steps(0), "every 20 s; worker-2 on node-c is not ready", ()),
        (ranked(*REST, worker_2=90.0), steps(0), "on node-c has ended since 2026-01-01T12:01:30Z, and others run", ()),
        (ranked(*REST, "worker-2"), steps(0), "every 20 s; which rank is behind is not known", ()),
        (ranked(), steps(0), "every 20 s; which rank is behind is not known", ()),
        (ranked(), replace(steps(0), asks=True), "is reported every 20 s", ()),
        (None, still(0, LATE, ranks=2), "rank 1 (mnist-worker-0 on node-b, pid 101, AllReduce 41 of 42)", (BEHIND,)),
        (ranked(*REST), still(0, LATE), "AllReduce 41 of 42); worker-2 on node-c is not ready", (BEHIND,)),
        (None, still(0, *[LATE] * 3), "mnist-worker-0 on node-b, pid 101, AllReduce 41 of 42)", ()),
        (None, still(0), "in 12 answers; which rank is behind is not known", ()),
    ],
)
def test_it_is_said_who_is_behind_or_that_it_is_not_known(pods, signs, words, named):
    decision = decide(signs, 600, pods=pods)
    assert stalled(decision).endswith(words)
    assert decision.status.stragglers == named


def test_the_ranks_that_are_behind_go_with_the_hang_and_stay_with_another_leader():
    known = decide(still(0, LATE), 600).status
    assert decide(Signs(), 610, status=known).status.stragglers == (BEHIND,)
    moves = decide(replace(steps(605), operations=Operations(at(605), 1)), 610, status=known)
    assert (stalled(moves), moves.status.stragglers) == ("", ())


def test_clients_of_v1_see_a_job_that_runs():
    late = decide(steps(100), 700).status
    document = status_document(late)
    assert [item["type"] for item in document["conditions"]] == ["Created", "Running"]
    assert (late.current_state, document["state"]) == ("Running", "Running")
    assert document["stalled"]["reason"] == "NoStep"
    assert parse_status({"status": document}).condition(ConditionType.STALLED) == late.condition(ConditionType.STALLED)


@pytest.mark.parametrize(
    ("signs", "words"),
    [
        (still(0, LATE), "behind the other ranks: rank 1 (mnist-worker-0 on node-b, pid 101, AllReduce 41 of 42)"),
        (still(0, replace(LATE, pod="")), "rank 1 (on node-b, pid 101, AllReduce 41 of 42)"),
        (still(0, replace(LATE, pod="", node="")), "rank 1 (host 10.0.0.1, pid 101, AllReduce 41 of 42)"),
        (still(0, *[LATE] * 3), "3 of 4 ranks are behind, such as rank 1"),
        (still(0, replace(LATE, count=2), *[LATE] * 6, ranks=8), "behind the other ranks: rank 1 "),
        (still(0), "NCCL RAS: no count has moved since 2026-01-01T12:00:00Z, in 12 answers"),
        (replace(still(0, LATE), steps=Steps(at(0), 5, 1.0)), "no step since step 5 at"),
    ],
)
def test_ranks_that_wait_for_each_other_are_named(signs, words):
    found = stalled(decide(signs, 600))
    assert found.startswith("RanksWait: ")
    assert words in found


@pytest.mark.parametrize(
    ("signs", "now"),
    [
        (Signs(), 99_999),
        (steps(0, median=200.0), 999),
        (steps(0, gap=200.0), 999),
        (Signs(watched=at(0)), 99_999),
        (still(0, LATE, hang=False), 99_999),
        (replace(still(0, LATE), steps=Steps(at(300), 5, 1.0)), 700),
        (replace(steps(0), operations=Operations(at(650), 1)), 1249),
    ],
    ids=[
        "no sign",
        "slow steps",
        "rare reports",
        "nothing heard",
        "counts are equal",
        "a step since",
        "operations since",
    ],
)
def test_without_a_sign_nothing_is_concluded(signs, now):
    assert stalled(decide(signs, now)) == ""


def test_ranks_that_stand_still_in_step_are_late_like_a_step():
    signs = replace(steps(0), operations=Operations(at(650), 1))
    assert decide(signs, 700).requeue_at == at(1250)
    assert stalled(decide(signs, 1250)).startswith("NoStep: no step since step")


def test_the_floor_holds_for_short_deadlines():
    job = replace(JOB, hang_deadline=1)
    assert not stalled(decide(steps(0, median=0.01, gap=5), 29, job=job))
    assert stalled(decide(steps(0, median=0.01, gap=5), 30, job=job))


@pytest.mark.parametrize(
    ("job", "pods"),
    [
        (replace(JOB, hang_deadline=None), None),
        (JOB, [replace(pods_of(JOB)[0], debugged=True), *pods_of(JOB)[1:]]),
        (JOB, pods_of(JOB, a_pod("worker-0", container="pytorch", started=705.0))),
        (JOB, pods_of(JOB, a_pod("worker-0", "Pending", container="pytorch", unschedulable="no room"))),
        (replace(JOB, policy=run_policy(suspend=True)), None),
    ],
    ids=["off", "debugged", "reported before the start", "blocked", "suspended"],
)
def test_a_job_in_which_no_hang_is_looked_for_is_not_stalled(job, pods):
    before = decide(steps(10), 700).status
    assert stalled(decide(steps(10), 700, job=job, pods=pods)) == ""
    assert stalled(decide(steps(10), 760, job=job, pods=pods, status=before)) == ""


@pytest.mark.parametrize(
    ("signs", "is_stalled"),
    [
        (steps(705), False),
        (replace(still(705), operations=Operations(at(705), 1)), False),
        (Signs(), True),
        (replace(still(0), operations=Operations(at(650), 1)), True),
    ],
    ids=["a step", "an operation", "another leader", "an operation before"],
)
def test_what_moves_again_is_not_stalled_any_more(signs, is_stalled):
    before = decide(steps(100), 700).status
    after = decide(signs, 710, status=before)
    assert bool(stalled(after)) == is_stalled


def test_a_hang_is_only_said_unless_a_restart_is_wanted():
    before = decide(still(0, LATE), 600).status
    assert deleted(decide(still(0, LATE), 660, status=before)) == []


def hung(job=RESTARTED, signs: Signs | None = None, now: float = 660):
    """The plan for a job whose hang is stored."""
    signs = signs or still(0, LATE)
    before = decide(signs, 600, job=job).status
    assert deleted(decide(signs, 600, job=job)) == []
    return decide(signs, now, job=job, status=before)


@pytest.mark.parametrize("scope", ["Auto", "Replica", "Role"])
def test_a_job_that_hangs_restarts_as_a_whole_once_that_is_stored(scope):
    decision = hung(RESTARTED if scope == "Auto" else replace(a_scoped(scope), restarts_when_hung=True))
    assert len(deleted(decision)) == 4
    failure = decision.status.failure
    assert (failure.kind, failure.reason, failure.replica, decision.status.retries.used) == (
        "Hang", "NoProgress", "worker-0", 1,
    )  # fmt: skip
    assert failure.message.startswith("worker-0 made no progress 11m after start: NCCL RAS: no count has moved")
    assert "Worker replica(s) made no progress." in decision.status.condition(ConditionType.RESTARTING).message
    assert event_reasons(decision) == ["PodFailed", "PyTorchJobRestarting"]
    assert stalled(decision) == ""


WORKER = RankAt(1, "mnist-worker-0", "mnist-worker-0", "node-b")
LOADS = StackGroup(1, (WORKER,), "load (data.py:9)")
WAITS = StackGroup(3, (RankAt(0, "vm"),), "all_reduce (c10d.py:3252)", "train (train.py:17)", waits=True)


def asking(*groups: StackGroup, error: str = "", hang: float = 600, signs: Signs | None = None) -> Signs:
    """What is known of a job whose ranks have been asked for their stacks; without groups and error they have not."""
    stacks = Stacks(at(hang), groups, error) if groups or error else None
    return replace(signs or still(0, LATE), stacks=stacks, asks=True)


@pytest.mark.parametrize(
    ("signs", "words"),
    [
        (
            asking(LOADS, WAITS),
            (
                "rank 1 (mnist-worker-0 on node-b) is in load (data.py:9); "
                "3 ranks are in all_reduce (c10d.py:3252) by train (train.py:17)"
            ),
        ),
        (asking(StackGroup(1, (WORKER,))), "rank 1 (mnist-worker-0 on node-b) has not answered"),
        (asking(StackGroup(2, (RankAt(5, "vm"),))), "2 ranks, such as rank 5 (host vm), have not answered"),
        (
            asking(replace(LOADS, count=2)),
            "2 ranks, such as rank 1 (mnist-worker-0 on node-b), are in load (data.py:9)",
        ),
        (asking(error="connection\x1b[2J\nrefused"), "connection refused"),
        (asking(WAITS, signs=steps(0)), "3 ranks are in all_reduce (c10d.py:3252) by train (train.py:17)"),
        (asking(*[replace(LOADS, place="f" * 120)] * 3), "…"),
    ],
)
@pytest.mark.parametrize("job", [JOB, RESTARTED], ids=["notify", "restart"])
def test_what_the_ranks_do_is_stored_and_said_before_a_job_restarts(job, signs, words):
    unread = replace(signs, stacks=None)
    before = decide(unread, 600, job=job).status
    waits = decide(unread, 660, job=job, status=before)
    assert (deleted(waits), waits.status, waits.requeue_at == at(690)) == ([], before, job is RESTARTED)
    read = decide(signs, 670, job=job, status=before)
    assert (deleted(read), event_reasons(read)) == ([], ["PyTorchJobStalled"])
    assert stalled(read).startswith(f"{stalled(waits)}; stacks: ")
    assert stalled(read).endswith(words)
    assert read.events[0].message.endswith(words)
    after = decide(signs, 671, job=job, status=read.status)
    if job is JOB:
        assert (after.status, after.events) == (read.status, ())
        return
    assert len(deleted(after)) == 4
    stored = parse_status({"status": status_document(after.status)}).failure
    evidence, _, found = stalled(read).partition(": ")[2].partition("; stacks: ")
    assert stored.termination_message == f"stacks: {found}\n{evidence}"


def test_what_another_leader_has_stored_of_the_ranks_is_kept_and_not_waited_for():
    before = decide(asking(), 600, job=RESTARTED).status
    before = decide(asking(LOADS, WAITS), 610, job=RESTARTED, status=before).status
    decision = decide(Signs(watched=at(60), asks=True), 661, job=RESTARTED, status=before)
    assert "rank 1 (mnist-worker-0 on node-b) is in load (data.py:9)" in decision.status.failure.termination_message


@pytest.mark.parametrize(
    "signs", [asking(), asking(LOADS, hang=300)], ids=["no answer", "the answer of an earlier hang"]
)
def test_a_restart_waits_only_so_long_for_what_the_ranks_do(signs):
    before = decide(signs, 600, job=RESTARTED).status
    assert deleted(decide(signs, 689, job=RESTARTED, status=before)) == []
    after = decide(signs, 690, job=RESTARTED, status=before)
    assert len(deleted(after)) == 4
    assert "stacks" not in after.status.failure.termination_message


@pytest.mark.parametrize(("groups", "replica"), [((LOADS, WAITS), "worker-0"), ((WAITS,), ""), ((LOADS,), "")])
def test_the_one_rank_that_does_something_else_is_the_culprit_of_a_hang(groups, replica):
    before = decide(steps(0), 600, job=RESTARTED).status  # by another leader, which cannot read stacks
    signs = asking(*groups, signs=steps(0))
    before = decide(signs, 610, job=RESTARTED, status=before).status
    assert "not known" not in before.condition(ConditionType.STALLED).message
    assert before.stragglers == ((BEHIND,) if replica else ())
    assert decide(signs, 611, job=RESTARTED, status=before).status.failure.replica == replica


LAGS = Straggler(1, "mnist-worker-0", "node-b")


def advancing(*slow: LateRank) -> Signs:
    """What is known of a job whose ranks advance, and some lag."""
    return Signs(operations=Operations(at(590), 1, ranks=4, slow=slow))


@pytest.mark.parametrize(
    ("signs", "known", "expected"),
    [
        (advancing(LATE), (), (LAGS,)),
        (advancing(replace(LATE, rank=3, pod=""), LATE), (), (LAGS, Straggler(3, "", "node-b"))),
        (advancing(), (LAGS,), ()),
        (Signs(operations=Operations(at(590), 1)), (LAGS,), (LAGS,)),
        (Signs(), (LAGS,), (LAGS,)),
    ],
    ids=["one", "two in their order", "none any more", "too few answers", "another leader"],
)
def test_ranks_that_lag_are_named_though_the_job_is_not_stalled(signs, known, expected):
    decision = decide(signs, 600, status=replace(running(JOB), stragglers=known))
    assert (decision.status.stragglers, stalled(decision)) == (expected, "")
    assert parse_status({"status": status_document(decision.status)}).stragglers == expected


def test_ranks_that_lag_cost_no_write_of_a_training_that_reports():
    before = replace(running(JOB), trainer=trainer_status(at(0), [], step=1))
    assert decide(advancing(LATE), 600, status=before).status == before
    snapshot = replace(seen(JOB, *pods_of(JOB), status=before, now=at(600)), signs=advancing(LATE))
    reported = plan(replace(snapshot, training=trainer_status(at(599), [], step=2)))
    assert reported.status.stragglers == (LAGS,)


def test_ranks_that_lag_go_with_a_restart():
    before = decide(replace(still(0, LATE), steps=None), 600, job=RESTARTED).status
    decision = decide(still(0, LATE), 660, job=RESTARTED, status=replace(before, stragglers=(LAGS,)))
    assert (len(deleted(decision)), decision.status.stragglers) == (4, ())


@pytest.mark.parametrize(("reads", "names"), [(True, ("node-b",)), (False, ())])
def test_what_a_node_says_is_read_before_a_job_that_hangs_there_restarts(reads, names):
    pods = [replace(pod, node="node-b") for pod in pods_of(JOB)]
    before = decide(still(0, LATE), 600, job=RESTARTED, pods=pods).status
    snapshot = seen(RESTARTED, *pods, status=before, now=at(660), job_defaults=JobDefaults(node_health=reads))
    snapshot = replace(snapshot, signs=still(0, LATE))
    assert plan(snapshot).nodes_to_read == names
    xid = NodeReport("node-b", (NodeProblem("XID 79", at(550)),))
    failure = plan(replace(snapshot, node_reports={"node-b": xid})).status.failure
    assert "worker-0 on node-b made no progress 11m after start (node-b failed meanwhile: XID 79)" in failure.message


def a_scoped(scope: str):
    return a_job("PyTorchJob", master=1, worker=3, hang_deadline=600, scope=scope)


def test_a_hang_counts_against_the_backoff_limit():
    decision = hung(replace(RESTARTED, policy=run_policy(backoff_limit=0)))
    assert "backoffLimit is 0; last failure: worker-0 made no progress" in decision.status.decisive.message
    assert (decision.status.limit_exceeded, decision.status.failure.kind) == ("backoffLimit", "Hang")


def test_steps_show_that_a_job_hangs_and_blame_no_replica_and_no_node():
    pods = [replace(pod, node="node-b") for pod in pods_of(JOB)]
    before = decide(steps(0), 600, job=RESTARTED, pods=pods).status
    decision = decide(steps(0), 601, job=RESTARTED, pods=pods, status=before)
    failure, (restart,) = decision.status.failure, decision.status.recent_restarts
    assert (failure.kind, failure.pod, failure.replica, failure.node) == ("Hang", "", "", "")
    assert failure.message.startswith("the job made no progress: no step since step 1240 at")
    assert (restart.replica, restart.node, event_reasons(decision)) == ("", "", ["PyTorchJobRestarting"])
    assert " is restarting because it made no progress." in decision.status.condition(ConditionType.RESTARTING).message
    again = [replace(pod, attempt=1, containers=()) for pod in pods_of(JOB)]
    waits = decide(Signs(), 640, job=RESTARTED, pods=again, status=decision.status)
    assert waits.status.recent_restarts[0].recovery_seconds is None
    again = pods_of(JOB, a_pod("master-0", container="pytorch", started=650.0), attempt=1)
    again = [replace(pod, attempt=1) for pod in again]
    assert (
        decide(Signs(), 660, job=RESTARTED, pods=again, status=waits.status).status.recent_restarts[0].recovery_seconds
        == 49
    )


@pytest.mark.parametrize(
    ("watched", "is_restarted"), [(None, False), (650, False), (60, True)], ids=["never", "just now", "long"]
)
def test_a_new_leader_listens_for_a_deadline_before_it_believes_another(watched, is_restarted):
    signs = Signs(watched=None if watched is None else at(watched))
    before = decide(still(0, LATE), 600, job=RESTARTED).status
    decision = decide(signs, 661, job=RESTARTED, status=before)
    assert bool(deleted(decision)) == is_restarted
    if watched == 650:
        assert decision.requeue_at == at(1250)


def test_a_job_that_moves_again_is_not_restarted():
    before = decide(steps(0), 600, job=RESTARTED).status
    decision = decide(replace(steps(650), watched=at(0)), 661, job=RESTARTED, status=before)
    assert (deleted(decision), stalled(decision)) == ([], "")
