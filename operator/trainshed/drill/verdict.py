"""Judges a run under a fault by what was seen of it and of a run without one: pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from statistics import median

import msgspec

from trainshed.plan.messages.phrases import plural

from . import checkpoints
from .faults import FEWEST, AnyFault, Evict, KillInWrite, Resize, Stall, Suspend
from .observation import KILLED, TERMINATED, Observation, ReplicaEnd, StepReport
from .step_series import Start, began_again, nothing_to_load, pace, saved_at, scratch

UNHANDLED = (
    "SIGTERM ended it and nothing was saved; if it has no handler, as process 1 of a container it runs on until it is"
    " killed"
)
CUT = ", which no kill could hit, and the file was emptied, as a kill during the write leaves it"
#: How many reports after a fault are compared with the run without one.
COMPARED = 8
#: For so many seconds, and for so many times as long as its first start took, a job is given time to go on.
PATIENCE, STARTS = 30.0, 5


class Grade(StrEnum):
    """What a fault has shown. What could not be seen is not passed."""

    PASSED = "passed"
    FAILED = "failed"
    UNSEEN = "not seen"


class Cause(StrEnum):
    """Why a fault was not passed, for programs."""

    NONE = ""
    NO_STEPS = "NoSteps"
    NEVER_CAME = "FaultNeverCame"
    NEVER_HIT = "WriteNeverHit"
    OVER_TOO_SOON = "OverTooSoon"
    NO_TIME_LEFT = "NoTimeLeft"
    TOO_FEW_REPORTS = "TooFewReports"
    BEGINS_AGAIN = "StepsBeginAgain"
    UNKNOWN_CHECKPOINT = "UnknownCheckpoint"
    NO_CHECKPOINT_YET = "NoCheckpointYet"
    NOT_RETRIED = "NotRetried"
    FAILS_AFTER_RESTART = "FailsAfterRestart"
    DOES_NOT_GO_ON = "DoesNotGoOn"
    NEVER_LOADS = "NeverLoadsCheckpoint"
    TORN_CHECKPOINT = "TornCheckpoint"
    IGNORES_SIGTERM = "IgnoresSigterm"
    BREAKS_AT_OTHER_SIZE = "BreaksAtOtherSize"
    TOO_MANY_LOST = "TooManyStepsLost"
    LOSS_JUMPS = "LossJumps"


ADVICE = {
    Cause.NO_STEPS: "print a line such as `step=10/100 loss=0.5` from the replica that leads, or report the progress"
    " (docs/progress.md)",
    Cause.TOO_FEW_REPORTS: "say the step more often, best each one, or let it run longer: without --quick, with a later"
    " --steps",
    Cause.BEGINS_AGAIN: "say steps that count from the start of the training, or the epoch with the number of steps in"
    " it: `epoch 2/5 step=10/100 loss=0.5`",
    Cause.OVER_TOO_SOON: "give it more steps, or an earlier fault (atStep in a script)",
    Cause.NO_TIME_LEFT: "give it more time: leave out --quick, or give a longer --timeout",
    Cause.UNKNOWN_CHECKPOINT: "name the folder with its checkpoints with --checkpoints, and empty it",
    Cause.NO_CHECKPOINT_YET: "let the fault come after the first checkpoint: save earlier, give a later step (atStep in"
    " a script), or leave out --quick and --steps, so that the run without a fault goes to the end",
    Cause.NOT_RETRIED: "set restartPolicy to OnFailure, or to ExitCode, which retries after exit codes from 128",
    Cause.NEVER_LOADS: "load the newest checkpoint when the program starts, from a volume that outlives the pod",
    Cause.TORN_CHECKPOINT: "write each checkpoint to a new file in the same folder and rename it when it is complete",
    Cause.IGNORES_SIGTERM: "handle SIGTERM: save, and exit within terminationGracePeriodSeconds",
    Cause.BREAKS_AT_OTHER_SIZE: "take the number of replicas from the environment at each start, and not from the"
    " checkpoint",
    Cause.TOO_MANY_LOST: "save more often",
    Cause.LOSS_JUMPS: "save and load the optimizer, the schedule and the place in the data besides the weights",
}


#: The names of fields for programs.
CAMEL = {"at_step": "atStep", "resumed_at": "resumedAt", "lost_steps": "lostSteps", "deadline_kept": "deadlineKept"}
#: What it means that a replica fails after its restart.
CRASHES = {
    KillInWrite: ("after its restart it could not load what was left", Cause.TORN_CHECKPOINT),
    Resize: ("it does not run with another number of replicas", Cause.BREAKS_AT_OTHER_SIZE),
}


#: What a job does not use that loads otherwise, and begins again.
REFUSALS = {
    KillInWrite: ("what was left", Cause.TORN_CHECKPOINT),
    Resize: ("a checkpoint of another number of replicas", Cause.BREAKS_AT_OTHER_SIZE),
}
#: After these a job that was started again is not known to have loaded a checkpoint.
NOT_LOADED = frozenset({Cause.NEVER_LOADS, Cause.NO_CHECKPOINT_YET, Cause.TOO_FEW_REPORTS})


class FaultVerdict(msgspec.Struct, frozen=True, rename={"grade": "result", **CAMEL}):
    """What a fault has shown. None is what was not seen; `loss` is the deviation in parts of the range of losses.

    `sigterm` is `used`, `not used` or `ignored`, and empty if none was sent. `seconds` are from the fault to the first
    new step.
    """

    fault: str
    grade: Grade
    cause: Cause
    sentences: tuple[str, ...]
    advice: str = ""
    at_step: int | None = None
    resumed_at: int | None = None
    lost_steps: int | None = None
    seconds: float | None = None
    loss: float | None = None
    sigterm: str = ""
    deadline_kept: bool | None = None
    logs: str = ""


class Statement(msgspec.Struct, frozen=True):
    """Something that a run has shown; without a cause it is no fault of the job."""

    text: str
    cause: Cause = Cause.NONE
    grade: Grade = Grade.FAILED


def unjudgeable(base: Observation) -> tuple[Cause, str] | None:
    """Return why no fault can be judged by a run without one, None if it can."""
    if not base.reports:
        return Cause.NO_STEPS, f"no step was seen in the run without a fault ({base.ending}): {base.instead}"
    if again := began_again(base.reports):
        return Cause.BEGINS_AGAIN, again
    if (count := len(base.reports)) < FEWEST:
        why = f"only {plural(count, 'step')} {'were' if count > 1 else 'was'} seen in the run without a fault"
        return Cause.TOO_FEW_REPORTS, f"{why}; {FEWEST} are needed"
    return None


def unseen(fault: AnyFault, cause: Cause, why: str) -> FaultVerdict:
    """Return the verdict on a fault that could not be tried."""
    return FaultVerdict(fault.name, Grade.UNSEEN, cause, (why,), ADVICE.get(cause, ""))


def judge(
    fault: AnyFault, base: Observation, seen: Observation, tolerance: float, *, loads: bool | None = None
) -> FaultVerdict:
    """Return the verdict on a run under a fault; `loads` is whether the job has loaded a checkpoint after others."""
    if seen.fault_at is None:
        return unseen(fault, Cause.NEVER_CAME, _why_it_never_came(fault, seen))
    before, after = seen.before, seen.after
    if not before or not base.reports:
        return unseen(fault, Cause.NO_STEPS, "no step was reported before the fault")
    start = scratch(base, seen)
    if before[0].step > base.reports[0].step + start.gap:
        why = f"the job began at step {before[0].step} although nothing was saved yet: it has loaded a checkpoint"
        return unseen(fault, Cause.UNKNOWN_CHECKPOINT, f"{why} that was there before the drill")
    if again := began_again(before):
        return unseen(fault, Cause.BEGINS_AGAIN, again)
    lost = _lost(before, after, pace(base.reports))
    sigterm, kept = _sigterm(seen, lost if start.says_each_step else None)
    deviation = _deviation(base, after or _later(seen))
    found = [_progress(fault, base, seen, loads=loads)]
    if found[0].cause in (Cause.NONE, Cause.NO_CHECKPOINT_YET):
        found += _lost_too_many(fault, lost)
    if not found[0].cause:
        found += _loss(fault, deviation, tolerance)
        found += _missed(fault, base, seen)
    found += _about_sigterm(fault, seen, sigterm)
    causes = sorted((finding for finding in found if finding.cause), key=lambda finding: finding.grade is Grade.UNSEEN)
    first = next(iter(causes), Statement("", Cause.NONE, Grade.PASSED))  # what was seen counts more than what was not
    return FaultVerdict(
        fault.name, first.grade, first.cause, (_happened(fault, seen), *(finding.text for finding in found)),
        ADVICE.get(first.cause, ""), _fault_step(seen), after[0].step if after else None, lost,
        round(after[0].at - seen.fault_at, 1) if after else None, deviation, sigterm, kept, seen.logs,
    )  # fmt: skip


def _why_it_never_came(fault: AnyFault, seen: Observation) -> str:
    if seen.missed:
        return seen.missed
    if isinstance(fault, KillInWrite) and seen.reports:
        return f"nothing that looks like a checkpoint was written until step {seen.reports[-1].step}" + (
            f" ({seen.unseen_files})" if seen.unseen_files else ""
        )
    last = f"; its last step was {seen.reports[-1].step}" if seen.reports else "; it reported no step"
    return f"{seen.ending} before the fault could come{last}"


def _happened(fault: AnyFault, seen: Observation) -> str:
    """Return what the drill has done."""
    text = fault.effect(seen.what, seen.target)
    if isinstance(fault, KillInWrite) and not seen.hit:
        text = f"all replicas were killed right after {seen.target} was written{CUT if seen.cut else ''}"
    return f"at step {_fault_step(seen)} {text}"


def _fault_step(seen: Observation) -> int:
    """Return the last step before the fault; what it ends may have gone on for some time."""
    return next(report.step for report in reversed(seen.reports) if report.at <= (seen.fault_at or 0))


def _progress(fault: AnyFault, base: Observation, seen: Observation, *, loads: bool | None) -> Statement:
    """Return whether and where the job went on."""
    before, after = seen.before, seen.after
    if not after:
        return _without_start(fault, base, seen)
    first, start = after[0].step, scratch(base, seen)
    is_unclear = first <= start.furthest or after[0].skipped
    if first <= start.seen or (is_unclear and first <= start.furthest < saved_at(seen)):
        return _began_again(fault, base, seen, loads=loads)
    if is_unclear:
        return _unclear(seen, start)
    if first > before[-1].step + 2 * start.gap:
        text = f"it went on at step {first}, although {before[-1].step} was the last one before"
        return Statement(text, Cause.DOES_NOT_GO_ON)
    if seen.state == "Failed":
        return Statement(f"it went on at step {first}, and then failed: {seen.message}", Cause.FAILS_AFTER_RESTART)
    lost = _lost(before, after, pace(base.reports)) or 0
    seconds = after[0].at - (seen.fault_at or 0)
    said = f"{'' if start.says_each_step else 'about '}{plural(lost, 'step')}" if lost else "no steps"
    return Statement(f"it went on at step {first} after {seconds:.1f} s: {said} lost")


def _unclear(seen: Observation, start: Start) -> Statement:
    """Return that it is not known whether it was resumed, and why."""
    first = seen.after[0]
    why = "more was printed than is read, and so what it said before is not known"
    if not first.skipped:
        why = f"a start without a checkpoint may be seen first between step {start.seen} and {start.furthest}, too"
    text = f"its first step after the fault was {first.step}, and whether it began again is not clear: {why}"
    return Statement(text, Cause.TOO_FEW_REPORTS, Grade.UNSEEN)


def _without_start(fault: AnyFault, base: Observation, seen: Observation) -> Statement:
    """Return why no step came of what was started after the fault."""
    if (later := _later(seen)) and seen.state != "Failed":
        return Statement(f"the replica that reports was not restarted, and went on to step {later[-1].step}")
    if seen.state == "Succeeded":
        if isinstance(fault, Stall):
            return Statement("the job went on, and succeeded")
        last = f"the job succeeded after step {seen.before[-1].step}"
        return Statement(f"{last}, before a step could be seen after the fault", Cause.OVER_TOO_SOON, Grade.UNSEEN)
    if crash := _crash(seen):
        text, cause = CRASHES.get(type(fault), ("it was restarted, and failed", Cause.FAILS_AFTER_RESTART))
        how = f"{crash.pod} ended with exit code {crash.code}: {crash.last_line or 'it printed nothing'}"
        return Statement(f"{text}: {how}", cause)
    if seen.state == "Failed":
        return Statement(f"the job failed and was not retried: {seen.message}", Cause.NOT_RETRIED)
    return _silent(base, seen)


def _silent(base: Observation, seen: Observation) -> Statement:
    """Return that too little was said after the fault, which is the job's doing only if it had the time."""
    waited, count = seen.ended - (seen.fault_at or 0), len(seen.reports) - len(seen.before)
    text = f"{'only one' if count else 'no'} further step came within {waited:.0f} s"
    enough = max(PATIENCE, STARTS * (base.reports[0].at - base.began))
    if count or waited < enough:
        return Statement(f"{text}, when the time was over", Cause.NO_TIME_LEFT, Grade.UNSEEN)
    return Statement(text, Cause.DOES_NOT_GO_ON)


