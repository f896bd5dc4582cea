"""The folder with the links that stand for paths with spaces is out of reach of other users."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from support.second_user import OTHER_USER
from trainshed.local.runtimes.protocol import ContainerSpec, Mount, SandboxSpec
from trainshed.local.runtimes.replaced_paths import ReplacedPaths, remove_links


@pytest.mark.parametrize(
    ("foreign", "through_a_link", "is_used"),
    [(False, False, True), (False, True, True), (True, False, False), (True, True, False)],
)
def test_a_folder_for_temporary_files_of_another_user_is_not_used(
    tmp_path, monkeypatch, foreign, through_a_link, is_used
):
    above = tmp_path / "above"
    (above / "tmp").mkdir(parents=True)
    (tmp_path / "link").symlink_to("above/tmp")
    chosen = tmp_path / "link" if through_a_link else above / "tmp"
    monkeypatch.setattr(tempfile, "tempdir", str(chosen))
    if foreign and os.geteuid() == 0:
        os.chown(above, OTHER_USER, OTHER_USER)
    elif foreign:
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    paths = ReplacedPaths(tmp_path / "links")
    spec = ContainerSpec("c", "i", mounts=(Mount(tmp_path / "a b", "/data"),))
    found = paths.of(SandboxSpec("ml", "job-master-0", "u", "job", tmp_path), spec)["/data"]
    assert Path(found).readlink() == tmp_path / "a b"
    assert found.startswith(f"{above / 'tmp' if is_used else '/tmp'}/trainshed-")
    paths.close()
    assert not os.path.lexists(found)


@pytest.mark.parametrize("foreign", [True, False])
def test_only_links_in_a_folder_of_this_user_are_removed(tmp_path, monkeypatch, foreign):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/link").symlink_to("/")
    (tmp_path / "note").symlink_to(tmp_path / "mine" if foreign else tmp_path / "trap")
    (tmp_path / "trap").symlink_to("mine")
    if foreign:
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    remove_links(tmp_path / "note")
    assert (tmp_path / "mine/link").is_symlink()
