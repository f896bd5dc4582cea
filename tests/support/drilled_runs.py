"""Runs of a drill as a test says them: steps, the writes of a checkpoint, and a run without a fault."""

from __future__ import annotations

from trainshed.drill.file_events import CLOSE_WRITE, CREATE, MODIFY, MOVED_FROM, MOVED_TO, FileEvent
from trainshed.drill.observation import Ending, Observation, StepReport
from trainshed.drill.verdict import judge

FOLDERS = ("/pods", "/claims")
MODEL, DRAFT = "/claims/ml/c/model.pt", "/claims/ml/c/draft.pt"


def steps(first: int, last: int, at: float = 0.0, attempt: int = 0, *, off: float = 0.0, gap: int = 1):
    """Reports of one step each second, from `at` on; the loss is 2 at step 0 and 1 at step 100."""
    numbers = range(first, last + 1, gap)
    return tuple(StepReport(at + i, attempt, step, 2 - step / 100 + off) for i, step in enumerate(numbers))


def saved(*at: float, path: str = MODEL, renamed: bool = True):
    """A checkpoint at some times, by a draft that is renamed or in place."""
    if not renamed:
        return tuple(FileEvent(time, path, kind) for time in at for kind in (MODIFY, CLOSE_WRITE))
    return tuple(
        event
        for time in at
        for event in (
            FileEvent(time, DRAFT, CREATE),
            FileEvent(time, DRAFT, CLOSE_WRITE),
            FileEvent(time, DRAFT, MOVED_FROM),
            FileEvent(time, path, MOVED_TO),
        )
    )


def seen(*reports: StepReport, ending: Ending = Ending.ENOUGH, state: str = "Running", **more) -> Observation:
    fields = {"fault_at": 29.5, "back_at": 31.0, "what": "job-worker-0", "files": saved(9, 19), "folders": FOLDERS}
    return Observation(0.0, 100.0, ending, state, reports=reports, **(fields | more))


BASE = seen(*steps(1, 60), ending=Ending.OVER, state="Succeeded", fault_at=None, files=saved(9, 19, 29, 39, 49))
BEFORE = steps(1, 30)


def verdict(fault, observation: Observation, base: Observation = BASE, **more):
    return judge(fault, base, observation, 0.1, **more)