def _crash(seen: Observation) -> ReplicaEnd | None:
    """Return the last replica that failed by itself after the fault: others may have failed with the one it struck."""
    later = (end for end in reversed(seen.ends) if end.at > (seen.fault_at or 0))
    ends = (end for end in later if end.restarted or end.asked is None)
    return next((end for end in ends if end.code not in (0, KILLED, TERMINATED)), None)


def _began_again(fault: AnyFault, base: Observation, seen: Observation, *, loads: bool | None) -> Statement:
    """Return that nothing was resumed, and why that may be."""
    text = f"it began again at step {seen.after[0].step}: all {seen.before[-1].step} steps were lost"
    if why := nothing_to_load(fault, base, seen):
        return Statement(f"{text}; {why}", Cause.NO_CHECKPOINT_YET, Grade.UNSEEN)
    if loads and (refused := REFUSALS.get(type(fault))):
        return Statement(f"{text}, as it could not use {refused[0]}", refused[1])
    saved = checkpoints.found(base.files, base.reports, base.folders)
    if saved.times:
        where = " in a volume that ends with its pod" if saved.with_pod else ""
        text += f"; it saves {', '.join(saved.names)}{where}, and does not load it"
    elif base.unseen_files:
        text += f"; whether it saves checkpoints is not known, as {base.unseen_files}"
    else:
        text += "; it has written no checkpoint in its volumes (--checkpoints names another folder)"
    return Statement(text, Cause.NEVER_LOADS)


