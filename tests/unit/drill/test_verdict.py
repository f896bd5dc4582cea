"""What a drill says of a job, by what it has seen of two runs."""

from __future__ import annotations

import math

import msgspec
import pytest

from support.drilled_runs import BASE, BEFORE, FOLDERS, MODEL, saved, seen, steps, verdict
from trainshed.drill.checkpoints import found, interval, logs, relative, was_last_in_place
from trainshed.drill.faults import (
    Evict,
    KillAll,
    KillInWrite,
    KillRank,
    Resize,
    Stall,
    Suspend,
)
from trainshed.drill.file_events import CREATE, MODIFY, FileEvent
from trainshed.drill.observation import Ending, ReplicaEnd, StepReport
from trainshed.drill.step_series import middle
from trainshed.drill.verdict import Cause, Grade, unjudgeable

CRASH = ReplicaEnd(40.0, "job-master-0", 1, "Error", last_line="KeyError: 'step'")


def test_a_job_that_goes_on_where_it_saved_passes():
    found = verdict(KillRank(), seen(*BEFORE, *steps(21, 40, 32, 1)))
    assert (found.grade, found.cause) == (Grade.PASSED, Cause.NONE)
    assert (found.at_step, found.resumed_at, found.lost_steps, found.seconds, found.loss) == (30, 21, 10, 2.5, 0.0)
    assert found.sentences == (
        "at step 30 job-worker-0 was killed",
        "it went on at step 21 after 2.5 s: 10 steps lost",
        "the loss continues as without a fault (off by 0.0% of its range)",
    )


def test_steps_that_are_not_all_printed_are_counted():
    base = seen(*steps(10, 200, gap=10), fault_at=None)
    found = verdict(KillAll(), seen(*steps(10, 300, gap=10), *steps(260, 400, 32, 1, gap=10)), base)
    assert (found.at_step, found.resumed_at, found.lost_steps) == (300, 260, 50)


def test_more_lost_steps_than_the_script_permits_fail():
    found = verdict(KillRank(most_lost_steps=9), seen(*BEFORE, *steps(21, 40, 32, 1)))
    assert (found.grade, found.cause) == (Grade.FAILED, Cause.TOO_MANY_LOST)
    assert verdict(KillRank(most_lost_steps=10), seen(*BEFORE, *steps(21, 40, 32, 1))).grade is Grade.PASSED


@pytest.mark.parametrize(
    ("base", "said"),
    [
        (BASE, "it saves model.pt, and does not load it"),
        (msgspec.structs.replace(BASE, files=()), "no checkpoint in its volumes (--checkpoints names another folder)"),
        (msgspec.structs.replace(BASE, files=(), unseen_files="this system is mute"), "as this system is mute"),
        (
            msgspec.structs.replace(BASE, files=saved(9, path="/pods/uid/scratch/model.pt")),
            "it saves model.pt in a volume that ends with its pod",
        ),
    ],
)
def test_a_job_that_begins_again_never_loads(base, said):
    found = verdict(KillRank(), seen(*BEFORE, *steps(1, 20, 32, 1)), base)
    assert (found.grade, found.cause, found.lost_steps) == (Grade.FAILED, Cause.NEVER_LOADS, 30)
    assert said in found.sentences[1]


@pytest.mark.parametrize(("loads", "cause"), [(True, Cause.TORN_CHECKPOINT), (False, Cause.NEVER_LOADS)])
def test_only_a_job_that_loads_otherwise_has_a_torn_checkpoint_if_it_begins_again(loads, cause):
    observation = seen(*BEFORE, *steps(1, 20, 32, 1), target="model.pt", hit=True)
    assert verdict(KillInWrite(), observation, loads=loads).cause is cause


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        (KillInWrite(), Cause.TORN_CHECKPOINT),
        (Resize(), Cause.BREAKS_AT_OTHER_SIZE),
        (KillRank(), Cause.FAILS_AFTER_RESTART),
    ],
)
@pytest.mark.parametrize("more", [(), steps(0, 0, 39, 1)], ids=["", "a line of the error"])
def test_a_job_that_fails_after_its_restart_says_how(fault, cause, more):
    killed = ReplicaEnd(30.0, "job-worker-0", 137)
    found = verdict(fault, seen(*BEFORE, *more, ending=Ending.OVER, state="Failed", ends=(killed, CRASH)))
    assert (found.grade, found.cause) == (Grade.FAILED, cause)
    assert "job-master-0 ended with exit code 1: KeyError: 'step'" in found.sentences[1]


