"""Finds what a run on this machine has left of its jobs."""

from __future__ import annotations

from pathlib import Path

from trainshed.api import run_history
from trainshed.client.job_reader import NoSuchJob
from trainshed.decisions.recording import FILE, MOST_LINE, MOST_READ


def is_kept(file: Path, most: int) -> bool:
    """Return whether there is a file that a run has written; raises `NoSuchJob` if it has more than `most` bytes."""
    if not file.is_file():
        return False
    if file.stat().st_size > most:
        raise NoSuchJob(f"{file} is too large for what a run writes")
    return True


def history_of(folder: Path) -> bytes:
    """Return what the folder of a run has of its jobs, or the folder above if it is that of the logs.

    Raises `NoSuchJob` and `OSError`.
    """
    if not folder.is_dir():
        raise NoSuchJob(f"{folder} is no folder: trainshed run names that of a run at its end")
    for file in (folder / run_history.FILE, folder.absolute().parent / run_history.FILE):
        if is_kept(file, run_history.MOST_BYTES):
            return file.read_bytes()
    raise NoSuchJob(f"{folder} has no {run_history.FILE}: the run goes on, or was killed, or it is no folder of a run")


def decision_lines(folder: Path) -> list[bytes]:
    """Return the lines of the decisions of a run; raises `NoSuchJob` and OSError."""
    file = folder / FILE
    if not is_kept(file, MOST_READ):
        raise NoSuchJob(f"{folder} has no {FILE}: it is no folder of a run, or one of an earlier version")
    with file.open("rb") as opened:
        return [*iter(lambda: opened.readline(MOST_LINE), b"")]