def _lost_too_many(fault: AnyFault, lost: int | None) -> list[Statement]:
    most = fault.most_lost_steps
    if lost is None or most is None or lost <= most:
        return []
    return [Statement(f"{lost} steps are more than the {most} that may be lost", Cause.TOO_MANY_LOST)]


def _missed(fault: AnyFault, base: Observation, seen: Observation) -> list[Statement]:
    """Return what follows if no write lasted long enough to be hit, and none was emptied in place of that."""
    if not isinstance(fault, KillInWrite) or seen.hit or seen.cut:
        return []
    text = "no write lasted long enough to be hit"
    if checkpoints.found(base.files, base.reports, base.folders).renamed:
        return [Statement(f"{text}, but each checkpoint is renamed when it is complete: a kill leaves the one before")]
    return [Statement(f"{text}, and what a kill during one leaves is not known", Cause.NEVER_HIT, Grade.UNSEEN)]


def _loss(fault: AnyFault, deviation: float | None, tolerance: float) -> list[Statement]:
    """Return whether the loss continues."""
    if deviation is None:
        return [Statement("whether the loss continues could not be seen")]
    share = "no number" if math.isnan(deviation) else f"{deviation:.1%} of its range"
    if deviation <= tolerance:
        return [Statement(f"the loss continues as without a fault (off by {share})")]
    text = f"the loss is {share} away from that of the run without a fault, more than {tolerance:.0%}"
    if isinstance(fault, Resize) and not math.isnan(deviation):
        return [Statement(f"{text}, which another number of replicas may explain")]
    return [Statement(text, Cause.LOSS_JUMPS)]


