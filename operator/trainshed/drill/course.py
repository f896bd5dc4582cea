"""The course of a drill: a run without a fault, then one for each fault, each from nothing in a folder of its own."""

from __future__ import annotations

import dataclasses
import fcntl
import io
import math
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, TextIO, cast

import msgspec

from trainshed.api.job import Document
from trainshed.local import run as local_run
from trainshed.local.node.host_paths import CREATED
from trainshed.local.options import LocalJob, Options, Refused
from trainshed.local.output import is_named
from trainshed.local.paths import remove
from trainshed.local.state_folder import make_place, make_private

from . import checkpoints
from .faults import AnyFault, OfReplica, Resize
from .observation import Ending, Observation
from .outcome import DrillOutcome, described
from .rehearsal import Limits, Rehearsal
from .step_series import middle
from .verdict import NOT_LOADED, Cause, FaultVerdict, Grade, judge, unjudgeable, unseen

#: The folder with what drills have left, below the one that the user chooses.
NAME = "trainshed-drills"
#: Seconds of a quick drill, of the training without a fault in it, and with less of which no fault is tried.
QUICK, QUICK_TRAINING, LEAST = 115.0, 15.0, 5.0
#: What ends a drill.
SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: The most bytes of the file with what a run prints: the logs of its replicas have limits of their own.
MOST_OUTPUT = 64 << 20


class Interrupted(Exception):
    """The user has ended the drill. The message is the folder with what was seen until then."""


class CappedText(io.TextIOBase):
    """A text file with so many bytes at most: the rest is left out, and its last line says so."""

    encoding = "utf-8"

    def __init__(self, path: Path, most: int) -> None:
        self._file = open(path, "wb", opener=_private)  # noqa: SIM115 - closed by `close`
        self._left = most

    def write(self, text: str) -> int:
        """Write a text, or nothing if there is no room for it; raises OSError."""
        content = text.encode(errors="replace")
        if self._left >= 0:
            self._left -= len(content)
            self._file.write(content if self._left >= 0 else b"what follows is left out: it is too much\n")
            self._file.flush()
        return len(text)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


@dataclass(frozen=True, slots=True)
class DrillOptions:
    """How a drill goes. `timeout` is for each run, `make` makes a job of a document, `say` prints what happens.

    With `quick` all of it takes two minutes at most. `saves` is the folder of this machine in which the job saves.
    """

    faults: tuple[AnyFault, ...]
    state: Path
    make: Callable[[Document], LocalJob]
    say: Callable[[str], None]
    runtime: str = "auto"
    python: str = ""
    steps: int | None = None
    saves: Path | None = None
    tolerance: float = 0.1
    timeout: float = 600.0
    quick: bool = False


