"""What is said of a prediction: sentences in chapters, and a document."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from trainshed.api.foreign_text import one_line
from trainshed.views.chapter import Chapter, Story
from trainshed.views.durations import rounded

from .assumptions import RunEnding, Use
from .prediction import Prediction, quantile
from .recommendations import Advice, percent

#: The quantiles that are printed.
LOW, MIDDLE, HIGH = 0.05, 0.5, 0.95
#: How runs end without success, in words.
FAILURES = {
    RunEnding.BACKOFF_LIMIT: "fail at backoffLimit",
    RunEnding.DEADLINE: "fail at activeDeadlineSeconds",
    RunEnding.STARTUP_DEADLINE: "fail at the start-up deadline",
    RunEnding.NOT_RETRIED: "fail by a failure that is not retried",
    RunEnding.UNFINISHED: "would not end within twenty times their time",
}
#: What is lost, in words.
LOSSES = {
    Use.LOST_WORK: "training since the last checkpoint, done again",
    Use.CHECKPOINTS: "saving checkpoints",
    Use.RESTARTS: "restarts, until all train again",
    Use.START: "the first start",
}
PODS = "pods"
HOUR, MANY_HOURS = 3600, 100


def as_text(found: Prediction, advice: Sequence[Advice], seed: int) -> Story:
    """Return the prediction in sentences."""
    chapters = (
        ("Ends", tuple(_ends(found))),
        ("Lost", tuple(_lost(found))),
        ("Advice", tuple(one.text for one in advice)),
        ("Assumed", tuple(_assumed(found, seed))),
    )
    return Story(one_line(_headline(found)), tuple(Chapter(title, lines) for title, lines in chapters if lines))


def _headline(found: Prediction) -> str:
    job, times = found.subject.job, found.finish_times
    name = f"{job.kind} {job.namespace}/{job.name}"
    if not times:
        return f"{name} does not succeed in any of {_many(len(found.runs))} runs"
    low, middle, high = (quantile(times, share) or 0.0 for share in (LOW, MIDDLE, HIGH))
    chance = found.share(RunEnding.SUCCEEDED)
    head = name if chance == 1 else f"{name} succeeds in {percent(chance)} of the runs, and then"
    return f"{head} takes {rounded(middle)}, from {rounded(low)} to {rounded(high)} in 90 % of the runs"


def _ends(found: Prediction) -> Iterator[str]:
    times, assumed = found.finish_times, found.assumed
    if times:
        low, middle, high = (rounded(quantile(times, share) or 0.0) for share in (LOW, MIDDLE, HIGH))
        yield f"p5 {low}, p50 {middle}, p95 {high}; {rounded(assumed.undisturbed)} if nothing fails."
    chance = found.share(RunEnding.SUCCEEDED)
    yield f"{'All' if chance == 1 else percent(chance) + ' of'} {_many(len(found.runs))} runs succeed."
    for ending, words in FAILURES.items():
        if found.endings[ending]:
            yield f"{percent(found.share(ending))} {words}."
    few, usual, many = (quantile(found.failures, share) or 0 for share in (LOW, MIDDLE, HIGH))
    yield f"Failures in a run: p5 {few:.0f}, p50 {usual:.0f}, p95 {many:.0f}."


def _lost(found: Prediction) -> Iterator[str]:
    names = (*found.subject.resources, PODS)
    for place, name in enumerate(names):
        if name == PODS and len(names) > 1:
            return
        total = sum(found.mean_use(use)[place] for use in Use)
        lost = total - found.mean_use(Use.TRAINING)[place]
        if not total:
            continue
        yield f"{_hours(lost)} of {_hours(total)} hours of {one_line(name)} on average ({percent(lost / total)}):"
        for use, words in LOSSES.items():
            amount = found.mean_use(use)[place]
            if amount:
                yield f"  {percent(amount / total):>6}  {words} ({_hours(amount)} hours)"


def _assumed(found: Prediction, seed: int) -> Iterator[str]:
    assumed, size = found.assumed, found.subject.job.size
    replicas = f"{_many(size)} replica{'' if size == 1 else 's'}"
    spare = f" and {assumed.spare_nodes} spare" if assumed.spare_nodes else ""
    nodes = f"{_many(assumed.nodes)} node{'' if assumed.nodes == 1 else 's'}{spare}"
    yield f"{replicas} on {nodes}; {rounded(assumed.run_time)} of training."
    yield (
        f"Each node fails once in {rounded(assumed.mtbf)} (MTBF is per node), so one of the job's every"
        f" {rounded(assumed.mean_time_between)}."
    )
    share = assumed.program_failures
    yield (
        f"In {percent(share)} of the failures the program of one replica exits with {assumed.exit_code};"
        f" in the others the node is lost with its pods."
    )
    if math.isinf(assumed.checkpoint_every):
        yield "Nothing is saved (--checkpoint-every): each failure loses all work."
    else:
        cost = rounded(assumed.checkpoint_cost)
        yield f"A checkpoint every {rounded(assumed.checkpoint_every)} of training, each takes {cost}."
    successor = f" A lost node is replaced after {rounded(assumed.replace_node)}." if assumed.replace_node else ""
    times = f"{rounded(assumed.start_up)} at the start, {rounded(assumed.restart_cost)} after a failure"
    yield f"From new pods to the training: {times}.{successor}"
    yield f"Seed {seed}: the same command draws the same failures."


def as_document(found: Prediction, advice: Sequence[Advice], seed: int) -> dict[str, Any]:
    """Return the prediction as JSON; times are in seconds."""
    job, times, assumed = found.subject.job, found.finish_times, found.assumed
    names = (*found.subject.resources, PODS)
    return {
        "kind": job.kind,
        "namespace": job.namespace,
        "name": job.name,
        "histories": len(found.runs),
        "seed": seed,
        "assumptions": {
            "replicas": job.size,
            "nodes": assumed.nodes,
            "spareNodes": assumed.spare_nodes,
            "mtbfSeconds": assumed.mtbf,
            "runTimeSeconds": assumed.run_time,
            "checkpointEverySeconds": assumed.checkpoint_every if math.isfinite(assumed.checkpoint_every) else None,
            "checkpointCostSeconds": assumed.checkpoint_cost,
            "startUpSeconds": assumed.start_up,
            "restartCostSeconds": assumed.restart_cost,
            "replaceNodeSeconds": assumed.replace_node,
            "programFailures": assumed.program_failures,
            "exitCode": assumed.exit_code,
        },
        "undisturbedSeconds": assumed.undisturbed,
        "finishSeconds": {f"p{round(100 * share)}": quantile(times, share) for share in (LOW, MIDDLE, HIGH)},
        "failures": {f"p{round(100 * share)}": quantile(found.failures, share) for share in (LOW, MIDDLE, HIGH)},
        "endings": {ending: found.share(ending) for ending in RunEnding},
        "hours": {name: {use: found.mean_use(use)[place] / HOUR for use in Use} for place, name in enumerate(names)},
        "advice": [{"about": one.about, "text": one.text, **one.numbers} for one in advice],
    }


def _hours(seconds: float) -> str:
    hours = seconds / HOUR
    return f"{hours:,.0f}" if hours >= MANY_HOURS else f"{hours:.1f}"


def _many(count: int) -> str:
    return f"{count:,}"


def drawn(found: Prediction) -> tuple[str, str, list[float], list[tuple[float, str]]]:
    """Return what a picture shows: its title and a note, when the runs succeed, and the times that are marked."""
    job, times = found.subject.job, found.finish_times
    title = one_line(
        f"{job.kind} {job.namespace}/{job.name}: {percent(found.share(RunEnding.SUCCEEDED))} of the runs succeed"
    )
    failed = [f"{percent(found.share(ending))} {words}" for ending, words in FAILURES.items() if found.endings[ending]]
    note = "; ".join([f"{_many(len(found.runs))} runs", *failed])
    named = (("p5", LOW), ("p50", MIDDLE), ("p95", HIGH))
    marks = [(value, name) for name, share in named if (value := quantile(times, share)) is not None]
    return title, note, times, [(found.assumed.undisturbed, "nothing fails"), *marks]
