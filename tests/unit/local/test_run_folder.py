"""The folders of runs, and what is removed of runs that were killed."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from support.local_runs import permitted
from support.second_user import OTHER_USER, only_root, open_folder
from trainshed.local import place, run_folder
from trainshed.local.run_folder import BEGIN, KEPT, LOCK, NEW, RunFolder, is_over, kill_marked, new_run
from trainshed.local.state_folder import Unusable

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


def test_a_disk_that_is_full_is_named_by_the_folder_on_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    new_run(tmp_path, "before", NOW).close()
    monkeypatch.setattr(run_folder.os, "fsync", full)
    with pytest.raises(Unusable, match=rf"^{tmp_path}/.*-job-\d+ cannot be made: No space left on device; choose an"):
        new_run(tmp_path, "job", NOW)


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
        pytest.param(
            lambda run: replaced(run, f"trainshed run {run.path.name}\non elsewhere\n"), id="of another machine"
        ),
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
        known = [path for path in known if run.path.name not in path]
    next_run(tmp_path)
    assert set(known) <= set(listed(tmp_path))


def test_a_run_of_another_machine_that_has_ended_is_over(tmp_path: Path):
    run = new_run(tmp_path, "job", NOW)
    run.close()
    replaced(run, f"trainshed run {run.path.name}\non elsewhere\n")
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


def in_a_copy(project: Path) -> Path:
    return shutil.copytree(project, project.parent / "copy", symlinks=True)


def from_a_backup(project: Path) -> Path:
    backup = in_a_copy(project)
    project.rename(project.parent / "before")
    return backup.rename(project)


def in_the_same_folder(project: Path) -> Path:
    """Put copies of all files in the place of the files, as a backup does that is restored over them."""
    shutil.copytree(project, project.parent / "backup", symlinks=True)
    for file in project.rglob(LOCK):
        file.unlink()
    return shutil.copytree(project.parent / "backup", project, symlinks=True, dirs_exist_ok=True, ignore=links)


def links(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if Path(folder, name).is_symlink()]


@pytest.mark.parametrize("copied_as", [in_a_copy, from_a_backup, in_the_same_folder])
@pytest.mark.parametrize("begun", ["at this start", "before"])
def test_a_run_that_goes_on_is_not_ended_by_one_that_has_a_copy_of_its_folder(
    tmp_path: Path, monkeypatch, copied_as, begun
):
    run = new_run(tmp_path / "project", "job", NOW)
    (tmp_path / "trainshed-links").mkdir()
    run.links.symlink_to(tmp_path / "trainshed-links")
    (tmp_path / "trainshed-links" / "0").symlink_to("/etc")
    place = copied_as(tmp_path / "project")
    if begun == "before":
        started_again(tmp_path, monkeypatch)
    with a_process(run.id) as process:
        later = new_run(place, "later", NOW)
        process.stdin.close()
        assert process.wait() == 0, "killed"
    assert (tmp_path / "trainshed-links" / "0").is_symlink()
    assert not later.is_over(run.id)
    copy = later.root / run.path.name
    assert copy.joinpath("pods").exists()
    (note,) = [note for note in later.notes() if "left as they are" in note]
    assert note.endswith(f"if no run needs it: rm -rf {copy}/pods")


def test_a_folder_and_its_copy_are_not_known_by_the_same_text(tmp_path: Path):
    before = new_run(tmp_path / "project", "job", NOW)
    copy = in_a_copy(tmp_path / "project")
    known = {new_run(path, "later", NOW).known for path in (tmp_path / "project", copy)}
    assert len(known) == 2
    assert before.known in known
    assert new_run(copy, "again", NOW).known in known


def started_again(folder: Path, monkeypatch) -> None:
    """Let the machine look as if it had been started again."""
    (folder / "boot").write_text("another start\n")
    monkeypatch.setattr(place, "BOOT", folder / "boot")


@pytest.mark.parametrize(
    ("change", "removed"),
    [
        pytest.param(lambda run, patch: None, True, id="the same machine"),
        pytest.param(lambda run, patch: patch.setattr(place, "LOCAL", ()), False, id="a home that others may have"),
        pytest.param(
            lambda run, patch: replaced(run, (run.path / LOCK).read_text().replace("\non ", "\non not-")),
            False,
            id="another machine",
        ),
    ],
)
def test_what_a_run_has_left_from_before_the_start_of_the_machine_is_removed_if_no_other_machine_has_it(
    tmp_path: Path, monkeypatch, change, removed
):
    run = killed(tmp_path)
    known = run.known
    change(run, monkeypatch)
    started_again(tmp_path, monkeypatch)
    with a_process(run.id) as process:
        later = new_run(tmp_path, "later", NOW)
        process.stdin.close()
        assert process.wait() == 0, "it has the same mark, but no process is older than the start of the machine"
    assert run.pods.exists() is not removed
    assert later.is_over(run.id) is (None if removed else False)
    assert later.known == known


#: Fails to remove what another user has written, prints what is said of it, and lets the owner remove it.
STUCK = """
import os, sys
from datetime import datetime
from pathlib import Path
from trainshed.local.run_folder import new_run
place = Path(sys.argv[1])
os.setegid(65534); os.seteuid(65534)
killed = new_run(place, "job", datetime(2026, 1, 1))
os.seteuid(0)
(killed.pods / "v" / "cache").mkdir(parents=True); (killed.pods / "v" / "cache").chmod(0o755)
(killed.pods / "v" / "cache" / "shard").touch()
os.seteuid(65534)
if sys.argv[2] == "closed":
    print(killed.close())
