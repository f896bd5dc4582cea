"""What the files that a training writes say about its checkpoints, pure functions of what was seen of them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

from trainshed.api.foreign_text import one_line

from .file_events import CLOSE_WRITE, CREATE, MODIFY, MOVED_FROM, MOVED_TO, FileEvent
from .observation import StepReport

#: At how many different steps a file has grown, and nothing else, that is a log.
GROWN = 3
#: The most characters of a name that are shown.
SHOWN = 200
#: The events of files that are renamed.
MOVES = (MOVED_FROM, MOVED_TO)
#: The folder of a pod's volumes, in which each pod has one by its uid, and what a kubelet makes there.
POD_FOLDER = re.compile(r"(0/)[^/]+/")
OWN = re.compile(r"0/(?:[^/]+|[^/]+/[^/]+\.termination|(?:bin|exec|links|shared)/.*)")


class Checkpoints(msgspec.Struct, frozen=True):
    """The files that were written after the first step, without those that only grow.

    `names` are the last ones, `times` is when each was complete, `renamed` whether each was written elsewhere first,
    and `with_pod` whether all are in volumes that end with their pod.
    """

    names: tuple[str, ...] = ()
    times: tuple[float, ...] = ()
    renamed: bool = False
    with_pod: bool = False


def relative(path: str, roots: Sequence[str]) -> str:
    """Return the path of a file in one of the folders, with the number of that; that of a volume without its pod."""
    for number, root in enumerate(roots):
        if path.startswith(f"{root}/"):
            return POD_FOLDER.sub(r"\1*/", f"{number}/{path[len(root) + 1 :]}")
    return path


def logs(files: Iterable[FileEvent], reports: Sequence[StepReport], roots: Sequence[str]) -> frozenset[str]:
    """Return the files that only grow while the training goes on."""
    times = [report.at for report in reports]
    by_path: dict[str, list[FileEvent]] = {}
    for event in files:
        by_path.setdefault(relative(event.path, roots), []).append(event)
    return frozenset(path for path, events in by_path.items() if _is_log(events, times))


def _is_log(events: Sequence[FileEvent], times: Sequence[float]) -> bool:
    grown = {bisect_right(times, event.at) for event in events if event.grown}
    return len(grown) >= GROWN and not any(event.rewritten or event.kind in MOVES for event in events)


def is_own(path: str) -> bool:
    """Return whether a kubelet writes at this path, and not the job."""
    return bool(OWN.fullmatch(path))


def no_checkpoints(files: Iterable[FileEvent], reports: Sequence[StepReport], roots: Sequence[str]) -> frozenset[str]:
    """Return the files that are none: those that only grow, and those that were renamed when they were complete."""
    return logs(files, reports, roots) | {relative(event.path, roots) for event in files if event.kind == MOVED_FROM}


def found(
    files: Iterable[FileEvent],
    reports: Sequence[StepReport],
    roots: Sequence[str],
    others: frozenset[str] = frozenset(),
) -> Checkpoints:
    """Return what is known of the checkpoints of a run; `others` are no checkpoints, as another run has shown."""
    if not reports:
        return Checkpoints()
    own_logs = logs(files, reports, roots) | others
    events = [
        (relative(event.path, roots), event)
        for event in files
        if event.at >= reports[0].at and event.kind != MOVED_FROM
    ]
    events = [(path, event) for path, event in events if path not in own_logs and not is_own(path)]
    whole = [(path, event) for path, event in events if event.kind in (CLOSE_WRITE, MOVED_TO)]
    left = {relative(event.path, roots) for event in files if event.kind == MOVED_FROM}
    final = [(path, event) for path, event in whole if path not in left]
    if not final:
        return Checkpoints()
    return Checkpoints(
        names=tuple(dict.fromkeys(one_line(path.rpartition("/")[2], SHOWN) for path, _ in reversed(final)))[:3],
        times=tuple(event.at for _, event in final),
        renamed=all(event.renamed for _, event in final),
        with_pod=all(path.startswith("0/*/") for path, _ in final),
    )


def interval(files: Iterable[FileEvent], reports: Sequence[StepReport], roots: Sequence[str]) -> int:
    """Return the most steps between two checkpoints."""
    if not reports:
        return 0
    times = [report.at for report in reports]
    at = sorted({reports[bisect_right(times, time) - 1].step for time in found(files, reports, roots).times})
    return max((second - first for first, second in pairwise(at)), default=0)


def was_last_in_place(files: Sequence[FileEvent], path: str) -> bool:
    """Return whether a file was written where it is, and nothing was written after it."""
    own = [event for event in files if event.path == path]
    written = [event for event in files if event.kind in (CREATE, MODIFY, CLOSE_WRITE, MOVED_TO)]
    return bool(written) and written[-1].path == path and not any(event.kind in MOVES for event in own)
