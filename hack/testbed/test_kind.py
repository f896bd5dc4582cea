"""The kind cluster's paths on this machine are those of its configuration, and it is deleted for certain."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from testbed import kind
from testbed.steps import StepFailed

#: Takes the place of kind: it fails with a message as long as a file exists, which it removes.
KIND = """#!/bin/sh
echo "$@" >> {said}
if [ -e {obstacle} ]; then rm {obstacle}; echo "ERROR: {message}" >&2; exit 1; fi
"""
CONFIGURATION = Path(kind.__file__).with_name("kind.yaml").read_text()


def test_the_audit_log_is_read_where_the_api_server_writes_it():
    (inside,) = re.findall(r"name: audit-log-path\n +value: (\S+)", CONFIGURATION)
    mounts = re.findall(r"hostPath: \./(\S+)\n +containerPath: (\S+)", CONFIGURATION)
    (host,) = (host for host, path in mounts if path == str(Path(inside).parent))
    assert kind.audit_log() == kind.state() / host / Path(inside).name


def test_images_are_imported_from_where_the_workers_see_them():
    mounts = dict(re.findall(r"hostPath: \./(\S+)\n +containerPath: (\S+)", CONFIGURATION))
    assert mounts[kind.images_folder().name] == kind.IMAGES


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with the arguments of each call of kind, which is there and has a cluster."""
    monkeypatch.setattr(kind, "exists", lambda: True)
    monkeypatch.setattr(kind, "state", lambda: tmp_path)
    monkeypatch.setattr(kind, "binary", lambda *_: tmp_path / "kind")
    monkeypatch.setattr(kind.time, "sleep", lambda _: None)
    return tmp_path / "said"


def _fails_once(said: Path, message: str) -> None:
    obstacle, program = said.with_name("obstacle"), said.with_name("kind")
    obstacle.touch()
    program.write_text(KIND.format(said=said, obstacle=obstacle, message=message))
    program.chmod(0o755)


def test_a_cluster_is_deleted_although_docker_removes_one_of_its_containers_already(said: Path) -> None:
    _fails_once(said, "removal of container trainshed-dev-worker is already in progress")
    kind.down()
    assert said.read_text().count("delete cluster") == 2


def test_another_failure_of_a_deletion_is_raised(said: Path) -> None:
    _fails_once(said, "Cannot connect to the Docker daemon")
    with pytest.raises(StepFailed, match="Cannot connect"):
        kind.down()
    assert said.read_text().count("delete cluster") == 1
