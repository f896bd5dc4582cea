"""`trainshed run` runs jobs on this machine with real processes, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from support.local_runs import SOON, Machine, a_job, kill_at_many_points, permitted, until
from support.user_client import eventually

#: Modules that take long to import and that a local run does not need.
HEAVY = (
    *("kopf", "aiohttp", "httptools", "prometheus_client", "uvloop", "cryptography", "rich"),
    *("urllib.request", "http.client", "trainshed.client.http", "trainshed.config"),
)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture(params=["processes", "namespaces"])
def runtime(request) -> str:
    permitted(request.param)
    return str(request.param)


def test_a_job_runs_to_its_end(machine, runtime):
    files = {"name": "hello", "configMap": {"name": "hello"}}
    job = a_job('echo "$RANK of $WORLD_SIZE"; cat $FILES/word; echo $OWN', volumes=[files])
    own_name = {"name": "OWN", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    for group in job["spec"]["pytorchReplicaSpecs"].values():
        group["template"]["spec"]["containers"][0] |= {
            "env": [{"name": "FILES", "value": "/hello"}, own_name],
            "volumeMounts": [{"name": "hello", "mountPath": "/hello"}],
        }
    words = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hello"}, "data": {"word": "bonjour\n"}}
    done = machine.run(words, job, runtime=runtime)
    assert done.returncode == 0, done.stdout + done.stderr
    for line in ("master-0 | 0 of 2", "worker-0 | 1 of 2", "master-0 | bonjour"):
        assert line in done.stdout.splitlines()
    assert "State:     Succeeded" in done.stdout
    (logs,) = machine.runs.glob("2*/logs")
    assert (logs / "job-worker-0.log").read_text() == "1 of 2\nbonjour\njob-worker-0\n"
    assert [path.name for path in logs.parent.iterdir() if path.name == "pods"] == []


def test_what_ends_with_the_job_has_its_own_grace_period(machine):
    save = "trap 'sleep 7; echo SAVED; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
    sidecar = {"name": "sidecar", "image": "x", "restartPolicy": "Always", "command": ["sh", "-c", save]}
    done = machine.run(a_job("sleep 2", initContainers=[sidecar], terminationGracePeriodSeconds=60))
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search("waiting up to (5[0-9]|60) s for what is ending: job-", done.stdout), done.stdout
    assert "master-0/sidecar | SAVED" in done.stdout


@pytest.mark.parametrize("arguments", [(), ("--only", "worker-1"), ("--only", "master-0")])
def test_replicas_that_a_job_was_over_before_are_named(machine, arguments):
    """The workers of an XGBoostJob come after its master runs, which this one, with a failing init, never does."""
    fails = {"name": "fails", "image": "x", "command": ["false"]}
    job = a_job("true", workers=2, restart="Never", initContainers=[fails])
    groups = job["spec"].pop("pytorchReplicaSpecs")
    for group in groups.values():
        group["template"]["spec"]["containers"][0]["name"] = "xgboost"
    job |= {"kind": "XGBoostJob", "spec": {"xgbReplicaSpecs": groups}}
    done = machine.run(job, arguments=arguments)
    assert done.returncode == 1, done.stdout + done.stderr
    names = {"worker-1": "job-worker-1", "master-0": ""}.get("".join(arguments[1:]), "job-worker-0, job-worker-1")
    said = [line for line in done.stdout.splitlines() if "not created" in line]
    assert said == ([f"not created, as the job was over before: {names}"] if names else [])


def test_a_replica_has_only_its_own_streams_open(machine, runtime):
    done = machine.run(a_job("ls /proc/$$$$/fd; sleep 3", workers=3), runtime=runtime)
    assert done.returncode == 0, done.stdout + done.stderr
    found = [line.rpartition(" | ")[2] for line in done.stdout.splitlines()]
    assert sorted(number for number in found if number.isdecimal()) == [*"000011112222"]


@pytest.mark.parametrize("top", ["/tmp", "/run", "/dev/shm", None])
def test_results_are_kept_in_the_current_folder(machine, runtime, top):
    """A top of None is /tmp itself."""
    with contextlib.ExitStack() as stack:
        try:
            folder = stack.enter_context(tempfile.TemporaryDirectory(dir=top or "/tmp"))
        except OSError:
            pytest.skip(f"{top} cannot be written")
        result = Path(folder) / "result"
        path = result.relative_to(folder if top else "/tmp")
        command = machine.command(a_job(f"echo done >> {path}"), runtime=runtime)
        done = subprocess.run(command, cwd=folder if top else "/tmp", capture_output=True, timeout=SOON, check=False)
        assert done.returncode == 0, done
        assert result.read_text() == "done\ndone\n"


def test_a_current_folder_in_memory_is_listed(machine, tmp_path):
    permitted("namespaces")
    job = a_job("echo lost > result", volumes=[{"name": "v", "emptyDir": {}}])
    container = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    container["volumeMounts"] = [{"name": "v", "mountPath": f"{tmp_path}/data"}]
    command = machine.command(job, runtime="namespaces")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SOON, check=False)
    why = f"it is in memory, because {tmp_path}/data does not exist on this machine"
    assert f"new files directly in {tmp_path} ({why})" in done.stdout.splitlines()[1]


def test_the_limit_of_open_files_is_for_each_replica_and_not_for_all(machine, runtime, tmp_path):
    all_have_it = "until [ $(ls has-* | wc -l) -eq 20 ]; do sleep 0.1; done"  # or the master stops them
    command = machine.command(a_job(f"ulimit -Sn; : > has-$RANK; {all_have_it}", workers=19), runtime=runtime)
    limited = ["sh", "-c", 'ulimit -Sn 50; exec "$@"', "sh", *command]
    done = subprocess.run(limited, cwd=tmp_path, capture_output=True, text=True, timeout=SOON * 2, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("| 50\n") == 20


def test_replicas_reach_each_other_by_name_and_port(machine, runtime):
    serve = "import os,socket;s=socket.create_server(('',int(os.environ['MASTER_PORT'])));s.accept()[0].send(b'hi')"
    call = (
        "import os,socket,time\n"
        "for _ in range(200):\n"
        "    try: s=socket.create_connection((os.environ['MASTER_ADDR'],int(os.environ['MASTER_PORT']))); break\n"
        "    except OSError: time.sleep(0.1)\n"
        "print('got',s.recv(9).decode())\n"
    )
    job = a_job("", restart="Never")
    for role, script in (("Master", serve), ("Worker", call)):
        container = {"name": "pytorch", "image": "x", "command": [sys.executable, "-c", script]}
        template = {"spec": {"containers": [container]}}
        job["spec"]["pytorchReplicaSpecs"][role] = {"restartPolicy": "Never", "replicas": 1, "template": template}
    done = machine.run(job, runtime=runtime, arguments=("--python", sys.executable))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_end_of_the_reader_ends_the_run(machine):
    run = machine.start(a_job("for i in 1 2 3 4 5 6 7 8 9; do echo again; sleep 0.1; done; sleep 99"))
    until(run, "again")
    assert run.stdout is not None
    run.stdout.close()
    assert run.wait(SOON) == 130
    assert not list(machine.runs.glob("2*/pods"))


def test_a_failed_job_is_explained_as_json(machine):
    done = machine.run(a_job("sleep 0.2; echo oh no; exit 3"), arguments=("--output", "json"))
    assert done.returncode == 1, done.stderr
    (job,) = json.loads(done.stdout)["jobs"]
    assert (job["state"], job["status"]["failure"]["exitCode"]) == ("Failed", 3)
    assert "PyTorchJobFailed" in [event["reason"] for event in job["events"]]
    assert "oh no" in done.stderr


@pytest.mark.parametrize("arguments", [(), ("--output", "json")])
def test_colours_are_for_terminals(machine, arguments):
    command = machine.command(a_job("echo hello"), arguments=arguments)
    command.remove("--no-color")
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "\x1b" not in done.stdout + done.stderr


def test_a_replica_that_is_killed_on_purpose_restarts_the_job(machine, runtime):
    job = a_job("echo begun; sleep 3; echo over")
    done = machine.run(job, runtime=runtime, arguments=("--fail", "worker-0@begun", "--output", "json"))
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["jobs"]
    assert found["status"]["restarts"] == 1
    assert found["status"]["failure"]["exitCode"] == 137


def test_a_second_ctrl_c_kills_all_replicas(machine, runtime):
    job = a_job("trap '' TERM; echo begun; while :; do sleep 1; done")
    for group in job["spec"]["pytorchReplicaSpecs"].values():
        group["template"]["spec"]["terminationGracePeriodSeconds"] = 10 * SOON
    run = machine.start(job, runtime=runtime)
    until(run, "begun", 2)
    run.send_signal(signal.SIGINT)
    until(run, "Ctrl-C again kills them")
    run.send_signal(signal.SIGINT)
    text, _ = run.communicate(timeout=SOON)
    assert run.returncode == 130
    assert "when the run was interrupted after" in text


def test_names_of_replicas_that_do_not_exist_are_reported(machine):
    done = machine.run(a_job("true"), arguments=("--only", "worker-1", "--fail", "chief-0@1s", "--only", "worker-0"))
    assert done.returncode == 1
    assert done.stderr == (
        "Error: --only worker-1: there is no such replica; there are master-0, worker-0\n"
        "--fail chief-0: there is no such replica; there are master-0, worker-0\n"
    )


def test_only_some_replicas_are_printed_and_all_are_logged(machine):
    done = machine.run(a_job("echo hello"), arguments=("--only", "worker-0"))
    assert "worker-0 | hello" in done.stdout.splitlines()
    assert "master-0 | hello" not in done.stdout
    assert next(machine.runs.glob("2*/logs/job-master-0.log")).read_text() == "hello\n"


def test_many_replicas_start(machine, runtime, monkeypatch):
    monkeypatch.chdir(machine.folder)  # which replicas share
    # The job is over with its master, which therefore waits for all others.
    script = "hostname; touch up-$RANK; [ $RANK != 0 ] || until [ $(ls up-* | wc -l) = 34 ]; do sleep 0.1; done"
    done = machine.run(a_job(script, workers=33), runtime=runtime, arguments=("--output", "json"))
    assert done.returncode == 0, done.stderr
    names = [path.read_text().strip() for path in machine.runs.glob("2*/logs/*.log")]
    assert len(names) == 34
    assert len(set(names)) == (34 if runtime == "namespaces" else 1)


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({}, "job-worker-0"),
        ({"hostname": "trainer"}, "trainer"),
        (
            {"hostname": "trainer", "subdomain": "net", "setHostnameAsFQDN": True},
            "trainer.net.default.svc.cluster.local",
        ),
    ],
)
def test_the_host_name_is_that_of_a_pod(machine, runtime, spec, found):
    script = 'echo "$HOSTNAME"; [ $HOSTNAME != "$(hostname)" ] || getent hosts $HOSTNAME | cut -d. -f1'
    done = machine.run(a_job(script, **spec), runtime=runtime, arguments=("--output", "json"))
    log = next(machine.runs.glob("2*/logs/job-worker-0.log")).read_text().splitlines()
    assert (done.returncode, log) == (0, [found, "198"] if runtime == "namespaces" else [found])
    ignored = [text for text in json.loads(done.stdout)["ignored"] if "host name" in text or "subdomain" in text]
    assert len(ignored) == ("subdomain" in spec) + (runtime == "processes" and "hostname" in spec), ignored


def test_limits_hold(machine, runtime):
    greedy = (
        "import os, time; print(len(os.sched_getaffinity(0)), flush=True); held = bytearray(300 << 20); time.sleep(9)"
    )
    job = a_job("", restart="Never")
    container = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]
    container |= {
        "command": [sys.executable, "-c", greedy],
        "resources": {"limits": {"memory": "200Mi", "cpu": "500m", "example.com/disk": 1}},
    }
    done = machine.run(job, runtime=runtime, arguments=("--python", sys.executable, "--output", "json"))
    found = json.loads(done.stdout)
    assert done.returncode == 1, done.stderr
    assert found["jobs"][0]["status"]["failure"]["reason"] == "OOMKilled"
    assert "worker-0 | 1" in done.stderr.splitlines()
    assert "resource limits example.com/disk" in found["ignored"]


def test_an_invalid_job_does_not_start(machine):
    job = a_job("echo started")
    job["spec"]["pytorchReplicaSpecs"]["Master"]["replicas"] = 2
    done = machine.run(job)
    file = str(machine.folder / "job.yaml")
    render = subprocess.run(
        [sys.executable, "-m", "trainshed", "render", "-f", file], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == render.stderr != ""
    assert done.stdout == ""


def test_a_job_that_is_given_twice_does_not_start(machine):
    done = machine.run(a_job("echo started"), a_job("echo again"))
    assert (done.returncode, done.stdout) == (1, "")
    file = machine.folder / "job.yaml"
    assert "is given twice, first in " in done.stderr
    assert done.stderr.startswith(f"Error: {file}, document 2, line ")
    assert done.stderr.endswith(f"{file}, document 1, line 1\n")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"command": ["torchrun-1"]},
            "command: Required value: torchrun-1 is not in PATH; install it beside your Python",
        ),
        ({"command": None}, "command: Required value: the image's own entry point does not run on this machine"),
        ({"volumeMounts": [{"name": "v", "mountPath": "/nowhere"}]}, "processes cannot have /nowhere"),
        ({}, "configMap: Not found: ConfigMap absent; add it to the file"),
    ],
)
def test_what_would_change_the_meaning_is_refused(machine, change, message):
    volume = {"name": "v"} | ({"emptyDir": {}} if change else {"configMap": {"name": "absent"}})
    job = a_job("echo started", volumes=[volume])
    for group in job["spec"]["pytorchReplicaSpecs"].values():
        group["template"]["spec"]["containers"][0] |= change
    done = machine.run(job)
    assert done.returncode == 1
    assert message in done.stderr
    assert "started" not in done.stdout


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"namespace": "other"}, "PyTorchJob other/job: PyTorchJob default/job has a pod job-master-0 too; rename one"),
        ({"kind": "XGBoostJob"}, "XGBoostJob default/job: PyTorchJob default/job has a pod job-master-0 too; rename"),
    ],
)
def test_two_jobs_do_not_share_pods(machine, change, message):
    other = a_job("echo started")
    other["metadata"] |= {key: value for key, value in change.items() if key != "kind"}
    if "kind" in change:
        other |= {"kind": change["kind"], "spec": {"xgbReplicaSpecs": other["spec"]["pytorchReplicaSpecs"]}}
        for group in other["spec"]["xgbReplicaSpecs"].values():
            group["template"]["spec"]["containers"][0]["name"] = "xgboost"
    done = machine.run(a_job("echo started"), other)
    assert (done.returncode, "started" in done.stdout) == (1, False)
    assert done.stderr.startswith(f"Error: {message}")


def test_what_has_no_effect_is_listed_once(machine):
    job = a_job("true", nodeSelector={"gpu": "yes"}, hostnameOverride="other", schedulingGates=[{"name": "a/b"}])
    for group in job["spec"]["pytorchReplicaSpecs"].values():
        group["template"]["spec"]["containers"][0]["restartPolicy"] = "Never"
    job["spec"]["runPolicy"] = {"suspend": True}
    done = machine.run(job)
    assert done.returncode == 0, done.stdout + done.stderr
    by_pod = "containers are restarted by the policy of the pod"
    for listed in ("nodeSelector (one machine)", "hostnameOverride (", "schedulingGates (", f"pytorch ({by_pod})"):
        assert done.stdout.count(listed) == 1
    assert "runPolicy.suspend (the job runs at once)" in done.stdout


def test_ctrl_c_ends_all_replicas(machine, runtime):
    run = machine.start(a_job("trap 'echo saved; exit 0' TERM; echo begun; sleep 99 & wait"), runtime=runtime)
    until(run, "begun", 2)
    run.send_signal(signal.SIGINT)
    text, _ = run.communicate(timeout=SOON)
    assert run.returncode == 130
    assert text.count("| saved") == 2


def test_nothing_is_left_when_the_run_is_killed(machine, runtime, monkeypatch):
    monkeypatch.setenv("STATE_OF_TEST", str(machine.state))
    script = f"export STATE_OF_TEST={machine.state}; (setsid sleep 99 &); echo begun; sleep 99"
    run = machine.start(a_job(script), runtime=runtime)
    until(run, "begun", 2)
    assert machine.marked()
    run.kill()
    run.communicate(timeout=SOON)
    eventually(lambda: not machine.marked(), SOON)
    (left,) = machine.runs.glob("2*/pods")
    done = machine.run(a_job("true"), runtime=runtime)
    assert done.returncode == 0
    assert not left.exists(), "the next run removes the volumes"


def test_nothing_is_left_of_runs_that_are_killed_at_any_point(machine, runtime, monkeypatch):
    monkeypatch.setenv("STATE_OF_TEST", str(machine.state))
    script = f"export STATE_OF_TEST={machine.state}; (setsid sleep 99 &); echo begun; sleep 0.3"
    kill_at_many_points(machine, a_job(script), runtime)
    assert machine.run(a_job("true"), runtime=runtime).returncode == 0
    assert not machine.remains()


def test_two_runs_have_different_ports(machine, tmp_path):
    job = a_job("echo port=$MASTER_PORT; sleep 2")
    runs = [machine.start(job), machine.start(job)]
    texts = [run.communicate(timeout=SOON)[0] for run in runs]
    found = [{line.partition("port=")[2] for line in text.splitlines() if "port=" in line} for text in texts]
    assert [run.returncode for run in runs] == [0, 0], texts
    assert len(found[0]) == len(found[1]) == 1
    assert found[0] != found[1]


def test_heavy_modules_are_not_imported(machine):
    command = machine.command(a_job("true"))
    script = (
        "import sys, trainshed.__main__ as entry\n"
        f"sys.argv = ['trainshed', *{command[3:]!r}]\n"
        "try:\n    entry.main()\n"
        "except SystemExit as end:\n    assert not end.code\n"
        f"print('loaded', *(name for name in {HEAVY!r} if name in sys.modules))\n"
    )
    result = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert result.stdout.splitlines()[-1] == "loaded"


def test_python_has_the_names_that_images_have(machine, runtime, tmp_path):
    interpreter = tmp_path / "bin" / "python3.99"
    interpreter.parent.mkdir()
    interpreter.write_text(f'#!/bin/sh\necho "found $1"; exec {sys.executable} -c pass\n')
    interpreter.chmod(0o755)
    job = a_job("python one; python3 two")
    done = machine.run(job, runtime=runtime, arguments=("--python", str(interpreter)))
    assert done.returncode == 0, done.stdout + done.stderr
    assert {"master-0 | found one", "master-0 | found two"} <= set(done.stdout.splitlines())