class Drill:
    """A drill of one job."""

    def __init__(self, item: LocalJob, objects: tuple[Document, ...], options: DrillOptions) -> None:
        self._item, self._objects, self._options = item, objects, options
        self._began = time.monotonic()
        self._runs = 0
        self._place: Path | None = None
        self._lock = -1
        self._check()
        make_private(make_place(options.state) / NAME)
        self.folder = Path(tempfile.mkdtemp(prefix=f"{item.job.name}-", dir=options.state / NAME))

    def run(self) -> DrillOutcome:
        """Run everything. Raises `Interrupted`, and `Refused`, `NoPython` and `Unusable` as a run does."""
        _interruptible()
        try:
            return self._run()
        except KeyboardInterrupt:
            raise Interrupted(self.folder) from None
        finally:
            if self._lock >= 0:
                os.close(self._lock)

    def _run(self) -> DrillOutcome:
        job = self._item.job
        name = f"{job.kind} {job.namespace}/{job.name}"
        self._options.say(f"drill of {name}: a run without a fault, then {len(self._options.faults)} with one each")
        base = self._rehearse(None, None, self._limit_of_base())
        if base.state == "Failed" or base.ending is Ending.STUCK:
            why = next((end.last_line for end in reversed(base.ends) if end.code and end.last_line), "")
            raise Refused(
                f"the job fails here without any fault: {base.message or base.ending}"
                + (f"\nits last line: {why}" if why else "")
                + f"\nwhat it printed: {base.logs}/output.txt"
            )
        sentences = baseline_sentences(base)
        for text in sentences:
            self._options.say(f"  {text}")
        verdicts: list[FaultVerdict] = []
        for fault in self._options.faults:
            verdict = self._verdict(fault, base, verdicts)
            verdicts.append(verdict)
            self._options.say("")
            for line in described(verdict):
                self._options.say(line)
        kept = any(verdict.grade is not Grade.PASSED for verdict in verdicts)
        if not kept:
            remove(self.folder)
        seconds = round(time.monotonic() - self._began, 1)
        return DrillOutcome(name, sentences, tuple(verdicts), seconds, str(self.folder) if kept else "")

    def _check(self) -> None:
        """Raise `Refused` for what is not there, or is in the way."""
        pods = self._item.pod_names
        named = [fault.replica for fault in self._options.faults if isinstance(fault, OfReplica) and fault.replica]
        unknown = [name for name in named if not any(is_named(name, self._item.job.name, pod) for pod in pods)]
        if unknown:
            raise Refused(f"there is no replica {unknown[0]}; there are {', '.join(pods[:20])}")
        if self._options.saves:
            self._place = self._taken(self._options.saves)

    def _taken(self, saves: Path) -> Path:
        """Return the folder in which the job saves without links, kept from other drills; raises `Refused`."""
        saves.mkdir(parents=True, exist_ok=True)
        place = saves.resolve()
        self._lock = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise Refused(f"--checkpoints {saves}: another drill uses it") from error
        if any(place.iterdir()):
            raise Refused(
                f"--checkpoints {saves}: a drill begins without checkpoints, and this is not empty; move away what is"
                " in it, or let the job save elsewhere"
            )
        return place

    def _verdict(self, fault: AnyFault, base: Observation, earlier: list[FaultVerdict]) -> FaultVerdict:
        if why := unjudgeable(base):
            return unseen(fault, *why)
        limit = self._limit(self._options.timeout, steps=base.reports[-1].step)
        if limit.until - time.monotonic() < LEAST:
            return unseen(fault, Cause.NO_TIME_LEFT, "no time was left for it")
        resized = None
        if isinstance(fault, Resize):
            try:
                resized = self._resized(fault)
            except Refused as error:
                return unseen(fault, Cause.NEVER_CAME, f"the job cannot have another number of replicas: {error}")
        at = middle(base) if fault.at_step is None else fault.at_step
        logs = checkpoints.logs(base.files, base.reports, base.folders)
        seen = self._rehearse(fault, resized, dataclasses.replace(limit, at_step=at, logs=logs))
        loads = any(verdict.resumed_at and verdict.cause not in NOT_LOADED for verdict in earlier)
        return judge(fault, base, seen, self._options.tolerance, loads=loads)

    def _limit_of_base(self) -> Limits:
        """Return when the run without a fault ends: of a quick drill it takes a part of the time, and starts apart."""
        quick = self._options.quick
        limit = self._limit(QUICK / 2 if quick else self._options.timeout, steps=self._options.steps)
        return dataclasses.replace(limit, training=QUICK_TRAINING if quick else math.inf)

    def _limit(self, seconds: float, *, steps: int | None) -> Limits:
        end = time.monotonic() + seconds
        until = min(end, self._began + QUICK) if self._options.quick else end
        return Limits(until, steps, folders=tuple(self._saves()))

    def _saves(self) -> Iterator[Path]:
        """Yield the folder in which the job saves; raises `Refused` if it has put a link there.

        What that leads to is none of its checkpoints, and is neither watched nor moved.
        """
        if self._place:
            if self._place.resolve() != self._place:
                raise Refused(f"the job has replaced {self._place}, which --checkpoints names, by a link")
            self._place.mkdir(parents=True, exist_ok=True)  # a job may remove it when it is done
            yield self._place

    def _rehearse(self, fault: AnyFault | None, resized: LocalJob | None, limits: Limits) -> Observation:
        """Run the job once in a new folder; its volumes are empty."""
        self._runs += 1
        folder = self.folder / f"{self._runs}-{fault.name if fault else 'no-fault'}"
        folder.mkdir(mode=0o700)
        paths = folder / "host-paths"
        paths.mkdir(mode=0o700)
        limits = dataclasses.replace(limits, folders=(*limits.folders, paths))
        item = self._options.make(relocated(self._item.document, paths))
        then = resized and self._options.make(relocated(resized.document, paths))
        largest = max((item, then or item), key=lambda found: found.job.size)
        rehearsal = Rehearsal(item, fault, limits, time.monotonic, then)
        with CappedText(folder / "output.txt", MOST_OUTPUT) as stream:
            code = local_run.run(
                Options(
                    (dataclasses.replace(largest, document=item.document),),
                    self._objects,
                    folder,
                    self._options.runtime,
                    self._options.python,
                    colour=False,
                    director=rehearsal,
                    stream=cast("TextIO", stream),
                )
            )
        _interruptible()
        self._put_away(folder)
        if code == local_run.INTERRUPTED or rehearsal.observation is None:
            raise Interrupted(self.folder)
        return msgspec.structs.replace(rehearsal.observation, logs=str(folder))

    def _put_away(self, folder: Path) -> None:
        """Move the checkpoints of a run to its folder, so that the next run begins without."""
        for saves in self._saves():
            (folder / "checkpoints").mkdir(mode=0o700)
            for path in saves.iterdir():
                shutil.move(path, folder / "checkpoints" / path.name)

    def _resized(self, fault: Resize) -> LocalJob:
        """Return the job with another number of replicas; raises `Refused` if it is invalid."""
        groups = [(group.role, group.count) for group in self._item.job.groups]
        role, count = next((found for found in groups if found[0] == "Worker"), groups[-1])
        wanted = fault.replicas or (count - 1 if count > 1 else count + 1)
        if wanted == count:
            raise Refused(f"it has {count} already")
        return self._options.make(with_replicas(self._item, {role: wanted}))