@pytest.mark.parametrize(("restarted", "cause"), [(True, Cause.FAILS_AFTER_RESTART), (False, Cause.NOT_RETRIED)])
def test_what_fails_while_it_is_asked_to_end_has_crashed_if_it_was_started_after_the_fault(restarted, cause):
    """One replica that fails ends the others, which may just be failing, too."""
    crash = msgspec.structs.replace(CRASH, asked=39.9, grace=30.0, restarted=restarted)
    found = verdict(KillRank(), seen(*BEFORE, ending=Ending.OVER, state="Failed", ends=(crash,)))
    assert found.cause is cause


def test_a_job_that_fails_without_a_restart_is_not_retried():
    killed = ReplicaEnd(30.0, "job-worker-0", 137)
    found = verdict(KillRank(), seen(*BEFORE, ending=Ending.OVER, state="Failed", ends=(killed,), message="failed."))
    assert found.cause is Cause.NOT_RETRIED
    assert found.sentences[1] == "the job failed and was not retried: failed."


@pytest.mark.parametrize(
    ("reports", "state", "cause"),
    [
        ((), "Running", Cause.DOES_NOT_GO_ON),
        (steps(50, 60, 32, 1), "Running", Cause.DOES_NOT_GO_ON),
        (steps(21, 40, 32, 1), "Failed", Cause.FAILS_AFTER_RESTART),
    ],
)
def test_a_job_that_stands_still_skips_steps_or_fails_later_fails(reports, state, cause):
    ending = Ending.OVER if state == "Failed" else Ending.LATE
    found = verdict(KillRank(), seen(*BEFORE, *reports, ending=ending, state=state))
    assert (found.grade, found.cause) == (Grade.FAILED, cause)


@pytest.mark.parametrize(
    ("reports", "ended", "start", "cause", "said"),
    [
        ((), 30.5, 0, Cause.NO_TIME_LEFT, "no further step came within 1 s, when the time was over"),
        ((), 60, 0, Cause.DOES_NOT_GO_ON, "no further step came within 30 s"),
        ((), 60, -10, Cause.NO_TIME_LEFT, "no further step came within 30 s, when"),
        (steps(21, 21, 32, 1), 100, 0, Cause.NO_TIME_LEFT, "only one further step came within 70 s, when"),
    ],
)
def test_a_job_that_had_no_time_to_go_on_is_not_blamed(reports, ended, start, cause, said):
    observation = msgspec.structs.replace(seen(*BEFORE, *reports, ending=Ending.LATE), ended=ended)
    found = verdict(KillRank(), observation, msgspec.structs.replace(BASE, began=start))
    assert (found.cause, said in found.sentences[1]) == (cause, True), found.sentences


def test_a_job_that_is_over_too_soon_is_not_passed():
    found = verdict(Suspend(), seen(*BEFORE, ending=Ending.OVER, state="Succeeded"))
    assert (found.grade, found.cause) == (Grade.UNSEEN, Cause.OVER_TOO_SOON)
    assert verdict(Stall(), seen(*BEFORE, ending=Ending.OVER, state="Succeeded")).grade is Grade.PASSED


def test_a_replica_that_reports_on_was_not_restarted():
    found = verdict(Stall(), seen(*steps(1, 40)))
    assert found.grade is Grade.PASSED
    assert "was not restarted, and went on to step 40" in found.sentences[1]


