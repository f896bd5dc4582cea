"""A job that failed and was deleted: its record, `get --finished` and `report`, on a real API server."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

from support import FakeKubelet, UserClient
from support.jobs import pytorchjob
from support.people import READS, Person, person
from support.user_client import eventually
from testbed.control_plane import ControlPlane
from trainshed.api.job_record import MAX_RECORD_BYTES
from trainshed.api.record_ring import NAME

ASKS = {"trainshed.dev/record": "true"}
CONFIG_MAPS = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}
TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 7\nValueError: bad \x1b[31mbatch'


@pytest.fixture
def reader(second_server: ControlPlane, second_user: UserClient, tmp_path: Path) -> Person:
    """A user who may read jobs, pods, Events and ConfigMaps."""
    return person(second_server, second_user, tmp_path, [*READS, CONFIG_MAPS])


def entries(user: UserClient) -> dict[str, dict]:
    """The records of the namespace, by uid."""
    return {uid: json.loads(text) for uid, text in config_map(user).get("data", {}).items()}


def config_map(user: UserClient) -> dict:
    """The ConfigMap of the records; empty if there is none."""
    return next((found for found in user.core("configmaps") if found["metadata"]["name"] == NAME), {})


def test_a_job_is_read_from_its_record_after_it_was_deleted(
    second_server: ControlPlane, second_user: UserClient, reader: Person, operators, tmp_path: Path
):
    user = second_user
    operator = operators.begin(
        second_server.kubeconfig, "--no-leader-elect", "--record", f"--namespace={user.namespace}"
    )
    with FakeKubelet(user) as kubelet:
        for name in ("kept", "plain"):
            job = pytorchjob(name, restart="Never", Master=1, Worker=1)
            user.create(job | {"metadata": {"name": name, "annotations": ASKS if name == "kept" else {}}})
        eventually(lambda: user.state("PyTorchJob", "kept") == user.state("PyTorchJob", "plain") == "Running", 30)
        assert entries(user) == {}
        for name in ("kept", "plain"):
            kubelet.end(f"{name}-worker-0", 1, message=TRACEBACK)
        eventually(lambda: user.state("PyTorchJob", "kept") == user.state("PyTorchJob", "plain") == "Failed", 30)
        eventually(lambda: entries(user), 30)
        uid = user.job("PyTorchJob", "kept")["metadata"]["uid"]
        live = reader.says("report", "kept")
        assert "ValueError: bad batch" in live
        user.delete_job("PyTorchJob", "kept")
        eventually(lambda: user.job("PyTorchJob", "kept") is None, 30)
    assert list(entries(user)) == [uid]
    assert len(json.dumps(entries(user)[uid])) <= 2 * MAX_RECORD_BYTES

    header, row = reader.says("get", "--finished").splitlines()
    assert header.split() == ["NAME", "STATE", "READY", "RESTARTS", "AGE", "ENDED", "WHY"]
    assert row.split()[:2] == ["pytorchjob/kept", "Failed"]
    assert row.endswith("ValueError: bad batch")
    found = json.loads(reader.says("get", "--finished", "kept", "-o", "json"))["items"]
    assert [one["metadata"]["uid"] for one in found] == [uid]

    path = tmp_path / "report.html"
    reader.says("report", "kept", "-o", str(path))
    page = path.read_text()
    HTMLParser().feed(page)
    assert "made from the record" in page
    assert "ValueError: bad batch" in page
    assert f"PyTorchJob {user.namespace}/kept has failed" in reader.says("report", "kept", "-o", "-")
    missing = reader.run("report", "nope")
    assert missing.returncode == 1
    assert "there is no job nope" in missing.stderr

    operator.kill()
    operators.begin(second_server.kubeconfig, "--no-leader-elect", "--record", f"--namespace={user.namespace}")
    version = config_map(user)["metadata"]["resourceVersion"]
    other = pytorchjob("other", restart="Never", Master=1)
    with FakeKubelet(user):
        user.create(other | {"metadata": {"name": "other", "annotations": ASKS}})
        eventually(lambda: user.state("PyTorchJob", "other") == "Running", 30)
        user.delete_job("PyTorchJob", "other")
        eventually(lambda: len(entries(user)) == 2, 30)
    assert config_map(user)["metadata"]["resourceVersion"] != version
    assert "deleted while it was Running" in reader.says("get", "--finished", "other")
