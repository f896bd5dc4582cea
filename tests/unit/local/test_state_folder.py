"""The folder that has all runs and claims of a user."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from support.second_user import OTHER_USER, only_root
from trainshed.local.state_folder import MARK, NAME, Unusable, default_place, open_state


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0, 0o022, 0o077])
def test_nobody_else_can_enter_it_whatever_the_umask(tmp_path: Path, umask):
    before = os.umask(umask)
    try:
        state = open_state(tmp_path / "new" / "place")
    finally:
        os.umask(before)
    assert {mode(path) for path in (state.path, state.path.parent, state.path.parent.parent)} == {0o700}
    assert {mode(path) & 0o077 for path in state.path.rglob("*")} == {0}
    assert state.notes == ()


def test_it_is_known_by_its_mark(tmp_path: Path):
    assert open_state(tmp_path) == open_state(tmp_path)
    assert open_state(tmp_path).known != open_state(tmp_path / "other").known


@pytest.mark.parametrize("left", [(), (f"{MARK}.abc",)])
def test_what_a_program_left_that_died_before_it_had_a_mark_gets_one(tmp_path: Path, left):
    (tmp_path / NAME).mkdir(mode=0o700)
    for name in left:
        (tmp_path / NAME / name).touch()
    assert open_state(tmp_path).known


def test_a_folder_that_others_could_read_is_made_private(tmp_path: Path):
    path = open_state(tmp_path).path
    path.chmod(0o755)
    assert open_state(tmp_path).notes == (f"other users could read {path}; now only you can",)
    assert mode(path) == 0o700


def foreign_content(place: Path) -> None:
    (place / NAME).mkdir(mode=0o700)
    (place / NAME / "events.out.tfevents").touch()


def open_content(place: Path) -> None:
    foreign_content(place)
    (place / NAME).chmod(0o755)


def an_open_folder_with_another_mark(place: Path) -> None:
    another_mark(place)
    (place / NAME).chmod(0o755)


def a_link(place: Path) -> None:
    (place / "target").mkdir()
    (place / NAME).symlink_to(place / "target")


def a_link_to_a_mark(place: Path) -> None:
    open_state(place)
    (place / NAME / MARK).rename(place / "mark")
    (place / NAME / MARK).symlink_to(place / "mark")


def another_mark(place: Path) -> None:
    open_state(place)
    (place / NAME / MARK).write_text("mine\n")


def claims_behind_a_link(place: Path) -> None:
    open_state(place)
    (place / NAME / "claims").rmdir()
    (place / NAME / "claims").symlink_to(place)


def others_may_write(place: Path) -> None:
    open_state(place).path.chmod(0o770)


def everybody_may_replace(place: Path) -> None:
    place.chmod(0o777)


def of_another_user(place: Path) -> None:
    os.chown(open_state(place).path, OTHER_USER, -1)


def claims_of_another_user(place: Path) -> None:
    os.chown(open_state(place).path / "claims", OTHER_USER, -1)


def a_mark_of_another_user(place: Path) -> None:
    os.chown(open_state(place).path / MARK, OTHER_USER, -1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (foreign_content, "has files that are not of `trainshed run`, such as events.out.tfevents; choose another"),
        (open_content, "has files that are not of `trainshed run`, such as events.out.tfevents; choose another"),
        (an_open_folder_with_another_mark, "is not a file of `trainshed run`"),
        (a_link, "is not a folder of `trainshed run`"),
        (a_link_to_a_mark, "is not a file of `trainshed run`"),
        (another_mark, "is not a file of `trainshed run`"),
        (claims_behind_a_link, "is not a folder of `trainshed run`"),
        (others_may_write, "other users can write in"),
        (everybody_may_replace, "every user can write in"),
        pytest.param(of_another_user, "belongs to another user", marks=only_root),
        pytest.param(claims_of_another_user, "belongs to another user", marks=only_root),
        pytest.param(a_mark_of_another_user, "is not a file of `trainshed run`", marks=only_root),
    ],
)
def test_what_is_not_surely_ours_is_refused_and_left_as_it_is(tmp_path: Path, change, message):
    change(tmp_path)
    before = {path: path.lstat() for path in tmp_path.rglob("*")}
    with pytest.raises(Unusable, match=message):
        open_state(tmp_path)
    after = {path: path.lstat() for path in tmp_path.rglob("*")}
    assert {path: (found.st_mode, found.st_mtime_ns) for path, found in after.items()} == {
        path: (found.st_mode, found.st_mtime_ns) for path, found in before.items()
    }


@only_root
def test_a_place_in_the_folder_of_another_user_is_named(tmp_path: Path):
    os.chown(tmp_path, OTHER_USER, -1)
    (note,) = open_state(tmp_path).notes
    assert note == f"{tmp_path} belongs to another user, who can replace what a run keeps below it"


def test_a_user_without_a_home_is_asked_for_a_folder(monkeypatch):
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", lambda: Path("~nobody-of-this-name").expanduser())
    with pytest.raises(Unusable, match="choose a folder with --state"):
        default_place()


@pytest.mark.parametrize(
    ("state_home", "home", "expected"),
    [
        ("/s", "/h", "/s"),
        ("", "/h", "/h/.local/state"),
        ("relative", "/h", "/h/.local/state"),
        ("relative", "relative", None),
        ("", "", None),
    ],
)
def test_only_absolute_paths_of_the_environment_count(monkeypatch, state_home, home, expected):
    monkeypatch.setenv("XDG_STATE_HOME", state_home)
    monkeypatch.setenv("HOME", home)
    if expected:
        assert default_place() == Path(expected)
        return
    with pytest.raises(Unusable, match="choose a folder with --state"):
        default_place()


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("/proc/x", "/proc/x cannot be used: No such file or directory"),
        ("/dev/null/x", "/dev/null/x cannot be used: Not a directory"),
        ("{}/loop", "{}/loop is a symbolic link that leads nowhere"),
        ("{}/gone/below", "{}/gone is a symbolic link that leads nowhere"),
        ("{}/" + "a" * 300, "cannot be used: File name too long"),
    ],
)
def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, place, why):
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "gone").symlink_to("nowhere")
    with pytest.raises(Unusable) as refused:
        open_state(Path(place.format(tmp_path)))
    assert f"{why.format(tmp_path)}; choose another folder with --state" in str(refused.value)
