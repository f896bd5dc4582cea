"""What is written below folders is seen, and who has a file open."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from pathlib import Path

import pytest

from trainshed.drill import file_events
from trainshed.drill.file_events import CLOSE_WRITE, MOVED_TO, FileEvents, empty, writers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what is written")


@pytest.fixture
async def watched(tmp_path):
    events = FileEvents(lambda: 1.0)
    events.start([tmp_path])
    yield events
    events.stop()


def shown(events: FileEvents, root: Path, kind: int) -> list[str]:
    events.catch_up()
    return [str(Path(event.path).relative_to(root)) for event in events.found if event.kind == kind]


async def test_files_in_new_folders_are_seen_too(tmp_path, watched):
    (tmp_path / "a" / "b").mkdir(parents=True)
    await asyncio.sleep(0.05)
    (tmp_path / "a" / "b" / "draft").write_text("x")
    (tmp_path / "a" / "b" / "draft").rename(tmp_path / "a" / "b" / "final")
    assert shown(watched, tmp_path, CLOSE_WRITE) == ["a/b/draft"]
    assert shown(watched, tmp_path, MOVED_TO) == ["a/b/final"]
    assert watched.problem == ""


async def test_only_what_is_appended_has_grown(tmp_path, watched):
    for text, how in (("one", "w"), ("two", "a"), ("three four", "w"), ("one longer", "w")):
        with (tmp_path / "file").open(how) as file:
            file.write(text)
        watched.catch_up()
    changes = [(event.grown, event.rewritten) for event in watched.found if event.grown or event.rewritten]
    assert changes == [(True, False), (True, False), (False, True), (False, True)]


async def test_a_write_is_reported_at_once(tmp_path, watched):
    written: list[Path] = []
    watched.on_write = written.append
    (tmp_path / "file").write_text("x")
    await asyncio.sleep(0.05)
    assert written[0] == tmp_path / "file"


async def test_a_file_is_complete_with_the_size_of_the_last_one(tmp_path, watched):
    (tmp_path / "1.pt").write_text("x" * 100)
    watched.catch_up()
    for name, size, complete in (("1.pt", 90, True), ("1.pt", 50, False), ("2.pt", 95, True), ("2.txt", 95, False)):
        with (tmp_path / name).open("w") as file:
            file.write("x" * size)
            file.flush()
            assert watched.is_complete(tmp_path / name) == complete
    assert not watched.is_complete(tmp_path / "none.pt")


async def test_what_is_too_much_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(file_events, "MOST_FOLDERS", 1)
    monkeypatch.setattr(file_events, "MOST_EVENTS", 1)
    (tmp_path / "a").mkdir()
    events = FileEvents(lambda: 1.0)
    events.start([tmp_path])
    assert events.problem == "the job writes in more than 1 folders, of which not all are watched"
    (tmp_path / "file").write_text("x")
    (tmp_path / "other").write_text("x")
    events.stop()
    assert events.problem == "of more than 1 writes the later ones were not followed"
    assert len(events.found) == 1


async def test_that_too_many_watch_files_is_a_problem(tmp_path, monkeypatch):
    def refuse(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(file_events, "_inotify", refuse)
    events = FileEvents(lambda: 1.0)
    events.start([tmp_path])
    events.stop()
    assert events.problem == "inotify cannot be used, and so no write is seen: Too many open files"


async def test_a_system_that_says_nothing_is_a_problem(tmp_path, monkeypatch):
    monkeypatch.setattr(file_events.sys, "platform", "darwin")
    events = FileEvents(lambda: 1.0)
    events.start([tmp_path])
    events.stop()
    assert events.problem == "this system does not say which files are written"


async def test_a_link_and_a_pipe_do_not_hold_it_up(tmp_path, watched):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/etc")
    assert len(shown(watched, tmp_path, file_events.CREATE)) == 2


def test_who_writes_a_file_is_found(tmp_path):
    path = tmp_path / "file"
    assert writers(path) is None
    with path.open("w"):
        assert writers(path) == [os.getpid()]
    with path.open():
        assert writers(path) == []


@pytest.mark.parametrize("how", ["file", "link", "folder", "hard link", "pipe"])
def test_only_a_file_of_the_volume_is_emptied(tmp_path, how):
    root, precious = tmp_path / "volume", tmp_path / "precious"
    (root / "a").mkdir(parents=True)
    precious.mkdir()
    (precious / "file").write_text("x")
    target = root / "a" / "file"
    match how:
        case "file":
            target.write_text("x")
        case "link":
            target.symlink_to(precious / "file")
        case "folder":
            (root / "a").rmdir()
            (root / "a").symlink_to(precious)
        case "hard link":
            os.link(precious / "file", target)
        case "pipe":
            os.mkfifo(target)
    if how == "file":
        empty(root, target)
        assert target.read_text() == ""
    else:
        with pytest.raises(OSError):  # noqa: PT011 - each has a number of its own
            empty(root, target)
    assert (precious / "file").read_text() == "x"


async def test_links_are_not_followed(tmp_path):
    (tmp_path / "volume").mkdir()
    (tmp_path / "precious").mkdir()
    (tmp_path / "volume" / "link").symlink_to(tmp_path / "precious")
    events = FileEvents(lambda: 1.0)
    events.start([tmp_path / "volume", tmp_path / "volume" / "link"])
    (tmp_path / "precious" / "file").write_text("x")
    events.stop()
    assert (events.found, events.problem) == ([], "")