else:
    os.close(killed.lock)
later = new_run(place, "later", datetime(2026, 1, 1))
print(*later.stuck, *later.notes(), sep="\\n")
os.seteuid(0)
os.rename(killed.pods, place / "removed")
print(later.notes(), file=sys.stderr)
"""


@only_root
@pytest.mark.parametrize("end", ["closed", "killed"])
def test_what_cannot_be_removed_is_named(end):
    with open_folder() as folder:
        os.chown(folder, OTHER_USER, OTHER_USER)
        done = subprocess.run([sys.executable, "-c", STUCK, folder, end], capture_output=True, text=True, check=True)
        (run,) = (folder / "trainshed-runs").glob("*-job-*")
        note = f"what containers have written cannot be removed by you: sudo rm -rf {run}/pods"
        assert done.stdout.splitlines() == [*([note] if end == "closed" else ()), f"{run}/pods", note]
        assert done.stderr == "[]\n"


@contextmanager
def a_process(run: str, user: int | None = None) -> Iterator[subprocess.Popen]:
    """A process of a run, which ends with its standard input."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(["cat"], env={"PATH": os.defpath, run_folder.MARK: run}, user=user, **pipes) as process:
        process.stdin.write(b"begun\n")
        process.stdin.flush()
        assert process.stdout.readline()
        yield process


@only_root
@pytest.mark.parametrize(("user", "killed_too"), [(0, True), (OTHER_USER, False)])
def test_only_own_processes_are_killed(user, killed_too):
    run = f"20260101-000000-job-{os.getpid()}"
    with a_process(run, user) as process:
        kill_marked(run)
        process.stdin.close()
        assert (process.wait() != 0) is killed_too


#: A run with a mount in its volumes, in a mount namespace: prints what is said at its end, or by the next run, what an
#: engine is asked to remove, and what is there before and after the mount has gone.
MOUNTED = """
import asyncio, os, subprocess, sys
from datetime import UTC, datetime
from pathlib import Path
from trainshed.local.run_folder import new_run
from trainshed.local.runtimes.docker_cli import DockerCli
from trainshed.local.runtimes.leftovers import Leftovers
place, end, prepare = Path(sys.argv[1]), *sys.argv[2:]
os.chdir(place)
run = new_run(place / "state", "job", datetime.now(UTC))
(run.pods / "v/set").mkdir(parents=True)
(run.pods / "secret").touch()
subprocess.run(["sh", "-euc", prepare], check=True, env={**os.environ, "V": str(run.pods / "v"), "POD": str(run.pods)})
share = sorted((str(path), path.stat().st_mode) for path in place.glob("share/**/*"))
notes = [run.close()] if end == "closed" else os.close(run.lock) or []
later = new_run(place / "state", "later", datetime.now(UTC))
Path("docker").write_text("#!/bin/sh\\ntouch asked\\n")
Path("docker").chmod(0o755)
asyncio.run(Leftovers(DockerCli(str(place / "docker")), later, print).empty(["image"], lambda folder: []))
assert not Path("asked").exists()
for note in [*notes, *later.notes()]:
    assert "umount" in note and "rm " not in note, note
    words = note.partition(": umount ")[2].partition(";")[0].partition(" (")[0]
    print(words.replace(str(run.pods), ""))
assert share == sorted((str(path), path.stat().st_mode) for path in place.glob("share/**/*")), "lost"
assert not list(run.pods.glob("secret*")), "what is not mounted is removed"
while words:
    subprocess.run(["sh", "-c", f"umount {words}"], check=True)
    last = new_run(place / "state", f"last{len(words)}", datetime.now(UTC))
    words = "".join(note.partition(": umount ")[2].partition(";")[0].partition(" (")[0] for note in last.notes())
assert not run.pods.exists()
"""


@pytest.mark.parametrize("end", ["closed", "killed"])
@pytest.mark.parametrize(
    ("mount", "where"),
    [
        ("mount --bind share $V/set", "/v/set"),
        ("chmod 0 share/old; mount --bind share/old $V", "/v"),
        ("mount -t tmpfs none $V; mkdir $V/set; mount --bind share $V/set", "/v/set"),
        ("touch $V/file; mount --bind share/thesis $V/file", "/v/file"),
        ("mkdir -p $V/$D; mount --rbind share $V/$D", "deep"),
        ("mkdir $V/'a  b'; mount --bind share $V/'a  b'", "'/v/a  b'"),
        ("rm $POD/secret; mount --bind share $POD", ""),
    ],
)
def test_nothing_that_a_job_has_mounted_is_removed_with_its_volume(tmp_path, mount, where, end):
    permitted("namespaces")
    (tmp_path / "share/old").mkdir(parents=True)
    (tmp_path / "share/old/images").write_text("dataset")
    (tmp_path / "share/thesis").write_text("thesis")
    command = ["unshare", "--user", "--map-root-user", "--mount", sys.executable, "-c", MOUNTED, tmp_path, end]
    variables = os.environ | {"D": "/".join("d" * 120)}
    done = subprocess.run([*command, mount], capture_output=True, text=True, env=variables, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "share/old/images").read_text() == "dataset"
    if where != "deep":
        assert done.stdout.splitlines() == [where] * (2 if end == "closed" else 1)
