"""The training that is done again after a restart, as far as steps are known."""

from __future__ import annotations

from datetime import timedelta

from trainshed.api.status import Restart, Status
from trainshed.api.trainer_status import SAME_REPORT_INTERVAL

from .facts import Facts
from .failures import DISRUPTION


def is_cause(facts: Facts, restart: Restart) -> bool:
    """Return whether work may have been lost by this restart: after the last report, and not before a suspension."""
    begun, last = facts.status.start, facts.status.trainer
    late = SAME_REPORT_INTERVAL + timedelta(seconds=facts.job.checkpoint_grace or 0)
    after_report = last is not None and restart.time > last.updated - late
    return after_report and (begun is None or restart.time >= begun)


def seconds(facts: Facts, after: Status) -> int:
    """Return the seconds of training that are done again: from the step with which a new run began to the last one.

    A report of a run that began after the last stored report, and after a container of the job began, shows it once.
    The last report of the run before may not be stored. The steps that a disrupted run made in its grace period are no
    part of `Running`.
    """
    last, report = facts.status.trainer, facts.snapshot.training
    if after.trainer == last or last is None or report is None or last.step is None:
        return 0
    if report.first_step is None or report.began is None:
        return 0
    step, time = last.step, last.updated
    if report.left_step is not None and report.left and report.left_step >= step:
        step, time = report.left_step, report.left
    pace, again = last.steps_per_second or report.steps_per_second, step - report.first_step
    if report.began <= last.updated or again <= 0 or not pace:
        return 0
    runs = (facts.own_container(pod) for pod in facts.current.values())
    if not any(own and own.started and own.started > last.updated for own in runs):
        return 0
    cause = next((one for one in after.recent_restarts[-1:] if is_cause(facts, one)), None)
    beyond = (time - cause.time).total_seconds() if cause and cause.kind == DISRUPTION else 0
    return max(0, int(again / pace - max(0, beyond)))
