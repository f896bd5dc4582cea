"""The folders of runs, and what is removed of runs that were killed."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from trainshed.local.run_folder import BEGIN, is_over, new_run

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_run_is_over_when_it_is_closed(tmp_path: Path):
    run = new_run(tmp_path, "job", NOW)
    assert not is_over(run.path)
    run.close()
    assert is_over(run.path)
    assert sorted(path.name for path in run.path.iterdir()) == ["lock", "logs"]


def test_a_run_that_was_killed_before_it_had_a_lock_is_over_after_a_while(tmp_path: Path):
    unfinished = tmp_path / "runs" / "20260101-000000-job-1"
    (unfinished / "pods").mkdir(parents=True)
    assert not is_over(unfinished), "another run may just be making it"
    before = unfinished.stat().st_mtime - BEGIN - 1
    os.utime(unfinished, (before, before))
    new_run(tmp_path, "job", NOW).close()
    assert not (unfinished / "pods").exists()
