"""The jobs in the pictures of the page: a cluster of one afternoon, made by the planner from the lives of pods."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

import msgspec

from support.broken_jobs import BROKEN, again, every, lives
from support.builders import T0, at
from support.played_jobs import Life, Play, a_document
from trainshed.api import status_codec
from trainshed.api.coerce import format_time
from trainshed.api.trainer_status import TrainerStatus
from trainshed.ui.model import JobFile

#: When the pictures were taken.
NOW = at(90_000)
#: Times in documents, and the name that prepared jobs have.
TIME, PREPARED = re.compile(rf"\b{T0:%Y-%m}-\d\dT\d\d:\d\d:\d\dZ"), re.compile(r"\bmnist\b")
#: How far above its end a loss begins, and after how many steps it is half of that.
START, HALF = 2.1, 700
#: Why a pod has no node.
GPUS = "0/4 nodes are available: 4 Insufficient nvidia.com/gpu."
#: What a training reports at a time.
Reports = Callable[[float], TrainerStatus | None]


@dataclass(frozen=True)
class Shown:
    """A job of the picture: its name, its namespace, what happens to it, and after how many seconds it is seen."""

    name: str
    namespace: str
    play: Play
    seen: float


def cluster() -> tuple[JobFile, ...]:
    """Return the jobs as the page's list has them at `NOW`."""
    return tuple(map(_listed, (*_broken(), *_well())))


def out_of_memory() -> tuple[JobFile, datetime]:
    """Return a job with too little memory, with all that its page has, and the time at which it is seen."""
    play, seen = _out_of_memory(), 6030
    return play.file(seen), at(seen)


def _out_of_memory() -> Play:
    """Return a job that fails three times; before the second attempt one of its replicas waits for a node."""
    tries = ((0.0, 2400.0), (2420.0, 4300.0), (4320.0, 6000.0))
    pods: list[Life] = []
    for attempt, (begin, end) in enumerate(tries):
        found = again(attempt, begin, end, gone=end + 14, code=137, reason="OOMKilled")
        pods += [replace(one, deleted=end + 4) for one in found]
    kept = next(one for one in reversed(pods) if one.code)
    pods[pods.index(kept)] = replace(kept, deleted=None, removed=None)
    late = next(one for one in pods if (one.replica, one.attempt) == ("worker-2", 1))
    pods[pods.index(late)] = replace(late, scheduled=2700, started=2760, unplaced=GPUS)
    runs = (Run(40, 2400, 0), Run(2800, 4300, 1500), Run(4360, 6000, 2500))
    policy = {"backoffLimit": 2, "cleanPodPolicy": "Running"}
    job = a_document(name="llama-finetune", policy=policy, annotations={"trainshed.dev/progress": "Logs"})
    return Play(job, tuple(pods), trains=reports(0.8, 8000, *runs), extra=(*every(60, 6060), 6003.5))


class Run(NamedTuple):
    """A run of a program: the times of its first step and of its end, and with which step it begins."""

    begin: float
    end: float
    first: int


def reports(speed: float, total: int, *runs: Run) -> Reports:
    """Return what a training reports each minute: its step, at a speed in steps a second, and its loss."""
    known = runs or (Run(40, math.inf, 0),)

    def report(now: float) -> TrainerStatus | None:
        run = next((run for run in reversed(known) if run.begin + 60 <= now), None)
        if run is None:
            return None
        reported = run.begin + (min(now, run.end) - run.begin) // 60 * 60
        step = min(total, run.first + int((reported - run.begin) * speed))
        value = 0.4 + START / (1 + step / HALF) * (1 + 0.1 * ((step // 40 * 7) % 5 - 2))
        known_of = {"first_step": run.first, "began": at(run.begin), "steps_per_second": speed}
        left, metrics = int((total - step) / speed), (("loss", f"{value:.4f}"),)
        return TrainerStatus(at(reported), step * 100 // total, left, metrics, step, total, **known_of)

    return report


def _broken() -> Iterator[Shown]:
    """Yield jobs that need attention, from those that tests have prepared."""
    for prepared, name, namespace in (
        ("stalled", "gpt-pretrain", "nlp"),
        ("image-pull", "segment-cells", "vision"),
        ("deadline-exceeded", "mt-nightly", "nlp"),
        ("suspended-by-kueue", "bert-distill", "nlp"),
    ):
        yield Shown(name, namespace, *BROKEN[prepared]())
    yield Shown("llama-finetune", "nlp", _out_of_memory(), 6030)
    yield Shown("resnet-imagenet", "vision", BROKEN["evicted"]()[0], 1850)
    waits = Life("worker-2", scheduled=None, started=None, unplaced=GPUS)
    yield Shown("whisper-large", "speech", Play(a_document(), lives(waits), extra=every(60, 840)), 840)


def _well() -> Iterator[Shown]:
    """Yield jobs of several kinds that train or have trained, each with its own speed."""
    for kind, name, namespace, roles, training, seen in (
        ("JAXJob", "vit-spmd", "vision", {"Worker": 8}, reports(1.5, 20_000), 9_000),
        ("TFJob", "ranking-two-tower", "search", {"Chief": 1, "Worker": 4, "PS": 2}, reports(4, 60_000), 11_000),
        ("MPIJob", "weather-horovod", "climate", {"Launcher": 1, "Worker": 16}, reports(0.5, 9_000), 5_400),
        ("XGBoostJob", "churn-trees", "search", {"Master": 1, "Worker": 2}, None, 380),
        ("PaddleJob", "ocr-lines", "vision", {"Worker": 4}, reports(2, 12_000), 5_000),
    ):
        yield Shown(name, namespace, _alive(kind, roles, training, seen), seen)
    roles, training = {"Master": 1, "Worker": 3}, reports(1, 6_000)
    yield Shown("tts-vocoder", "speech", _alive("PyTorchJob", roles, training, 6_060, ended=6_050), 9_000)


def _alive(
    kind: str, roles: dict[str, int], training: Reports | None, seen: float, *, ended: float | None = None
) -> Play:
    """Return a job whose replicas all run, or end well at a time."""
    names = [f"{role.lower()}-{number}" for role, count in roles.items() for number in range(count)]
    lives = tuple(
        Life(name.removesuffix("-0") if name.startswith("launcher") else name, started=20 + place, ended=ended)
        for place, name in enumerate(names)
    )
    return Play(a_document(kind, **roles), lives, trains=training, extra=every(300, seen))


def _listed(shown: Shown) -> JobFile:
    """Return a job as it is at `NOW`, under its name; the list needs no pods and no story."""
    file, moved = shown.play.file(shown.seen), NOW - at(shown.seen)
    text = msgspec.json.encode(file.document).decode()
    text = TIME.sub(lambda found: format_time(datetime.fromisoformat(found[0]) + moved), PREPARED.sub(shown.name, text))
    document = msgspec.json.decode(text)
    document["metadata"] |= {"name": shown.name, "namespace": shown.namespace}
    samples = tuple(msgspec.structs.replace(one, time=one.time + moved) for one in file.samples)
    return JobFile(document, status_codec.parse_status(document), samples=samples)
