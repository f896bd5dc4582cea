"""What to change in a job: each piece of advice is a comparison of predictions, or says that nothing need be done."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace as with_fields
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from trainshed.api.job import RestartPolicy
from trainshed.frameworks.pytorch import PyTorchJobOptions
from trainshed.views.durations import rounded

from .assumptions import RunEnding
from .prediction import Prediction, Predictor, quantile
from .subject import VirtualJob, prepared

#: Intervals that are tried, in times of Young's and Daly's.
TRIED = (0.25, 0.5, 1.0, 2.0, 4.0)
#: The runs of a comparison: a share of those that were asked for, and at least.
SHARE, LEAST = 20, 40
#: The most comparisons: the intervals, the present one, and the job without its limits.
COMPARISONS = len(TRIED) + 2
#: The share of runs that a limit should let pass, and an improvement that is worth a sentence.
ENOUGH, WORTH = 0.99, 0.002
#: An exit code that every policy but Never retries.
RETRYABLE_FROM = 128
#: Shares that are printed with a decimal, and those that are printed as nearly none and nearly all.
FEW, MOST, NEARLY_NONE, NEARLY_ALL = 0.1, 0.99, 0.001, 0.999

#: Assumptions that a comparison changes, by name.
Changes = Mapping[str, float]
NONE: Changes = MappingProxyType({})


class Advice(msgspec.Struct, frozen=True):
    """A piece of advice: what it is about, in a sentence, and its numbers by name; times are in seconds."""

    about: str
    text: str
    numbers: dict[str, float | None] = {}


def young_daly(checkpoint_cost: float, mean_time_between: float) -> float:
    """Return the interval between checkpoints that loses the least time, as Young found and Daly has refined."""
    if checkpoint_cost >= 2 * mean_time_between:
        return mean_time_between
    half = checkpoint_cost / (2 * mean_time_between)
    return math.sqrt(2 * checkpoint_cost * mean_time_between) * (1 + math.sqrt(half) / 3 + half / 9) - checkpoint_cost


def recommendations(found: Prediction, predictor: Predictor) -> list[Advice]:
    """Return what there is to advise, after predictions of what is to be compared."""
    return [*_interval(found, predictor), *_limits(found, predictor), *_policy(found), *_spares(found, predictor)]


def compared_runs(runs: int) -> int:
    """Return how many runs all comparisons of this many runs have."""
    return COMPARISONS * _share(runs)


def _share(runs: int) -> int:
    return min(runs, max(LEAST, runs // SHARE))


def _mean_time(found: Prediction, predictor: Predictor, subject: VirtualJob, changes: Changes = NONE) -> float:
    """Return the mean time of runs that no limit ends and that retry all failures; infinite if one is endless."""
    policy = replace(subject.job.policy, backoff_limit=None, deadline=None)
    groups = tuple(replace(group, restart_policy=RestartPolicy.EXIT_CODE) for group in subject.job.groups)
    job = replace(subject.job, policy=policy, groups=groups, fail_on_disruption=False, startup_deadline=None)
    assumed = replace(found.assumed, **{"exit_code": RETRYABLE_FROM, **changes})
    runs = predictor.predict(replace(subject, job=job), assumed, _share(len(found.runs))).runs
    return sum(run.seconds if run.ending is RunEnding.SUCCEEDED else math.inf for run in runs) / len(runs)


def _interval(found: Prediction, predictor: Predictor) -> Iterator[Advice]:
    """Advise on the interval between checkpoints."""
    assumed = found.assumed
    if not assumed.checkpoint_cost:
        yield Advice(
            "checkpointInterval", "Checkpoints cost nothing as assumed (--checkpoint-cost): save as often as you can."
        )
        return
    best = young_daly(assumed.checkpoint_cost, assumed.mean_time_between)
    if best >= assumed.run_time:
        text = f"Failures are so rare that checkpoints matter little: Young and Daly would save every {rounded(best)}."
        yield Advice("checkpointInterval", text, {"youngDalySeconds": best})
        return
    tried = {
        every: _mean_time(found, predictor, found.subject, {"checkpoint_every": every})
        for every in (max(1.0, round(best * times)) for times in TRIED)
    }
    simulated = min(tried, key=lambda every: tried[every])
    present = _mean_time(found, predictor, found.subject)
    numbers: dict[str, float | None] = {
        "youngDalySeconds": best,
        "simulatedBestSeconds": simulated,
        "meanSeconds": tried[simulated],
        "presentMeanSeconds": present if math.isfinite(present) else None,
    }
    head = f"Young and Daly: save every {rounded(best)}; of {_listed(sorted(tried))} {rounded(simulated)} is best here"
    if present <= tried[simulated] * (1 + WORTH):
        yield Advice("checkpointInterval", f"The interval is good as it is. {head}.", numbers)
        return
    gain = f"{rounded(present - tried[simulated])} sooner on average" if math.isfinite(present) else "it ends at all"
    yield Advice("checkpointInterval", f"{head}: {gain}.", numbers)


def _without_limits(subject: VirtualJob) -> VirtualJob:
    """Return the job without backoffLimit and deadline, with failures that are retried."""
    policy = replace(subject.job.policy, backoff_limit=None, deadline=None)
    return replace(subject, job=replace(subject.job, policy=policy))


def _limits(found: Prediction, predictor: Predictor) -> Iterator[Advice]:
    """Advise on backoffLimit and activeDeadlineSeconds, by runs that have neither."""
    policy = found.subject.job.policy
    if policy.backoff_limit is None and policy.deadline is None:
        return
    free = predictor.predict(_without_limits(found.subject), found.assumed, _share(len(found.runs)))
    passed = [run for run in free.runs if run.ending is RunEnding.SUCCEEDED]
    if policy.backoff_limit is not None and passed:
        used = quantile(sorted(float(run.counted_restarts) for run in passed), ENOUGH) or 0.0
        in_place = any(group.restart_policy.restarts_in_place for group in found.subject.job.groups)
        needed = int(used) + (1 if in_place and used else 0)
        numbers: dict[str, float | None] = {"backoffLimit": policy.backoff_limit, "needed": needed}
        if policy.backoff_limit < needed:
            text = f"backoffLimit {policy.backoff_limit} is too small: {needed} would let 99 % of the runs pass."
        else:
            text = f"backoffLimit {policy.backoff_limit} is enough: 99 % of the runs need at most {needed}."
        yield Advice("backoffLimit", text, numbers)
    if policy.deadline is not None and passed:
        needed = math.ceil(quantile(sorted(run.seconds for run in passed), ENOUGH) or 0)
        numbers = {"activeDeadlineSeconds": policy.deadline, "needed": needed}
        words = "is too short" if policy.deadline < needed else "is long enough"
        limit = f"activeDeadlineSeconds {policy.deadline} ({rounded(policy.deadline)})"
        text = f"{limit} {words}: 99 % of the runs need at most {needed} ({rounded(needed)})."
        yield Advice("activeDeadlineSeconds", text, numbers)


def _policy(found: Prediction) -> Iterator[Advice]:
    """Advise on what is not retried, and on restarts that are counted many times."""
    lost = found.share(RunEnding.NOT_RETRIED)
    if lost:
        policies = {group.restart_policy for group in found.subject.job.groups}
        how = (
            "restartPolicy ExitCode retries exit codes from 128 on only: let the program exit so, or use OnFailure"
            if RestartPolicy.EXIT_CODE in policies
            else "set restartPolicy to OnFailure, or to ExitCode if the program exits with 128 or more"
        )
        if found.subject.job.fail_on_disruption:
            how = "the annotation trainshed.dev/on-disruption: Fail ends the job with the first lost node: leave it out"
        text = f"{percent(lost)} of the runs end with a failure that is not retried: {how}."
        yield Advice("restartPolicy", text, {"share": lost})
    in_place = any(group.restart_policy.restarts_in_place for group in found.subject.job.groups)
    if in_place and found.subject.together and found.share(RunEnding.BACKOFF_LIMIT):
        size = found.subject.job.size
        yield Advice(
            "restartScope",
            f"The kubelet restarts each of the {size} containers that fail with the first one, and each counts against"
            " backoffLimit: with restartPolicy ExitCode, and exit codes from 128 on, the operator restarts all at once"
            " and counts one.",
        )


def _spares(found: Prediction, predictor: Predictor) -> Iterator[Advice]:
    """Advise on the scope of restarts, on spare workers of elastic jobs, and on spare nodes."""
    subject, assumed = found.subject, found.assumed

    def present() -> float:
        return _mean_time(found, predictor, subject)

    usual = subject.framework.hooks.scope(subject.job)
    if subject.job.scope and subject.job.scope is not usual:
        other = prepared(replace(subject.job, scope=None))
        text = f"restart scope {usual}, which is usual for this job, in place of {subject.job.scope}"
        yield from _compared("restartScope", text, present(), _mean_time(found, predictor, other))
    elastic = subject.job.options_as(PyTorchJobOptions).elastic
    workers = subject.job.of("Worker")
    if elastic and workers and subject.minimum is not None and subject.minimum >= workers.count > 1:
        options = with_fields(
            subject.job.options_as(PyTorchJobOptions), elastic=with_fields(elastic, minimum=workers.count - 1)
        )
        other = prepared(replace(subject.job, options=options))
        text = f"minReplicas {workers.count - 1}, so that one worker is spare"
        yield from _compared("spareReplicas", text, present(), _mean_time(found, predictor, other))
    if assumed.replace_node and not assumed.spare_nodes:
        after = _mean_time(found, predictor, subject, {"spare_nodes": 1})
        yield from _compared("spareNodes", "one spare node", present(), after)


def _compared(about: str, what: str, before: float, after: float) -> Iterator[Advice]:
    """Say what a change gains, of which the mean times before and after are given."""
    if not (math.isfinite(before) and math.isfinite(after)):
        return
    gained = before - after
    text = f"the runs end {rounded(gained)} sooner on average" if gained > WORTH * before else "little is gained"
    yield Advice(about, f"With {what}, {text}.", {"presentMeanSeconds": before, "meanSeconds": after})


def percent(share: float) -> str:
    """Return a share, with a decimal if it is small: `0.3 %`, `42 %`; neither none nor all by rounding."""
    if share in (0, 1):
        return f"{100 * share:.0f} %"
    if share < NEARLY_NONE:
        return "less than 0.1 %"
    if share > NEARLY_ALL:
        return "more than 99.9 %"
    return f"{100 * share:.1f} %" if share < FEW or share > MOST else f"{100 * share:.0f} %"


def _listed(values: list[float]) -> str:
    return ", ".join(map(rounded, values))
