"""What the steps of a training say of it: how often it reports one, where it begins, and what it had saved."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import msgspec

from . import checkpoints
from .faults import AnyFault
from .observation import Ending, Observation, StepReport

#: The part of the gaps between reports that are one step where each is said: some lines may have been missed.
EACH = 0.9
#: What follows if there was no checkpoint to load.
NOTHING = "nothing is shown about loading"


def pace(reports: Sequence[StepReport]) -> int:
    """Return the steps from one report to the next, most often."""
    found = gaps(reports)
    return found.most_common(1)[0][0] if found else 1


def gaps(reports: Sequence[StepReport]) -> Counter[int]:
    """Return how often there are so many steps from one report to the next."""
    return Counter(second.step - first.step for first, second in pairwise(reports) if second.step > first.step)


class Start(msgspec.Struct, frozen=True):
    """What a start without a checkpoint looks like: at which step it was seen first, and how far that may be at most.

    A training that says each step begins with the same one. One that says a step each ten steps, or each five seconds,
    does not say where it has begun.
    """

    seen: int
    furthest: int
    gap: int

    @property
    def says_each_step(self) -> bool:
        """Whether each step is said."""
        return self.gap == 1


def scratch(base: Observation, seen: Observation) -> Start:
    """Return what the starts without a checkpoint of two runs have looked like."""
    before = seen.before
    firsts = [reports[0].step for reports in (base.reports, before) if reports]
    found = gaps(base.reports) + gaps(before)
    if found[1] >= EACH * found.total():
        return Start(max(firsts), max(firsts), 1)
    return Start(max(firsts), max(firsts) + max(found), max(found))


def middle(base: Observation) -> int:
    """Return a step in the middle of a run, after the first checkpoint."""
    first, last, gap = base.reports[0].step, base.reports[-1].step, pace(base.reports)
    saved = checkpoints.found(base.files, base.reports, base.folders).times[:1]
    known = [report.step for report in base.reports for time in saved if report.at <= time]
    saved_at = known[-1] + 2 * gap if known else first
    return max(first, min(max(first + (last - first) // 2, saved_at), last - 2 * gap))


def began_again(reports: Sequence[StepReport]) -> str:
    """Return that the steps of a container begin again by themselves, empty if they do not."""
    found = next((pair for pair in pairwise(reports) if pair[1].began_again), None)
    return f"after step {found[0].step} step {found[1].step} came without any fault" if found else ""


def saved_at(seen: Observation) -> int:
    """Return the step of the last checkpoint before the fault, 0 if none is known."""
    times = [at for at in checkpoints.found(seen.files, seen.reports, seen.folders).times if at <= (seen.fault_at or 0)]
    return max((report.step for report in seen.before for at in times[-1:] if report.at <= at), default=0)


def nothing_to_load(fault: AnyFault, base: Observation, seen: Observation) -> str:
    """Return why nothing is shown about loading: no checkpoint was there yet. Empty if there was one to load.

    A training whose run without a fault went to its end and has saved nothing has had its time for that.
    """
    if _had_checkpoint(base, seen):
        return ""
    if times := checkpoints.found(base.files, base.reports, base.folders).times:
        first = base.reports[bisect_right([report.at for report in base.reports], times[0]) - 1].step
        if seen.unseen_files and seen.before[-1].step > first:
            return ""
        return (
            f"no checkpoint was there yet, of which the run without a fault wrote the first at step {first}: {NOTHING}"
        )
    if base.unseen_files:
        why = f"whether a checkpoint was there yet is not known, as {base.unseen_files}"
        return "" if fault.at_step is None else f"{why}: {NOTHING}"
    last = base.reports[-1].step
    saved_none = f"no checkpoint was there yet, nor at step {last}, where the run without a fault was ended"
    return "" if base.ending is Ending.OVER else f"{saved_none}: {NOTHING}"


def _had_checkpoint(base: Observation, seen: Observation) -> bool:
    """Return whether a checkpoint was complete at the fault, or was saved at the SIGTERM that followed from it."""
    others = checkpoints.no_checkpoints(base.files, base.reports, base.folders)
    times = checkpoints.found(seen.files, seen.reports, seen.folders, others).times
    before = [at for at in times if at <= (seen.fault_at or 0)]
    if len(before) > seen.cut:  # the last one was emptied
        return True
    ends = [(end.asked or 0, min(end.at, (end.asked or 0) + end.grace)) for end in seen.asked]
    return any(asked <= at <= ended for asked, ended in ends for at in times)
