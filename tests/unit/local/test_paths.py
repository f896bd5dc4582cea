"""Paths below a folder lead to what is in it, whatever links there are, as with RESOLVE_BENEATH of Linux."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.local_runs import permitted
from trainshed.local.paths import Creation, opened, resolve, write

OPENAT2, O_PATH, BENEATH, NO_MAGICLINKS = 437, getattr(os, "O_PATH", 0), 0x08, 0x02
PARTS = ("a", "b", "c")
NAMES = st.lists(st.sampled_from(PARTS), min_size=1, max_size=3).map("/".join)
#: Where links lead: below, above, to nothing, to themselves, out.
STEPS = st.lists(st.sampled_from((*PARTS, "..", ".")), max_size=4)
TARGETS = st.tuples(STEPS, st.sampled_from((*PARTS, ".."))).map(lambda steps: "/".join([*steps[0], steps[1]]))
TARGETS |= st.sampled_from(["/", "/etc", "..", "../..", ".", "//a"])
TREES = st.lists(st.tuples(NAMES, st.one_of(st.none(), st.just(b"x"), TARGETS)), max_size=8)
PATHS = st.lists(st.sampled_from(PARTS), min_size=1, max_size=4).map("/./".join)


def plant(root: Path, tree: list[tuple[str, object]]) -> None:
    """Make folders, files and links; those that cannot be made are left out."""
    for name, what in tree:
        try:
            parent = (root / name).parent
            parent.mkdir(parents=True, exist_ok=True)
            if not parent.resolve().is_relative_to(root.resolve()):
                continue
            if what is None:
                (root / name).mkdir(exist_ok=True)
            elif isinstance(what, bytes):
                (root / name).write_bytes(what)
            else:
                (root / name).symlink_to(str(what))
        except OSError:
            continue


def kernel(root: Path, path: str) -> tuple[int, int] | None:
    """What openat2 opens: the device and the number of the file, None if it refuses."""
    how = struct.pack("QQQ", O_PATH, 0, BENEATH | NO_MAGICLINKS)
    with opened(root) as folder:
        found = ctypes.CDLL(None, use_errno=True).syscall(OPENAT2, folder, path.encode(), how, len(how))
    if found < 0:
        return None
    status = os.fstat(found)
    os.close(found)
    return status.st_dev, status.st_ino


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has openat2")
@settings(max_examples=200)
@given(TREES, PATHS)
def test_a_path_leads_where_openat2_leads(tree, path):
    top = Path(tempfile.mkdtemp())
    root = top / "above" / "root"
    root.mkdir(parents=True)
    try:
        plant(root, tree)
        try:
            found = resolve(root, path, links=True)
            status = found.lstat()
            mine = status.st_dev, status.st_ino
            assert found == found.resolve(), "it has no links"
            assert found.is_relative_to(root.resolve())
        except OSError:
            mine = None
        assert mine == kernel(root, path)
    finally:
        shutil.rmtree(top)


def snapshot(top: Path, without: Path) -> dict[str, tuple]:
    """What is there besides a folder: types, modes and contents."""
    return {
        str(path): (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"", path.lstat().st_mtime_ns)
        for path in (top, *sorted(top.rglob("*")))
        if path != without and without not in path.parents
    }


@pytest.mark.slow
@settings(max_examples=150)
@given(TREES, PATHS | TARGETS, st.booleans(), st.sampled_from([None, 0o600]))
def test_nothing_outside_is_created_or_changed(tree, path, links, file):
    top = Path(tempfile.mkdtemp())
    root = top / "a" / "root"
    root.mkdir(parents=True)
    (top / "b").write_text("precious")
    (top / "a" / "c").mkdir()
    try:
        plant(root, [*tree, ("out", "../c"), ("home", "../../b")])
        before = snapshot(top, root)
        for attempt in (path, f"out/{path}", f"home/{path}", "home"):
            with contextlib.suppress(OSError):
                assert resolve(root, attempt, Creation(0o700, file), links=links).is_relative_to(root.resolve())
            with contextlib.suppress(OSError, ValueError), opened(root) as folder:
                write(folder, attempt, b"hostile", Creation(0o777, 0o666))
        assert snapshot(top, root) == before
    finally:
        shutil.rmtree(top)


def test_a_file_is_written_in_place_of_whatever_is_there(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("precious")
    root = tmp_path / "root"
    (root / "tree" / "x").mkdir(parents=True)
    (root / "link").symlink_to(outside / "f")
    (root / "folder").symlink_to(outside)
    (root / "file").write_text("old")
    with opened(root) as folder:
        for path in ("link", "folder/f", "tree", "file/f", "new/f"):
            write(folder, path, b"new", Creation(0o750, 0o640))
            assert (root / path).read_text() == "new"
            assert (root / path).lstat().st_mode & 0o777 == 0o640
    assert [path.name for path in outside.iterdir()] == ["f"]
    assert (outside / "f").read_text() == "precious"
    assert (root / "new").stat().st_mode & 0o777 == 0o750
    assert not list(root.rglob("..*")), "no unfinished file is left"


#: Writes in a folder in which something is mounted, and in place of a folder in which something is.
WRITES = """
import os, subprocess
from trainshed.local.paths import Creation, write
subprocess.run("mount --bind share root/in; mount --bind share root/f/in", shell=True, check=True)
for path in ("in/thesis", "in/new/f", "f"):
    try:
        write(os.open("root", os.O_RDONLY), path, b"new", Creation(0o700, 0o600))
    except OSError as error:
        print(path)
print(*os.listdir("share"))
"""


def test_nothing_is_written_in_what_a_container_has_mounted(tmp_path):
    permitted("namespaces")
    for folder in ("share/thesis", "root/in", "root/f/in"):
        (tmp_path / folder).mkdir(parents=True)
    command = ["unshare", "--user", "--map-root-user", "--mount", sys.executable, "-c", WRITES]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["in/thesis", "in/new/f", "f", "thesis"], done.stderr
