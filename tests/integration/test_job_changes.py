"""`restart`, `suspend`, `resume`, `scale`, `delete` and `submit` on a real API server, as users with some rights."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from support import FakeKubelet, UserClient
from support.jobs import job, pytorchjob
from support.local_runs import until
from support.people import WRITES, Person, person
from support.user_client import eventually
from testbed.control_plane import ControlPlane

pytestmark = pytest.mark.usefixtures("shared_operator")
ELASTIC = {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 3}}


@pytest.fixture
def editor(server: ControlPlane, user: UserClient, tmp_path: Path) -> Person:
    """A user with the rights of ClusterRole `edit`."""
    return person(server, user, tmp_path, WRITES)


def elastic(name: str, **fields) -> dict:
    found = pytorchjob(name, Worker=1, **fields)
    found["spec"] |= ELASTIC
    return found


def suspended(name: str) -> dict:
    return pytorchjob(name, Worker=1, policy={"suspend": True})


def test_a_restart_replaces_all_pods_and_counts_against_nothing(editor, user, kubelet: FakeKubelet):
    user.create(pytorchjob("mnist", policy={"backoffLimit": 0}, Master=1, Worker=1))
    eventually(lambda: user.state("PyTorchJob", "mnist") == "Running")
    before = {pod["metadata"]["uid"] for pod in user.pods("mnist")}
    done = editor.run("restart", "@latest")
    assert (done.returncode, done.stdout) == (0, "pytorchjob/mnist restarted\n"), done.stderr
    assert done.stderr == "@latest is pytorchjob/mnist\n"
    eventually(lambda: user.state("PyTorchJob", "mnist") == "Running", 20)
    assert not before & {pod["metadata"]["uid"] for pod in user.pods("mnist")}
    user.patch_job("PyTorchJob", "mnist", {"spec": {"runPolicy": {"suspend": True}}})  # as one that was interrupted
    assert editor.says("restart", "mnist") == "pytorchjob/mnist was suspended, and is resumed\n"
    eventually(lambda: user.state("PyTorchJob", "mnist") == "Running", 20)


def test_a_job_is_suspended_resumed_scaled_and_deleted(editor, user, kubelet: FakeKubelet):
    for name in ("mnist", "other"):
        user.create(elastic(name))
    names = ("pytorchjob", "mnist", "other", "mnist")
    assert (
        sorted(editor.says("suspend", *names).split()) == ["pytorchjob/mnist", "pytorchjob/other"] + ["suspended"] * 2
    )
    eventually(lambda: user.state("PyTorchJob", "mnist") == "Suspended" and not user.pods())
    assert editor.says("suspend", "mnist") == "pytorchjob/mnist is suspended already\n"
    assert editor.says("resume", "mnist") == "pytorchjob/mnist resumed\n"
    assert editor.says("scale", "mnist", "--replicas", "3", "--role", "worker") == "pytorchjob/mnist scaled\n"
    again = "pytorchjob/mnist has this number already, and is not scaled\n"
    assert editor.says("scale", "mnist", "--replicas", "3") == again
    eventually(lambda: len(user.pods("mnist")) == 3, 20)
    refused = editor.run("scale", "mnist", "--replicas", "4")
    assert refused.returncode == 1
    assert "must be from minReplicas to maxReplicas" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert editor.says("delete", "mnist", "--wait", "--timeout", "30s") == "pytorchjob/mnist deleted\n"
    assert user.job("PyTorchJob", "mnist") is None
    assert user.pods("mnist") == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("suspend", "nope", "mnist"), "there is no job nope"),
        (("delete", "mnist", "nope"), "; nothing is done to the others"),
        (("delete", "pytorchjobs"), "name the jobs"),
        (("scale", "mnist", "--replicas", "1", "--role", "PS"), "has no replicas of type PS, but Worker"),
        (("delete", "mnist", "--timeout", "1s"), "--timeout is for --wait"),
        (("restart", "queued"), "Kueue starts and stops pytorchjob/queued"),
        (("submit", "-f", "-"), "already exists. Choose another name"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence_and_not_begun(editor, user, words, message):
    user.create(elastic("mnist"))
    user.create(suspended("queued") | {"metadata": {"name": "queued", "labels": {"kueue.x-k8s.io/queue-name": "q"}}})
    done = editor.run(*words, stdin=json.dumps(elastic("mnist")))
    assert done.returncode != 0
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert [item["metadata"]["generation"] for item in user.jobs("PyTorchJob")] == [1, 1]


def submitted(editor: Person, folder: Path) -> subprocess.Popen[str]:
    """The command, which follows a job of a file in the folder."""
    (folder / "job.json").write_text(json.dumps(pytorchjob("mnist", Master=1)))
    command = editor.command("submit", "-f", str(folder))
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.parametrize(("code", "state"), [(0, "Succeeded"), (1, "Failed")])
def test_what_is_submitted_is_followed_to_its_end(editor, tmp_path, kubelet: FakeKubelet, code, state):
    process = submitted(editor, tmp_path)
    until(process, "pytorchjob/mnist created")
    until(process, "is Running")
    kubelet.end("mnist-master-0", code)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == code
    assert f"pytorchjob/mnist is {state}" in said
    assert "Traceback" not in said


def test_ctrl_c_leaves_a_submitted_job_running_and_says_so(editor, user, tmp_path, kubelet: FakeKubelet):
    process = submitted(editor, tmp_path)
    until(process, "is Running")
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"pytorchjob/mnist runs on: trainshed logs --follow -n {user.namespace} pytorchjob/mnist " in said
    assert "Traceback" not in said
    assert user.state("PyTorchJob", "mnist") == "Running"


@pytest.mark.parametrize(
    ("words", "done"),
    [
        (("submit", "-f", "-"), "pytorchjob/other runs on: "),
        (("delete", "mnist", "--wait"), "pytorchjob/mnist is deleted, but it is not known whether its pods are gone"),
    ],
)
def test_who_may_not_see_pods_learns_what_was_done(server, user, tmp_path, words, done):
    user.create(elastic("mnist"))
    said = person(server, user, tmp_path, WRITES[:-1]).run(*words, stdin=json.dumps(elastic("other")))
    assert done in said.stderr
    assert "Ask for the right to list pods" in said.stderr
    assert (said.returncode, "Traceback" in said.stderr) == (1, False)


def test_of_several_jobs_none_is_created_if_one_is_refused(editor, user):
    read = elastic("a")
    read["metadata"] |= {"uid": "u", "resourceVersion": "5"}  # as `get -o json` prints it
    jobs = [read, job("TFJob", "b", Worker=1), job("TFJob", "x" * 70, Worker=1)]
    bad = "\n---\n".join(map(json.dumps, jobs))
    done = editor.run("submit", "-f", "-", stdin=bad)
    assert (done.returncode, done.stdout) == (1, "")
    good = "\n---\n".join(map(json.dumps, jobs[:2]))
    assert (user.jobs("PyTorchJob"), user.jobs("TFJob")) == ([], [])
    done = editor.run("submit", "-f", "-", "--no-follow", stdin=good)
    assert done.stdout == "pytorchjob/a created\ntfjob/b created\n", done.stderr