@pytest.mark.parametrize(("off", "grade"), [(0.05, Grade.PASSED), (0.2, Grade.FAILED), (math.nan, Grade.FAILED)])
def test_the_loss_is_compared_with_the_run_without_a_fault(off, grade):
    found = verdict(KillRank(), seen(*BEFORE, *steps(21, 40, 32, 1, off=off)))
    assert (found.grade, found.cause) == (grade, Cause.LOSS_JUMPS if grade is Grade.FAILED else Cause.NONE)


def test_another_number_of_replicas_may_change_the_loss():
    found = verdict(Resize(), seen(*BEFORE, *steps(21, 40, 32, 1, off=0.2)))
    assert found.grade is Grade.PASSED
    assert "which another number of replicas may explain" in found.sentences[2]


def test_losses_that_are_not_there_are_said_to_be_unseen():
    mute = tuple(msgspec.structs.replace(report, loss=None) for report in steps(21, 40, 32, 1))
    found = verdict(KillRank(), seen(*BEFORE, *mute))
    assert (found.grade, found.loss) == (Grade.PASSED, None)
    assert found.sentences[2] == "whether the loss continues could not be seen"
    constant = msgspec.structs.replace(BASE, reports=tuple(msgspec.structs.replace(r, loss=1.0) for r in BASE.reports))
    assert verdict(KillRank(), seen(*BEFORE, *steps(21, 40, 32, 1)), constant).cause is Cause.LOSS_JUMPS


LATE = ReplicaEnd(39.6, "job-master-0", 137, asked=29.6, grace=10.0)


@pytest.mark.parametrize(
    ("fault", "end", "cause", "sigterm"),
    [
        (Suspend(), LATE, Cause.IGNORES_SIGTERM, "ignored"),
        (Evict(), LATE, Cause.IGNORES_SIGTERM, "ignored"),
        (KillRank(), LATE, Cause.NONE, "ignored"),
        (Suspend(), msgspec.structs.replace(LATE, code=143, at=30.0), Cause.NONE, "not used"),
        (Suspend(), msgspec.structs.replace(LATE, code=0, at=30.0), Cause.NONE, "not used"),
        (KillAll(), msgspec.structs.replace(LATE, at=30.0), Cause.NONE, ""),
    ],
)
def test_sigterm_is_used_or_not_or_ignored(fault, end, cause, sigterm):
    found = verdict(fault, seen(*BEFORE, *steps(21, 40, 42, 1), ends=(end,)))
    assert (found.cause, found.sigterm) == (cause, sigterm)
    assert found.deadline_kept is {"ignored": False, "": None}.get(sigterm, True)


def test_what_is_saved_after_sigterm_is_its_use():
    end = ReplicaEnd(31.0, "job-master-0", 143, asked=29.6, grace=10.0)
    found = verdict(Suspend(), seen(*BEFORE, *steps(31, 40, 42, 1), ends=(end,), files=saved(30)))
    assert (found.sigterm, found.deadline_kept, found.lost_steps) == ("used", True, 0)
    assert "no steps lost" in found.sentences[1]


@pytest.mark.parametrize(
    ("observation", "cause", "said"),
    [
        (seen(*BEFORE, fault_at=None, ending=Ending.OVER), Cause.NEVER_CAME, "the job was over before the fault could"),
        (seen(fault_at=None, ending=Ending.LATE), Cause.NEVER_CAME, "it reported no step"),
        (seen(*BEFORE, fault_at=None, missed="no room"), Cause.NEVER_CAME, "no room"),
        (seen(*steps(20, 30), *steps(21, 40, 32, 1)), Cause.UNKNOWN_CHECKPOINT, "the job began at step 20 although"),
        (seen(*steps(1, 9, 40)), Cause.NO_STEPS, "no step was reported before the fault"),
    ],
)
def test_what_was_not_seen_is_not_passed(observation, cause, said):
    found = verdict(KillRank(), observation)
    assert (found.grade, found.cause) == (Grade.UNSEEN, cause)
    assert said in found.sentences[0]


