"""Logs do not grow without end: the newest parts are kept, each of whole lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainshed.local.output import Output
from trainshed.local.runtimes.log_file import FILES, LARGEST, LINE

POD = {"metadata": {"name": "job-worker-0", "labels": {}}, "spec": {"containers": [{"name": "main"}]}}
NAMES = ["job-worker-0.log", *(f"job-worker-0.log.{number}" for number in range(1, FILES))]


def written(folder: Path, chunk: bytes, times: int) -> list[bytes]:
    """Print a chunk many times; return the files that there are then, the newest first."""
    output = Output(folder, only=("none",), write=lambda _: None)
    for number in range(times):
        output.write(POD, "main", chunk % number)
    output.close()
    assert {path.name for path in folder.iterdir()} <= set(NAMES)
    return [(folder / name).read_bytes() for name in NAMES if (folder / name).exists()]


@pytest.mark.parametrize("chunk", [b"%08d" + b"x" * 60_000 + b"\n", b"x" * 30_000 + b"\n%08d\n"])
@pytest.mark.parametrize(("sizes", "files"), [(0.9, 1), (1.5, 2), (7, FILES)])
def test_the_newest_parts_of_a_log_are_kept_and_no_line_is_lost_or_cut_between_them(tmp_path, chunk, sizes, files):
    size = len(chunk % 0)
    times = int(sizes * LARGEST) // size
    found = written(tmp_path, chunk, times)
    assert len(found) == files
    assert all(len(part) <= LARGEST + LINE and part.endswith(b"\n") for part in found)
    kept = b"".join(reversed(found))
    assert len(kept) >= min(times * size, (FILES - 1) * (LARGEST - LINE))
    assert b"".join(chunk % number for number in range(times - len(kept) // size - 1, times)).endswith(kept)


def test_a_line_without_end_does_not_fill_the_disk(tmp_path):
    chunk = b"%d" + b"x" * 60_000
    found = written(tmp_path, chunk, 8 * LARGEST // len(chunk))
    assert (len(found), max(map(len, found)) <= LARGEST + 3 * LINE) == (FILES, True)
