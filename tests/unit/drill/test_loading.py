"""Whether a job that began again had a checkpoint to load, by what was seen of two runs."""

from __future__ import annotations

import msgspec
import pytest

from support.drilled_runs import BASE, BEFORE, DRAFT, saved, seen, steps, verdict
from trainshed.drill.faults import (
    Evict,
    KillAll,
    KillInWrite,
    KillRank,
    LoseNode,
    OutOfMemory,
    Resize,
    Stall,
    Suspend,
)
from trainshed.drill.file_events import CLOSE_WRITE, CREATE, MODIFY, FileEvent
from trainshed.drill.observation import Ending, ReplicaEnd
from trainshed.drill.verdict import Cause, Grade

ALL = (KillRank, KillAll, Evict, LoseNode, OutOfMemory, Suspend, Stall, Resize, KillInWrite)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize(
    ("base", "files", "said"),
    [
        (BASE, (), "no checkpoint was there yet, of which the run without a fault wrote the first at step 10: nothing"),
        (msgspec.structs.replace(BASE, files=(), ending=Ending.LATE), (), "nor at step 60, where the run without a"),
    ],
)
def test_a_job_that_had_saved_nothing_yet_is_not_one_that_never_loads(kind, base, files, said):
    observation = seen(*steps(1, 3), *steps(1, 20, 32, 1), fault_at=2.5, files=files)
    found = verdict(kind(at_step=3), observation, base, loads=True)
    assert (found.grade, found.cause, found.lost_steps) == (Grade.UNSEEN, Cause.NO_CHECKPOINT_YET, 3)
    assert said in found.sentences[1]
    assert "let the fault come after the first checkpoint" in found.advice


DRAFTED = (FileEvent(2.1, DRAFT, CREATE), FileEvent(2.2, DRAFT, CLOSE_WRITE))
ASKED = ReplicaEnd(4.0, "job-worker-0", 143, asked=3.0, grace=10.0)


@pytest.mark.parametrize(
    ("files", "more", "cause"),
    [
        (saved(2.4), {}, Cause.NEVER_LOADS),
        (DRAFTED, {}, Cause.NO_CHECKPOINT_YET),
        (tuple(FileEvent(at, "/claims/ml/c/log", MODIFY, grown=True) for at in (0.5, 2)), {}, Cause.NO_CHECKPOINT_YET),
        (saved(2.7), {}, Cause.NO_CHECKPOINT_YET),
        (saved(3.5), {"ends": (ASKED,)}, Cause.NEVER_LOADS),
        (saved(33), {"ends": (ASKED,)}, Cause.NO_CHECKPOINT_YET),
        (saved(4.0), {"ends": (msgspec.structs.replace(ASKED, code=137, grace=0.9),)}, Cause.NO_CHECKPOINT_YET),
        (saved(2.4, renamed=False), {"cut": True}, Cause.NO_CHECKPOINT_YET),
        (saved(1.4, 2.4, renamed=False), {"cut": True}, Cause.NEVER_LOADS),
        ((), {"unseen_files": "too much"}, Cause.NO_CHECKPOINT_YET),
    ],
    ids=["saved", "draft", "log", "closed by the kill", "at SIGTERM", "later", "killed late", "cut", "twice", "unseen"],
)
def test_only_a_whole_checkpoint_from_before_the_new_start_could_have_been_loaded(files, more, cause):
    log = tuple(FileEvent(at, "/claims/ml/c/log", MODIFY, grown=True) for at in (0.5, 1.5, 2.5, 3.5))
    files += tuple(FileEvent(event.at + 0.01, event.path, CLOSE_WRITE) for event in files if event.grown)
    base = msgspec.structs.replace(BASE, files=(*log, *saved(9, 19)))
    observation = seen(*steps(1, 3), *steps(1, 20, 32, 1), fault_at=2.5, files=files, **more)
    assert verdict(KillRank(at_step=3), observation, base).cause is cause


def test_a_checkpoint_that_could_not_be_seen_is_taken_to_be_where_the_run_without_a_fault_had_one():
    later = seen(*BEFORE, *steps(1, 20, 32, 1), files=(), unseen_files="more was written than could be followed")
    assert verdict(KillRank(), later).cause is Cause.NEVER_LOADS
    blind = msgspec.structs.replace(BASE, files=(), unseen_files="this system is mute")
    found = verdict(KillRank(at_step=30), later, blind)
    assert (found.cause, "whether a checkpoint was there yet is not known, as this" in found.sentences[1]) == (
        Cause.NO_CHECKPOINT_YET,
        True,
    )


def test_what_is_wrong_otherwise_is_said_also_before_the_first_checkpoint():
    few = seen(*steps(1, 3), *steps(1, 20, 32, 1), fault_at=2.5, files=())
    assert verdict(KillRank(most_lost_steps=2), few).cause is Cause.TOO_MANY_LOST
    assert verdict(KillRank(most_lost_steps=3), few).cause is Cause.NO_CHECKPOINT_YET
    late = ReplicaEnd(12.6, "job-master-0", 137, asked=2.6, grace=10.0)
    found = verdict(Suspend(), msgspec.structs.replace(few, ends=(late,)))
    assert (found.grade, found.cause) == (Grade.FAILED, Cause.IGNORES_SIGTERM)


def test_a_job_that_loads_otherwise_and_begins_again_at_another_size_breaks_at_it():
    observation = seen(*BEFORE, *steps(1, 20, 32, 1))
    assert verdict(Resize(), observation, loads=True).cause is Cause.BREAKS_AT_OTHER_SIZE
    assert verdict(Resize(), observation, loads=False).cause is Cause.NEVER_LOADS
