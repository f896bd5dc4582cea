"""`get`, `explain`, `events` and `wait` on a real API server, as users with more and with fewer rights."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from support import FakeKubelet, UserClient
from support.jobs import job, pod_spec, pytorchjob
from support.local_runs import until
from support.people import READS, Person, person
from support.user_client import eventually
from testbed.control_plane import ControlPlane

pytestmark = pytest.mark.usefixtures("shared_operator")
MERGE = "application/merge-patch+json"
TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 7\nValueError: bad \x1b[31mbatch'


@pytest.fixture
def reader(server: ControlPlane, user: UserClient, tmp_path: Path) -> Person:
    """A user who may read jobs, pods and Events."""
    return person(server, user, tmp_path, READS)


def test_one_table_has_the_jobs_of_all_kinds_and_why_they_do_not_run(reader, user, kubelet: FakeKubelet):
    user.create(pytorchjob("fine", Master=1, Worker=1))
    user.create(job("TFJob", "crash", Worker=1))
    eventually(lambda: user.state("TFJob", "crash") == "Running")
    kubelet.end("crash-worker-0", 1, message=TRACEBACK)
    eventually(lambda: (user.state("TFJob", "crash"), user.state("PyTorchJob", "fine")) == ("Failed", "Running"))
    header, *rows = reader.says("get").splitlines()
    assert header.split() == ["NAME", "STATE", "READY", "RESTARTS", "AGE", "WHY"]
    assert [row.split()[:4] for row in rows] == [
        ["pytorchjob/fine", "Running", "2/2", "0"],
        ["tfjob/crash", "Failed", "0/1", "0"],
    ]
    assert rows[1].endswith("ValueError: bad batch")
    assert reader.says("get", "tfjobs", "-o", "name") == "tfjob.kubeflow.org/crash\n"
    assert json.loads(reader.says("get", "fine", "-o", "json"))["metadata"]["name"] == "fine"
    assert yaml.safe_load(reader.says("get", "-l", "a=b", "-o", "yaml"))["items"] == []


def test_the_story_of_a_failure_has_its_cause_and_what_to_do(reader, user, kubelet: FakeKubelet):
    user.create(pytorchjob("mnist", restart="ExitCode", policy={"backoffLimit": 1}, Master=1, Worker=1))
    eventually(lambda: user.state("PyTorchJob", "mnist") == "Running")
    kubelet.end("mnist-worker-0", 1, message=TRACEBACK)
    eventually(lambda: user.state("PyTorchJob", "mnist") == "Failed")
    text = reader.says("explain", "pytorchjob/mnist")
    assert text.startswith(f"PyTorchJob {user.namespace}/mnist has failed after ")
    assert "             | ValueError: bad batch\n" in text
    assert "What to do   The program ended with an error of its own" in text
    assert "\x1b" not in text
    eventually(lambda: "PyTorchJobFailed" in reader.says("events", "mnist"))
    several = reader.run("explain", "mnist", "nope", "pytorchjob/mnist")
    assert (several.returncode, several.stdout.count(" has failed after ")) == (1, 2)
    assert several.stderr.startswith("Error: there is no job nope in namespace")
    assert reader.says("explain", "pytorchjob", "mnist").startswith("PyTorchJob ")


@pytest.mark.parametrize(("wanted", "code"), [("condition=running", 0), ("Succeeded", 0), ("condition=Failed=True", 1)])
def test_waiting_ends_with_the_job(reader, user, kubelet: FakeKubelet, wanted, code):
    user.create(pytorchjob("mnist", Master=1))
    process = subprocess.Popen(reader.command("wait", "mnist", "--for", wanted), stdout=subprocess.PIPE, text=True)
    eventually(lambda: user.state("PyTorchJob", "mnist") == "Running")
    if wanted != "condition=running":
        kubelet.end("mnist-master-0", 0)
    process.communicate(timeout=60)
    assert process.returncode == code


def test_waiting_ends_when_the_time_is_over(reader, user, kubelet: FakeKubelet):
    user.create(pytorchjob("mnist", Master=1))
    done = reader.run("wait", "mnist", "--timeout", "1s")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(" s, the time of --timeout\n")
    assert ".;" not in done.stderr


def test_replicas_are_shown_with_what_they_request(reader, user, kubelet: FakeKubelet):
    mnist = pytorchjob("mnist", Master=1, Worker=2)
    pod_spec(mnist, "Worker")["containers"][0]["resources"] = {"limits": {"cpu": "2", "nvidia.com/gpu": "8"}}
    user.create(mnist)
    eventually(lambda: user.state("PyTorchJob", "mnist") == "Running")
    done = reader.run("top", "mnist")
    assert (done.returncode, "No use is shown: " in done.stderr) == (0, True)
    *_, worker, total = done.stdout.splitlines()
    assert worker.split()[0] == "worker-1"
    assert total.split() == ["total", "<unknown>", *["4000m"] * 2, "<unknown>", *["<none>"] * 2, "16", "nvidia.com/gpu"]


#: What the scheduler says of pods that ask for GPUs, of which a node has four; and what its reader says beside that.
NO_ROOM = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
IN_USE = "each Worker fits on four-gpus, which is in use"
TOO_LARGE = "each Worker asks for 8 nvidia.com/gpu; a node has at most 4 (on four-gpus)"


@pytest.fixture
def four_gpus(user: UserClient) -> Iterator[None]:
    """The one node of the cluster has four GPUs."""
    has = {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "4", "pods": "110"}
    user.call("POST", "/api/v1/nodes", {"metadata": {"name": "four-gpus"}})
    user.call("PATCH", "/api/v1/nodes/four-gpus", {"spec": {"taints": []}}, MERGE)
    user.call("PATCH", "/api/v1/nodes/four-gpus/status", {"status": {"allocatable": has, "capacity": has}}, MERGE)
    yield
    user.call("DELETE", "/api/v1/nodes/four-gpus")


@pytest.mark.usefixtures("four_gpus")
@pytest.mark.parametrize(("gpus", "sentence"), [("4", IN_USE), ("8", TOO_LARGE)])
def test_explain_distinguishes_no_room_from_too_large_for_a_user_who_may_read_nodes(
    server, user, tmp_path, gpus, sentence
):
    mnist = pytorchjob("mnist", Worker=1)
    pod_spec(mnist, "Worker")["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": gpus}}
    user.create(mnist)
    eventually(lambda: len(user.pods()) == 1)
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": NO_ROOM}
    user.set_pod_status("mnist-worker-0", {"phase": "Pending", "conditions": [waits]})
    eventually(lambda: user.state("PyTorchJob", "mnist") == "Created")
    without = person(server, user, tmp_path, READS).says("explain", "mnist")
    assert (NO_ROOM in without, "Blocked  " in without) == (True, False)
    text = Person(server.kubeconfig, user.namespace).says("explain", "mnist")
    assert f"Blocked      {sentence}\n" in text
    assert ("start by themselves when other jobs end" in text) is (sentence is IN_USE)


#: What is needed to read stacks, besides READS.
STACKS = [{"apiGroups": [""], "resources": ["pods/ephemeralcontainers", "pods/log"], "verbs": ["get", "patch"]}]


@pytest.mark.usefixtures("kubelet")
@pytest.mark.parametrize(
    ("rules", "why"),
    [(READS, 'cannot patch resource "pods/ephemeralcontainers"'), (READS + STACKS, "has not ended within 1 s")],
)
def test_why_there_are_no_stacks_is_said(server, user, tmp_path, rules, why):
    user.create(pytorchjob("mnist", Master=1, Worker=2))
    eventually(lambda: user.state("PyTorchJob", "mnist") == "Running")
    done = person(server, user, tmp_path, rules).run("stacks", "mnist", "--timeout", "1s")
    assert (done.returncode, why in done.stderr) == (1, True), done.stderr
    assert ("kubectl create role stacks" in done.stderr) is (rules is READS)
    added = [len(pod["spec"].get("ephemeralContainers", ())) for pod in user.pods()]
    assert added == [len(rules) - len(READS)] * 3


def test_a_shell_completes_the_names_of_jobs(reader, user):
    for name in ("mnist", "moe"):
        user.create(pytorchjob(name, Master=1))
    user.create(job("TFJob", "moe", Worker=1))
    known = ["trainshed", "explain", *reader.words]
    for word, found in (("m", ["mnist"]), ("t", ["tfjob/moe"]), ("@", ["@latest"])):
        words = {"COMP_WORDS": " ".join([*known, word]), "COMP_CWORD": str(len(known))}
        variables = os.environ | words | {"_TRAINSHED_COMPLETE": "bash_complete"}
        command = (sys.executable, "-c", "import sys, trainshed.__main__ as m; sys.argv = ['trainshed']; m.main()")
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60, check=True)
        assert (done.stdout.splitlines(), done.stderr) == ([f"plain,{name}" for name in found], "")


def test_a_watch_prints_the_rows_that_change(reader, user, kubelet: FakeKubelet):
    user.create(pytorchjob("mnist", Master=1))
    process = subprocess.Popen(reader.command("get", "--watch"), stdout=subprocess.PIPE, text=True)
    try:
        until(process, "Running")
        kubelet.end("mnist-master-0", 0)
        until(process, "Succeeded")
        user.delete_job("PyTorchJob", "mnist")
        until(process, "Deleted")
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("explain", "nope"), "there is no job nope in namespace"),
        (("explain", "pytorchjob", "nope", "mnist"), "there is no PyTorchJob nope in namespace"),
        (("get", "pods"), "kubectl get pods shows pods"),
        (("logs", "pod/nope"), "there is no pod nope in namespace"),
        (("explain", "cronjob/nope"), "there is no kind of jobs cronjob"),
        (("explain", "@latest"), "there is no job in namespace"),
        (("get", "nope", "-A"), "either --namespace or --all-namespaces"),
        (("get", "--watch", "-o", "json"), "--watch prints rows"),
        (("wait", "nope", "--timeout", "soon"), "'soon' is no duration"),
        (("logs", "nope", "--grep", "("), "is no regular expression"),
    ],
)
def test_a_mistake_is_said_in_one_sentence(reader, words, message):
    done = reader.run(*words)
    assert done.returncode != 0
    assert message in done.stderr
    assert "Traceback" not in done.stderr