def test_a_write_that_never_came_is_not_passed():
    found = verdict(KillInWrite(), seen(*BEFORE, fault_at=None, unseen_files="this system is mute"))
    assert found.sentences == ("nothing that looks like a checkpoint was written until step 30 (this system is mute)",)


@pytest.mark.parametrize(("renamed", "grade"), [(True, Grade.PASSED), (False, Grade.UNSEEN)])
def test_a_write_that_could_not_be_hit_is_only_passed_if_files_are_renamed(renamed, grade):
    base = msgspec.structs.replace(BASE, files=saved(9, 19, 29, renamed=renamed))
    found = verdict(KillInWrite(), seen(*BEFORE, *steps(21, 40, 32, 1), target="model.pt"), base)
    assert found.grade is grade
    assert "no write lasted long enough to be hit" in found.sentences[-1]
    assert "killed right after model.pt was written" in found.sentences[0]


@pytest.mark.parametrize(
    ("how", "said"), [({"hit": True}, "while model.pt was being written"), ({"cut": True}, "emptied")]
)
def test_a_write_that_was_hit_or_emptied_is_passed(how, said):
    found = verdict(KillInWrite(), seen(*BEFORE, *steps(21, 40, 32, 1), target="model.pt", **how))
    assert found.grade is Grade.PASSED
    assert said in found.sentences[0]


def test_a_fault_comes_in_the_middle_and_after_the_first_checkpoint():
    assert middle(BASE) == 30
    assert middle(msgspec.structs.replace(BASE, files=saved(39))) == 42
    assert middle(msgspec.structs.replace(BASE, files=saved(59))) == 58
    assert middle(msgspec.structs.replace(BASE, files=())) == 30


def grown(path: str, *at: float):
    return (FileEvent(0.0, path, CREATE), *(FileEvent(time, path, MODIFY, grown=True) for time in at))


def test_what_only_grows_is_a_log_and_no_checkpoint():
    log, once = "/claims/ml/c/train.log", "/claims/ml/c/step-9.pt"
    files = (*grown(log, 3.5, 4.5, 5.5, 6.5), *grown(once, 9.1, 9.2, 9.3), *saved(9, renamed=False))
    assert logs(files, BASE.reports, FOLDERS) == {"1/ml/c/train.log"}
    assert found(files, BASE.reports, FOLDERS).names == ("model.pt",)


def test_a_checkpoint_that_is_written_again_where_it_is_is_no_log():
    again = [FileEvent(time, MODEL, MODIFY, rewritten=True) for time in (3.5, 4.5, 5.5, 6.5)]
    again += grown(MODEL, 3.6, 4.6, 5.6, 6.6)[1:]
    assert logs((FileEvent(0, MODEL, CREATE), *again), BASE.reports, FOLDERS) == frozenset()


def test_checkpoints_are_distinguished_from_what_a_kubelet_writes():
    files = (*saved(9, 19), *saved(5, path="/pods/uid/main.termination", renamed=False), *saved(0.0 - 1))
    kept = found(files, BASE.reports, FOLDERS)
    assert (kept.names, kept.times, kept.renamed, kept.with_pod) == (("model.pt",), (9, 19), True, False)
    assert found(files, (), FOLDERS).times == found((), BASE.reports, FOLDERS).times == ()
    assert interval(files, BASE.reports, FOLDERS) == 10
    assert interval(files, (), FOLDERS) == 0
    assert relative("/else/where", FOLDERS) == "/else/where"
    assert relative("/pods/uid/v/a", FOLDERS) == "0/*/v/a"


def test_only_the_last_file_that_was_written_in_place_may_be_emptied():
    assert was_last_in_place(saved(9, renamed=False), MODEL)
    assert not was_last_in_place((*saved(9, renamed=False), *saved(9, path="/claims/latest", renamed=False)), MODEL)
    assert not was_last_in_place(saved(9), MODEL)
    assert not was_last_in_place((), MODEL)


