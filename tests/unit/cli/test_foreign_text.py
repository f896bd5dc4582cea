"""What a cluster or a file says reaches the terminal of no command as a control sequence, nor as a line of its own."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import TextIO

import pytest
import yaml
from click import ClickException
from click.testing import CliRunner

from support.jobs import pytorchjob
from support.listed_cluster import Objects, listed_cluster
from trainshed.cli import cli, scale

from .cluster_objects import ENTITLED, deployment

FORGED = "Cluster ok"
#: Clears the screen, names the window, colours in the 8-bit form, turns the direction twice, and begins a line.
HOSTILE = f"h\x1b[2J\x1b]0;owned\x07\x9b31m\u202etxt\u2066\u2028{FORGED}\r{FORGED}\n{FORGED}\n"


def shown(*words: object) -> str:
    """What a command prints on a terminal: click takes some of the sequences away elsewhere."""
    result = CliRunner(env={"TERM": "xterm", "NO_COLOR": ""}).invoke(cli, list(map(str, words)), color=True)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.output


#: The colours that commands give to states and replicas.
OWN_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def is_harmless(text: str) -> bool:
    lines = text.split("\n")
    return all(map(str.isprintable, lines)) and FORGED not in lines


def a_pod(**metadata: str) -> dict:
    finalizers = ["trainshed.dev/job-tracking"]
    labels = {"training.kubeflow.org/job-name": "a"}
    return {
        "metadata": {"name": "a", "namespace": "ml", "uid": "u", "resourceVersion": "1"}
        | metadata
        | {"labels": labels, "finalizers": finalizers}
    }


FAILED = pytorchjob("a", Master=1) | {
    "metadata": {"name": "a", "namespace": "ml", "uid": "u", "resourceVersion": "1"},
    "status": {"conditions": [{"type": "Failed", "status": "True", "reason": "x", "message": "exit 3"}]},
}


def flags(*words: str) -> Objects:
    return {"deployments": [deployment(args=list(words))], "clusterrolebindings": [ENTITLED]}


CLUSTERS: dict[str, tuple[str, Objects]] = {
    "unknown flag": ("migrate --dry-run", flags(f"--{HOSTILE}")),
    "value": ("migrate --dry-run", flags(f"--namespace={HOSTILE}")),
    "file": ("migrate --dry-run", flags(f"--pytorch-init-container-template-file={HOSTILE}")),
    "image": (
        "migrate --dry-run",
        {"deployments": [deployment(f"training-operator:{HOSTILE}")], "clusterrolebindings": [ENTITLED]},
    ),
    "tenant": ("migrate --dry-run", {"deployments": [deployment(name=HOSTILE)]}),
    "refusal": ("migrate --dry-run", {"deployments": None}),
    "policy": ("migrate --dry-run", {"pytorchjobs": [pytorchjob("a", policy={"cleanPodPolicy": HOSTILE}, Master=1)]}),
    "pod": ("remove-finalizers --include-active-jobs", {"pods": [a_pod(name=HOSTILE, namespace=HOSTILE)]}),
    "pods": ("remove-finalizers", {"pods": None}),
}


@pytest.mark.parametrize(("command", "objects"), CLUSTERS.values(), ids=CLUSTERS)
def test_no_text_of_a_cluster_acts_on_a_terminal(tmp_path, command, objects):
    with listed_cluster(tmp_path, objects, HOSTILE) as kubeconfig:
        text = shown(*command.split(), "--kubeconfig", kubeconfig)
    assert "txt" in text, "it is quoted"
    assert is_harmless(text), ascii(text)


KUBECONFIGS = {
    "field": {"users": [{"name": "c", "user": {HOSTILE: "x"}}]},
    "server": {"clusters": [{"name": "c", "cluster": {"server": HOSTILE}}]},
    "context": {"current-context": HOSTILE},
    "file": {"users": [{"name": "c", "user": {"tokenFile": HOSTILE}}]},
    "ca": {"clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1", "certificate-authority": HOSTILE}}]},
    "plugin": {
        "users": [
            {"name": "c", "user": {"exec": {"command": HOSTILE, "apiVersion": "client.authentication.k8s.io/v1"}}}
        ]
    },
}


@pytest.mark.parametrize("command", ["migrate --dry-run", "remove-finalizers"])
@pytest.mark.parametrize("part", KUBECONFIGS.values(), ids=KUBECONFIGS)
def test_no_text_of_a_kubeconfig_acts_on_a_terminal(tmp_path, command, part):
    with listed_cluster(tmp_path, {}) as kubeconfig:
        kubeconfig.write_text(yaml.safe_dump(yaml.safe_load(kubeconfig.read_text()) | part))
        text = shown(*command.split(), "--kubeconfig", kubeconfig)
    assert is_harmless(text), ascii(text)


def job_with(**parts: object) -> dict:
    job = pytorchjob("a", Master=1)
    return job | {key: {**job[key], **value} if isinstance(value, dict) else value for key, value in parts.items()}


def a_template(**container: object) -> dict:
    job = pytorchjob("a", Master=1)
    job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0] |= container
    return job


TIME, CONTAINER = "2026-01-01T12:00:00Z", "pytorch"
CONDITIONS = [
    {"type": kind, "status": "True", "reason": HOSTILE, "message": HOSTILE, "lastTransitionTime": TIME}
    for kind in ("Created", "Failed", "QuotaReserved", "Evicted")
]
FAILURE = {"pod": HOSTILE, "replica": HOSTILE, "node": HOSTILE, "class": "Application", "reason": HOSTILE, "time": TIME}
FAILURE |= {"message": HOSTILE, "terminationMessage": HOSTILE * 2, "exitCode": 1}
RESTART = {"time": TIME, "attempt": 1, "replica": HOSTILE, "node": HOSTILE, "class": HOSTILE, "reason": HOSTILE}
ENDED = {"exitCode": 1, "reason": HOSTILE, "message": HOSTILE, "finishedAt": TIME, "startedAt": TIME}
WAITING = {"reason": "CrashLoopBackOff", "message": HOSTILE}


def a_hostile_cluster() -> Objects:
    """One job, all about it as its pods, Events, logs and queue may be: whatever others may write is hostile."""
    job = job_with(metadata={"namespace": "ml", "uid": "u", "labels": {"kueue.x-k8s.io/queue-name": "q"}})
    job["spec"] = a_template(image=HOSTILE)["spec"] | {"runPolicy": {"schedulingPolicy": {"queue": HOSTILE}}}
    job["status"] = {"conditions": CONDITIONS[:2], "failure": FAILURE, "recentRestarts": [RESTART], "ready": HOSTILE}
    job["status"]["waiting"] = [{"replicaType": "Master", "reason": HOSTILE, "message": HOSTILE, "since": TIME}]
    owner = {"uid": "u", "controller": True, "kind": "PyTorchJob", "name": "a", "apiVersion": "kubeflow.org/v1"}
    labels = {"training.kubeflow.org/job-name": "a", "training.kubeflow.org/replica-type": "master"}
    labels["training.kubeflow.org/replica-index"] = "0"
    pod = {
        "metadata": {"name": "a-master-0", "namespace": "ml", "uid": "p", "labels": labels, "ownerReferences": [owner]}
    }
    pod["metadata"] |= {"creationTimestamp": TIME, "resourceVersion": "1"}
    own = {"name": CONTAINER, "image": HOSTILE, "restartCount": 3, "state": {"waiting": WAITING}}
    own |= {"lastState": {"terminated": ENDED}}
    pod["status"] = {"phase": "Running", "reason": HOSTILE, "message": HOSTILE, "containerStatuses": [own]}
    pod["spec"] = {"nodeName": HOSTILE, "containers": [{"name": CONTAINER, "resources": {"requests": {HOSTILE: "1"}}}]}
    about = {"kind": HOSTILE, "name": HOSTILE, "uid": "p"}
    event = {"type": HOSTILE, "reason": HOSTILE, "message": HOSTILE, "involvedObject": about, "lastTimestamp": TIME}
    workload = {"metadata": {"name": HOSTILE}, "spec": {"queueName": "q"}, "status": {"conditions": CONDITIONS[2:]}}
    check = {"name": HOSTILE, "state": HOSTILE, "message": HOSTILE}
    workload["status"] |= {"admissionChecks": [check]}
    served = {"resources": [{"kind": "PyTorchJob", "name": "pytorchjobs"}]}
    found: Objects = {"v1": served, "pytorchjobs": [job], "a": job, "pods": [pod], "a-master-0": pod, "events": [event]}
    return found | {"log": f"{TIME} {HOSTILE}{TIME} {HOSTILE}", "workloads": [workload]}


OF_A_JOB = (
    *("get", "get -o wide", "get -o name", "get -o yaml", "get -o json", "get pytorchjob/a", "explain a", "events a"),
    *("logs a --timestamps", "top a", "wait a", "stacks a", "stacks a -o json", "suspend a"),
    *("resume a", "restart a", "scale a --replicas 2 --role Master", "delete a", "delete a --dry-run", "doctor"),
    *("submit -f FILE --no-follow", "submit -f FILE --dry-run", "lint -f FILE", "plan -f FILE"),
)


@pytest.mark.parametrize("command", OF_A_JOB)
def test_no_text_about_a_job_acts_on_a_terminal(tmp_path, command):
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(a_template(command=[HOSTILE])))
    with listed_cluster(tmp_path, a_hostile_cluster(), HOSTILE) as kubeconfig:
        words = command.replace("FILE", str(file)).split()
        text = shown(*words, *(() if "lint" in words else ("--kubeconfig", kubeconfig, "-n", "ml")))
    assert is_harmless(OWN_COLOURS.sub("", text)), ascii(text)


@pytest.mark.parametrize("command", [*OF_A_JOB, "render -f FILE", "crds", "--help"])
def test_a_pipe_that_closes_ends_a_command_in_silence(tmp_path, monkeypatch, capsys, command):
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(a_template(command=["train"])))
    with listed_cluster(tmp_path, a_hostile_cluster()) as kubeconfig, closed_pipe() as pipe, redirect_stdout(pipe):
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        with pytest.raises(SystemExit) as end:
            cli.main(command.replace("FILE", str(tmp_path / "job.yaml")).split())
    errors = capsys.readouterr().err
    assert "Broken pipe" not in errors
    assert not errors.startswith("Traceback")
    assert end.value.code in (0, 1)


@contextmanager
def closed_pipe() -> Iterator[TextIO]:
    """A pipe that is no longer read, as after `| head -1`."""
    reading, writing = os.pipe()
    os.close(reading)
    pipe = os.fdopen(writing, "w")
    yield pipe
    with suppress(BrokenPipeError):  # what is still in the buffer
        pipe.close()


FILES: dict[str, list[dict]] = {
    "name": [job_with(metadata={"name": HOSTILE})],
    "namespace": [job_with(metadata={"namespace": HOSTILE})],
    "kind": [job_with(kind=HOSTILE)],
    "other": [job_with(), {"apiVersion": HOSTILE, "kind": HOSTILE, "metadata": {"name": HOSTILE}}],
    "field": [job_with(spec={HOSTILE: HOSTILE})],
    "policy": [job_with(spec={"runPolicy": {"cleanPodPolicy": HOSTILE}})],
    "role": [job_with(spec={"pytorchReplicaSpecs": {HOSTILE: {}}})],
    "command": [a_template(command=[HOSTILE])],
    "image": [a_template(image=HOSTILE)],
    "variable": [a_template(env=[{"name": HOSTILE, "value": HOSTILE}])],
    "key": [job_with(metadata={"annotations": {"a": HOSTILE}}), a_template(resources={"limits": {HOSTILE: "1"}})],
}


@pytest.mark.parametrize("command", ["render", "run --runtime=processes --only=none"])
@pytest.mark.parametrize("documents", FILES.values(), ids=FILES)
def test_no_text_of_a_file_acts_on_a_terminal(tmp_path, command, documents):
    file = tmp_path / "jobs.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    assert is_harmless(text := shown(*command.split(), "-f", file)), ascii(text)


@pytest.mark.parametrize("command", ["render", "run"])
def test_no_name_of_a_file_acts_on_a_terminal(tmp_path, command):
    for name in (HOSTILE, str(tmp_path / HOSTILE), f"http://{HOSTILE}", f"https://127.0.0.1:1/{HOSTILE}"):
        assert is_harmless(text := shown(command, "-f", name)), ascii(text)
    folder = tmp_path / HOSTILE
    folder.mkdir()
    assert is_harmless(text := shown(command, "-f", folder)), ascii(text)
    (folder / "a.yaml").write_text("a: [")
    assert is_harmless(text := shown(command, "-f", folder)), ascii(text)


def test_roles_of_a_spec_forge_no_line():
    job = pytorchjob("a", Worker=1)
    job["spec"]["pytorchReplicaSpecs"][HOSTILE] = {"replicas": 1}
    with pytest.raises(ClickException) as refused:
        scale._patch(job, "pytorchReplicaSpecs", "PS", 1)
    assert is_harmless(refused.value.message)


@pytest.mark.parametrize(
    ("variables", "is_coloured"),
    [
        ({"TERM": "xterm", "NO_COLOR": ""}, True),
        ({"TERM": "dumb", "NO_COLOR": ""}, False),
        ({"TERM": "unknown", "NO_COLOR": ""}, False),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
    ],
)
def test_a_terminal_that_shows_no_colours_gets_none(tmp_path, variables: dict[str, str], is_coloured: bool):
    objects = {"v1": {"resources": [{"kind": "PyTorchJob", "name": "pytorchjobs"}]}, "pytorchjobs": [FAILED]}
    with listed_cluster(tmp_path, objects) as kubeconfig:
        words = ["get", "-n", "ml", "--kubeconfig", str(kubeconfig)]
        result = CliRunner(env=variables).invoke(cli, words, color=True)
    assert (result.exit_code, "Failed" in result.stdout, "\x1b[" in result.stdout) == (0, True, is_coloured)