def with_replicas(item: LocalJob, wanted: dict[str, int]) -> Document:
    """Return the document of a job with other numbers of replicas by role; raises `Refused` for an unknown role."""
    document, field = item.document, item.framework.field
    groups: dict[str, Any] = dict(document["spec"][field])
    for role, count in wanted.items():
        name = next((known for known in groups if known.lower() == role.lower()), None)
        if name is None:
            raise Refused(f"there are no replicas of the type {role}; there are {', '.join(groups)}")
        groups[name] = {**groups[name], "replicas": count}
    return {**document, "spec": {**document["spec"], field: groups}}


def relocated(document: Document, folder: Path) -> Document:
    """Return a job whose hostPaths that are created on demand are below a folder: what it has saved stays untouched."""

    def moved(value: Any) -> Any:  # noqa: ANN401 - any JSON value
        if isinstance(value, list):
            return [moved(item) for item in value]
        if not isinstance(value, dict):
            return value
        host = value.get("hostPath")
        if isinstance(host, dict) and host.get("type") in CREATED and str(host.get("path", "")).startswith("/"):
            return {**value, "hostPath": {**host, "path": f"{folder}{os.path.normpath(host['path'])}"}}
        return {key: moved(item) for key, item in value.items()}

    return {**document, "spec": moved(document["spec"])}


def baseline_sentences(base: Observation) -> tuple[str, ...]:
    """Return sentences about the run without a fault."""
    if not base.reports:
        return (f"no step was seen in {base.ended - base.began:.0f} s: {base.ending}, {base.state}",)
    first, last = base.reports[0], base.reports[-1]
    sentences = [f"without a fault: steps {first.step} to {last.step} in {last.at - base.began:.1f} s"]
    if first.loss is not None and last.loss is not None:
        sentences[0] += f", loss {first.loss:g} to {last.loss:g}"
    saved = checkpoints.found(base.files, base.reports, base.folders)
    if saved.times:
        how = "each a new file that was renamed" if saved.renamed else "written in place"
        sentences.append(f"it saved {len(saved.times)} times: {', '.join(saved.names)}, {how}")
    else:
        sentences.append(f"no checkpoint was seen{f': {base.unseen_files}' if base.unseen_files else ''}")
    return tuple(sentences)


def _interruptible() -> None:
    """Let signals end the drill between two runs, each of which has handlers of its own."""
    for number in SIGNALS:
        signal.signal(number, _interrupt)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """End the drill by the first signal; a second one would interrupt its end."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)
