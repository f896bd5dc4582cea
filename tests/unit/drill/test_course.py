"""What a drill does around its runs, which are played here: folders of checkpoints, links, and interruptions."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from support.local_runs import a_job
from trainshed import rendering
from trainshed.api.framework import JobDefaults
from trainshed.cli import local_jobs
from trainshed.drill import course
from trainshed.drill.checkpoints import found
from trainshed.drill.course import CappedText, Drill, DrillOptions, Interrupted
from trainshed.drill.faults import KillAll, KillInWrite, KillRank, Resize
from trainshed.drill.file_events import CLOSE_WRITE, FileEvent
from trainshed.drill.observation import Ending, Observation, StepReport
from trainshed.drill.verdict import Cause, Grade
from trainshed.local.options import Refused


def made(document):
    return local_jobs.made(document, rendering.rendered(document, "ml", JobDefaults()), "ml")


def steps(first: int, last: int, at: float = 0.0, attempt: int = 0):
    return tuple(StepReport(at + step - first, attempt, step, 1 / step) for step in range(first, last))


BASE = Observation(0, 30, Ending.OVER, "Succeeded", steps(1, 30))
SEEN = Observation(
    0,
    60,
    Ending.ENOUGH,
    "Running",
    (*steps(1, 16), *steps(12, 30, 40, 1)),
    fault_at=15.5,
    back_at=30,
    what="job-worker-0",
)


@pytest.fixture
def drill(tmp_path, monkeypatch) -> Callable[..., Drill]:
    """A function that makes a drill whose runs show these observations, each after an act of its job."""

    def make(*runs: Observation | None, act: Callable[[], object] = lambda: None, **options) -> Drill:
        left = list(runs)

        def play(given) -> int:
            act()
            given.director.observation = left.pop(0)
            given.stream.write("output\n")
            return 0

        monkeypatch.setattr(course.local_run, "run", play)
        monkeypatch.setattr(course, "_interruptible", lambda: None)
        fixed = {"faults": (KillRank(),), "state": tmp_path / "state", "make": made, "say": lambda _text: None}
        return Drill(made(a_job("train")), (), DrillOptions(**(fixed | options)))

    return make


def test_a_drill_that_is_passed_leaves_nothing(drill):
    done = drill(BASE, SEEN)
    outcome = done.run()
    assert (outcome.grade, outcome.kept, done.folder.exists()) == (Grade.PASSED, "", False)


def test_a_drill_that_is_not_passed_keeps_what_was_printed(drill):
    done = drill(BASE, BASE)
    outcome = done.run()
    assert (outcome.grade, outcome.kept) == (Grade.UNSEEN, str(done.folder))
    assert (done.folder / "2-kill-rank" / "output.txt").read_text() == "output\n"


def test_a_run_that_says_too_little_is_followed_by_no_fault(drill):
    [verdict] = drill(Observation(0, 30, Ending.OVER, "Succeeded", instead="said 42 %")).run().verdicts
    assert (verdict.cause, verdict.sentences[0][-9:]) == (Cause.NO_STEPS, "said 42 %")


@pytest.mark.parametrize(
    ("base", "said"),
    [
        (Observation(0, 9, Ending.OVER, "Failed", message="no data"), "without any fault: no data"),
        (Observation(0, 9, Ending.STUCK, "Restarting"), "it failed again and again"),
    ],
)
def test_a_job_that_fails_anyway_is_refused(drill, base, said):
    with pytest.raises(Refused, match=said):
        drill(base).run()


def test_checkpoints_are_moved_away_after_each_run_also_if_the_job_removes_their_folder(drill, tmp_path):
    saves, runs = tmp_path / "saves", []

    def save() -> None:
        runs.append([*saves.iterdir()])
        (saves / "model").write_text("x")
        if len(runs) == 2:
            (saves / "model").unlink()
            saves.rmdir()

    assert drill(BASE, SEEN, SEEN, act=save, saves=saves, faults=(KillRank(), KillAll())).run().grade is Grade.PASSED
    assert (runs, [*saves.iterdir()]) == ([[], [], []], [])


def test_what_a_link_leads_to_that_a_job_has_put_in_place_of_its_checkpoints_is_left_alone(drill, tmp_path):
    saves, mine = tmp_path / "saves", tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis").write_text("x")

    def replace() -> None:
        saves.rmdir()
        saves.symlink_to(mine)

    with pytest.raises(Refused, match=r"has replaced .*saves, which --checkpoints names, by a link"):
        drill(BASE, SEEN, act=replace, saves=saves).run()
    assert [path.name for path in mine.iterdir()] == ["thesis"]


def test_a_link_of_the_user_to_a_folder_is_followed(drill, tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "saves").symlink_to(tmp_path / "disk")
    assert drill(BASE, SEEN, saves=tmp_path / "saves").run().grade is Grade.PASSED
    (tmp_path / "disk" / "mine").touch()
    with pytest.raises(Refused, match="this is not empty"):
        drill(BASE, SEEN, saves=tmp_path / "saves")


def test_two_drills_do_not_share_a_folder_of_checkpoints(drill, tmp_path):
    first = drill(saves=tmp_path / "saves")
    with pytest.raises(Refused, match="another drill uses it"):
        drill(saves=tmp_path / "saves")
    os.close(first._lock)


@pytest.mark.parametrize("how", ["between", "within"])
def test_an_interruption_says_where_everything_is(drill, how):
    def interrupt() -> None:
        if how == "between":
            raise KeyboardInterrupt

    done = drill(None, act=interrupt)
    with pytest.raises(Interrupted, match=str(done.folder)):
        done.run()
    assert done.folder.is_dir()


@pytest.mark.parametrize("first", course.SIGNALS)
def test_the_signals_after_the_first_do_not_interrupt_the_end(first):
    before = {number: signal.getsignal(number) for number in course.SIGNALS}
    try:
        course._interruptible()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(first)
        for number in course.SIGNALS:
            signal.raise_signal(number)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_no_replica_that_is_not_there_is_struck(drill):
    with pytest.raises(Refused, match="there is no replica chief-0; there are job-master-0, job-worker-0"):
        drill(faults=(KillRank(replica="chief-0"),))


def test_without_time_nothing_more_is_tried(drill, monkeypatch):
    monkeypatch.setattr(course, "QUICK", 0.0)
    [verdict] = drill(BASE, quick=True).run().verdicts
    assert (verdict.cause, verdict.sentences) == (Cause.NO_TIME_LEFT, ("no time was left for it",))


def test_a_start_before_the_first_checkpoint_does_not_show_that_a_job_loads(drill):
    """What begins again in a write after it is no job whose checkpoint was torn."""
    files = tuple(FileEvent(at, "/claims/model", CLOSE_WRITE) for at in (9.5, 14.5))
    base = msgspec.structs.replace(BASE, files=files, folders=("/pods", "/claims"))
    again = (*steps(1, 16), *steps(1, 19, 40, 1))
    early = Observation(0, 60, Ending.ENOUGH, "Running", again, fault_at=2.5, back_at=30, what="job-worker-0")
    later = msgspec.structs.replace(early, files=files, folders=base.folders, fault_at=15.5, target="model", hit=True)
    early = msgspec.structs.replace(early, reports=(*steps(1, 4), *steps(1, 19, 40, 1)))
    verdicts = drill(base, early, later, faults=(KillAll(at_step=3), KillInWrite())).run().verdicts
    assert [verdict.cause for verdict in verdicts] == [Cause.NO_CHECKPOINT_YET, Cause.NEVER_LOADS]


@pytest.mark.parametrize(("replicas", "said"), [(1, "it has 1 already"), (None, "at step 16"), (2, "at step 16")])
def test_another_number_of_replicas_must_be_another_one(drill, replicas, said):
    seen = Observation(0, 60, Ending.ENOUGH, "Running", SEEN.reports, fault_at=15.5, back_at=30, what="2 in place of 1")
    [verdict] = drill(BASE, seen, faults=(Resize(replicas=replicas),)).run().verdicts
    assert said in verdict.sentences[0] or verdict.at_step == 15


def test_a_file_has_so_much_text_and_says_that_more_is_missing(tmp_path):
    with CappedText(tmp_path / "output.txt", 10) as file:
        assert [file.write(text) for text in ("12345", "6789\ud800", "more", "again")] == [5, 5, 4, 5]
    assert (tmp_path / "output.txt").read_text() == "123456789?what follows is left out: it is too much\n"
    assert (tmp_path / "output.txt").stat().st_mode & 0o777 == 0o600


def test_names_of_files_cannot_act_on_a_terminal_or_a_report():
    name = os.fsdecode(b"/claims/a\x1b[31m\n\xff" + b"x" * 240)
    [shown] = found((FileEvent(2, name, CLOSE_WRITE),), steps(1, 9), ("/pods", "/claims")).names
    assert (shown.isprintable(), shown[:3], len(shown)) == (True, "a x", 200)


def test_files_of_this_drill_are_private(drill):
    done = drill(BASE, BASE)
    done.run()
    assert {path.stat().st_mode & 0o077 for path in Path(done.folder).rglob("*")} == {0}
