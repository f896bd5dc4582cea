"""What another user of the machine can do to a run of `trainshed run`: nothing."""

from __future__ import annotations

import base64
import json
import os
import secrets
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.local_runs import SOON, Machine, permitted, until
from support.second_user import as_nobody, only_root, open_folder

pytestmark = only_root
#: Prints what another user can read below a folder, change in it and connect to, and in the processes of the machine.
ATTACK = """
place, paths, secret = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
found = {"seen": [], "changed": [], "arguments": [], "environments": []}
for folder, folders, files in os.walk(place):
    found["seen"] += [os.path.join(folder, name) for name in folders + files]
for path in paths:
    attempts = (
        lambda: open(path).read(), lambda: open(path, "w").write("echo attacked"), lambda: os.unlink(path),
        lambda: os.rename(path, path + ".old"), lambda: os.listdir(path), lambda: os.chmod(path, 0o777),
        lambda: open(path + "/new", "w"), lambda: socket.socket(socket.AF_UNIX).connect(path),
    )
    for number, attempt in enumerate(attempts):
        try:
            attempt()
        except OSError:
            continue
        found["changed"].append(path + ": " + str(number))
for kind, path in (("arguments", "cmdline"), ("environments", "environ")):
    for file in glob.glob("/proc/[0-9]*/" + path):
        try:
            text = open(file, "rb").read()
        except OSError:
            continue
        if secret.encode() in text and int(file.split("/")[2]) != os.getpid():
            found[kind].append(text.decode(errors="replace"))
print(json.dumps(found))
"""
#: Differs between processes, because the test looks for it in all processes of the machine.
SECRET = secrets.token_hex(16)
OBJECTS = (
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "code"}, "data": {"train.sh": "echo the original"}},
    {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "token"},
        "data": {"token": base64.b64encode(SECRET.encode()).decode()},
    },
)


@pytest.fixture(params=[0, 0o022, 0o077], ids=oct)
def machine(request) -> Iterator[Machine]:
    """Runs jobs in a folder that every user can enter, with this umask."""
    before = os.umask(request.param)
    with open_folder() as folder:
        found = Machine(folder)
        found.state.mkdir()
        found.state.chmod(0o755)
        yield found
    os.umask(before)


@pytest.fixture(params=["processes", "namespaces"])
def runtime(request) -> str:
    permitted(request.param)
    return str(request.param)


def an_mpi_job(script: str) -> dict:
    """Return a job with a Secret, a script in a ConfigMap, and a claim, whose launcher runs `script`."""
    mounts = [{"name": name, "mountPath": f"/mnt/{name}"} for name in ("code", "token", "data", "empty")]
    volumes = [
        {"name": "code", "configMap": {"name": "code"}},
        {"name": "token", "secret": {"secretName": "token"}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "empty", "emptyDir": {}},
    ]
    env = [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "token", "key": "token"}}}]
    groups = {}
    for role, words in (("Launcher", script), ("Worker", "sleep 99")):
        container = {"name": "mpi", "image": "x", "command": ["sh", "-c", words], "volumeMounts": mounts, "env": env}
        spec = {"terminationGracePeriodSeconds": 1, "containers": [container], "volumes": volumes}
        groups[role] = {"replicas": 1, "restartPolicy": "Never", "template": {"spec": spec}}
    spec = {"runPolicy": {"cleanPodPolicy": "Running"}, "mpiReplicaSpecs": groups}
    return {"apiVersion": "kubeflow.org/v1", "kind": "MPIJob", "metadata": {"name": "job"}, "spec": spec}


def test_another_user_can_neither_see_nor_change_a_run(machine, runtime):
    script = "ls /mnt/code /mnt/token /mnt/empty; echo result > /mnt/data/result; echo begun; sleep 99"
    run = machine.start(*OBJECTS, an_mpi_job(script), runtime=runtime)
    until(run, "begun")
    paths = [str(path) for path in machine.runs.rglob("*")]
    names = {Path(path).name for path in paths}
    assert {"train.sh", "token", "result", "exec.sock", "job-launcher.log", "trainshed.lock"} <= names
    found = json.loads(as_nobody(ATTACK, machine.state, json.dumps(paths), SECRET))
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=SOON)
    assert found == {"seen": [str(machine.runs)], "changed": [], "arguments": [], "environments": []}
    left = {path: path.lstat().st_mode & 0o077 for path in machine.runs.rglob("*")}
    logs = {path.name: mode for path, mode in left.items() if "claims" not in path.parts}
    assert set(logs.values()) == {0}, logs