#: Steps as of a training that says one each second: where it begins is not seen.
SOMETIMES = (3, 8, 12, 17, 23, 28, 33)


def sometimes(*numbers: int, at: float = 0.0, attempt: int = 0, **more):
    return tuple(StepReport(at + i, attempt, step, 1.0, **more) for i, step in enumerate(numbers))


@pytest.mark.parametrize(
    ("first", "files", "cause", "said"),
    [
        (3, saved(5.5), Cause.NEVER_LOADS, "it began again at step 3"),
        (8, saved(5.5), Cause.NEVER_LOADS, "it began again at step 8"),
        (8, (), Cause.TOO_FEW_REPORTS, "may be seen first between step 3 and 9, too"),
        (8, saved(1.5), Cause.TOO_FEW_REPORTS, "its first step after the fault was 8, and whether it began again"),
        (31, saved(5.5), Cause.NONE, "it went on at step 31 after 2.5 s: about 7 steps lost"),
        (44, saved(5.5), Cause.NONE, "it went on at step 44 after 2.5 s: no steps lost"),
        (46, saved(5.5), Cause.DOES_NOT_GO_ON, "although 33 was the last one before"),
    ],
)
def test_where_a_training_begins_that_says_a_step_sometimes_is_not_guessed(first, files, cause, said):
    base = seen(*sometimes(*SOMETIMES, 39), fault_at=None, files=saved(2.5, 5.5) if files else ())
    after = sometimes(first, first + 5, first + 11, at=32, attempt=1)
    found = verdict(KillRank(), seen(*sometimes(*SOMETIMES), *after, files=files), base)
    assert found.cause is cause
    assert said in found.sentences[1]
    assert found.grade is {Cause.NONE: Grade.PASSED, Cause.TOO_FEW_REPORTS: Grade.UNSEEN}.get(cause, Grade.FAILED)


def test_a_first_step_before_which_lines_were_not_read_says_nothing():
    after = (StepReport(32, 1, 21, 1.79, skipped=True), *steps(22, 40, 33, 1))
    found = verdict(KillRank(), seen(*BEFORE, *after))
    assert (found.grade, found.cause) == (Grade.UNSEEN, Cause.TOO_FEW_REPORTS)
    assert "more was printed than is read" in found.sentences[1]


def test_no_lost_steps_of_a_training_that_says_few_are_no_use_of_sigterm():
    end = ReplicaEnd(31.0, "job-master-0", 0, asked=29.6, grace=10.0)
    base = seen(*steps(10, 200, gap=10), fault_at=None)
    observation = seen(*steps(10, 300, gap=10), *steps(310, 400, 32, 1, gap=10), ends=(end,))
    assert verdict(Suspend(), observation, base).sigterm == "not used"


AGAIN = (StepReport(2, 1, 1, began_again=True), StepReport(3, 1, 2))


@pytest.mark.parametrize(
    ("reports", "cause", "said"),
    [
        (BASE.reports, None, ""),
        ((), Cause.NO_STEPS, "no step was seen in the run without a fault (enough was seen): it has said 42 %"),
        (steps(1, 1), Cause.TOO_FEW_REPORTS, "only 1 step was seen in the run without a fault; 6 are needed"),
        (steps(1, 5), Cause.TOO_FEW_REPORTS, "only 5 steps were seen"),
        ((*steps(1, 9), *AGAIN), Cause.BEGINS_AGAIN, "after step 9 step 1 came without any fault"),
    ],
)
def test_no_fault_is_judged_by_a_run_that_says_too_little(reports, cause, said):
    found = unjudgeable(seen(*reports, fault_at=None, instead="it has said 42 %"))
    assert (found[0] if found else None) is cause
    assert said in (found[1] if found else "")


def test_steps_that_begin_again_before_the_fault_are_not_judged():
    assert verdict(KillRank(), seen(*steps(1, 9), *AGAIN, *steps(3, 9, 40, 2))).cause is Cause.BEGINS_AGAIN
