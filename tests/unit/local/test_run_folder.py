"""The folders of runs, and what is removed of runs that were killed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from support.second_user import OTHER_USER, only_root, open_folder
from trainshed.local import run_folder
from trainshed.local.run_folder import BEGIN, KEPT, LOCK, NEW, RunFolder, is_over, kill_marked, new_run

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def killed(place: Path) -> RunFolder:
    """Return the folder of a run whose process has been killed."""
    run = new_run(place, "job", NOW)
    (run.pods / "v").mkdir()
    os.close(run.lock)
    return run


def listed(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def aged(folder: Path) -> None:
    before = folder.stat().st_mtime - BEGIN - 1
    os.utime(folder, (before, before))


def next_run(place: Path) -> None:
    """Let a later run clean up."""
    new_run(place, "later", NOW).close()


def test_a_run_is_over_when_it_is_closed(tmp_path: Path):
    run = new_run(tmp_path, "job", NOW)
    assert not is_over(run.path)
    run.close()
    assert is_over(run.path)
    assert listed(run.path) == ["logs", LOCK]


def test_the_volumes_of_a_killed_run_are_removed_and_its_logs_stay(tmp_path: Path):
    run = killed(tmp_path)
    next_run(tmp_path)
    assert listed(run.path) == ["logs", LOCK]


#: Makes a folder with 1500 folders in it, one below the other, which even their user can neither read nor change.
NEST = """
import ctypes, os, sys
from pathlib import Path
from trainshed.local.paths import remove
if not os.geteuid():
    os.setresgid(*[65534] * 3); os.setresuid(*[65534] * 3); ctypes.CDLL(None).prctl(4, 1)  # its /proc is its own
os.makedirs("pods/v"); os.chdir("pods/v")
for _ in range(1500):
    os.mkdir("d"); os.chdir("d"); open("file", "w").close(); os.symlink("/etc", "link"); os.chmod("..", 0)
os.chdir(sys.argv[1]); remove(Path("pods"))
"""


def test_volumes_are_removed_however_deep_and_with_whatever_modes_their_folders_are():
    with open_folder() as folder:
        folder.chmod(0o777)
        subprocess.run([sys.executable, "-c", NEST, folder], cwd=folder, check=True)
        assert listed(folder) == []


def test_the_logs_of_the_last_runs_are_kept(tmp_path: Path):
    for day in range(1, KEPT + 3):
        new_run(tmp_path, "job", NOW.replace(day=day)).close()
    found = sorted(path.name[:8] for path in (tmp_path / "trainshed-runs").glob("2*"))
    assert (len(found), found[0]) == (KEPT + 1, "20260102"), "the last one was not there when it cleaned up"


def replaced(run: RunFolder, text: str) -> None:
    (run.path / LOCK).write_text(text)


def moved(run: RunFolder) -> None:
    run.path.rename(run.path.with_name("20260101-000000-kept-1"))


def copied(run: RunFolder) -> None:
    shutil.copytree(run.path, run.path.with_name("20260101-000000-kept-1"))


def linked(run: RunFolder) -> None:
    run.path.rename(run.path.parent.parent / "elsewhere")
    run.path.symlink_to(run.path.parent.parent / "elsewhere")


def marked_by_a_link(run: RunFolder) -> None:
    (run.path / LOCK).rename(run.path.parent / "lock")
    (run.path / LOCK).symlink_to(run.path.parent / "lock")


def marked_by_a_folder(run: RunFolder) -> None:
    (run.path / LOCK).unlink()
    (run.path / LOCK).mkdir()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda run: (run.path / LOCK).unlink(), id="without a mark"),
        pytest.param(lambda run: replaced(run, ""), id="with an empty mark"),
        pytest.param(lambda run: replaced(run, "trainshed run another\non here\n"), id="with the mark of another"),
        pytest.param(lambda run: replaced(run, f"trainshed run {run.name}\non elsewhere\n"), id="of another machine"),
        pytest.param(lambda run: os.chown(run.path, OTHER_USER, -1), marks=only_root, id="of another user"),
        pytest.param(
            lambda run: os.chown(run.path / LOCK, OTHER_USER, -1), marks=only_root, id="marked by another user"
        ),
        pytest.param(lambda run: run.path.rename(run.path.with_name("best")), id="renamed"),
        *(moved, copied, linked, marked_by_a_link, marked_by_a_folder),
    ],
)
def test_what_is_not_surely_the_folder_of_an_ended_run_is_left_alone(tmp_path: Path, change):
    run = killed(tmp_path)
    change(run)
    known = [path for path in listed(tmp_path) if "later" not in path]
    for folder in (tmp_path / "trainshed-runs").iterdir():
        if folder.is_dir() and not folder.is_symlink():
            aged(folder)
    if change is copied:
        known = [path for path in known if run.name not in path]
    next_run(tmp_path)
    assert set(known) <= set(listed(tmp_path))


def test_a_run_of_another_machine_that_has_ended_is_over(tmp_path: Path):
    run = new_run(tmp_path, "job", NOW)
    run.close()
    replaced(run, f"trainshed run {run.name}\non elsewhere\n")
    assert is_over(run.path)


@pytest.mark.parametrize("files", [(), (NEW,)])
def test_a_run_that_was_killed_before_it_had_a_mark_is_removed_after_a_while(tmp_path: Path, files):
    next_run(tmp_path)
    unfinished = tmp_path / "trainshed-runs" / "20260101-000000-job-1"
    unfinished.mkdir()
    for file in files:
        (unfinished / file).touch()
    next_run(tmp_path / "elsewhere")
    run_folder.clean_up(unfinished.parent)
    assert unfinished.exists(), "another run may just be making it"
    aged(unfinished)
    run_folder.clean_up(unfinished.parent)
    assert not unfinished.exists()


@pytest.mark.parametrize("name", ["pods", "pods/v", "pods/v/link"])
def test_links_in_a_folder_that_is_removed_are_not_followed(tmp_path: Path, name):
    run = killed(tmp_path / "state")
    own = tmp_path / "own"
    own.mkdir()
    (own / "result").touch()
    shutil.rmtree(run.path / name, ignore_errors=True)
    (run.path / name).symlink_to(own)
    next_run(tmp_path / "state")
    assert listed(own) == ["result"]


@only_root
@pytest.mark.parametrize(("user", "killed_too"), [(0, True), (OTHER_USER, False)])
def test_only_own_processes_are_killed(user, killed_too):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    run = f"20260101-000000-job-{os.getpid()}"
    with subprocess.Popen(["cat"], env={"PATH": os.defpath, run_folder.MARK: run}, user=user, **pipes) as process:
        process.stdin.write(b"begun\n")
        process.stdin.flush()
        assert process.stdout.readline()
        kill_marked(run)
        process.stdin.close()
        assert (process.wait() != 0) is killed_too