def _about_sigterm(fault: AnyFault, seen: Observation, sigterm: str) -> list[Statement]:
    if not sigterm:
        return []
    if sigterm == "ignored":
        late = [end for end in seen.ends if end.was_killed_at_the_deadline]
        names = ", ".join(dict.fromkeys(end.pod for end in late))
        text = f"SIGTERM was ignored: {names} ran on until the grace period of {late[0].grace:g} s was over"
        return [Statement(text, Cause.IGNORES_SIGTERM if isinstance(fault, Suspend | Evict) else Cause.NONE)]
    if sigterm == "used":
        return [Statement("SIGTERM was used to save, within the grace period")]
    if any(end.code == TERMINATED for end in seen.asked):
        return [Statement(UNHANDLED)]
    return [Statement("SIGTERM was not used to save")]


def _sigterm(seen: Observation, lost: int | None) -> tuple[str, bool | None]:
    """Return what became of SIGTERM, and whether all replicas that got it ended in time."""
    asked = seen.asked
    if not asked:
        return "", None
    if any(end.was_killed_at_the_deadline for end in asked):
        return "ignored", False
    times = checkpoints.found(seen.files, seen.reports, seen.folders).times
    saved = any((end.asked or 0) <= time <= end.at for end in asked for time in times)
    return "used" if saved or (lost == 0 and not times) else "not used", True


def _later(seen: Observation) -> tuple[StepReport, ...]:
    """Return what was reported after all replicas ran again, by what was not started again."""
    at = seen.back_at
    return () if at is None else tuple(report for report in seen.before if report.at > at)


def _lost(before: Sequence[StepReport], after: Sequence[StepReport], gap: int) -> int | None:
    """Return how many steps were done twice."""
    return max(0, before[-1].step - after[0].step + gap) if after else None


def _deviation(base: Observation, after: Sequence[StepReport]) -> float | None:
    """Return how far losses are from those of the same steps without a fault, in parts of the range of these."""
    known = {report.step: report.loss for report in base.reports if report.loss is not None}
    losses = ((report.step, report.loss) for report in after[:COMPARED])
    pairs = [(loss, known[step]) for step, loss in losses if loss is not None and step in known]
    if not pairs:
        return None
    if any(not math.isfinite(loss) for loss, _ in pairs):
        return math.nan
    finite = [loss for loss in known.values() if math.isfinite(loss)]
    size = max(finite) - min(finite)
    apart = median(abs(loss - other) for loss, other in pairs)
    return round(apart / size, 4) if size else float(apart > 0)
