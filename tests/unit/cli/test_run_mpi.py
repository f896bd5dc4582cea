"""`trainshed run` with MPIJobs: a launcher enters its workers with the agent that Open MPI would call."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from support.local_runs import Machine, permitted

#: Enters each host of the hostfile as Open MPI does, and passes the highest exit code on.
MPIRUN = """#!/bin/sh
hosts=$(sed 's/[ :].*//' /etc/mpi/hostfile)
code=0
for host in $hosts; do
    echo "from the launcher" | "${OMPI_MCA_plm_rsh_agent:-ssh}" "$host" "$@" || code=$?
done
exit $code
"""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def python(tmp_path: Path) -> str:
    """A folder with an interpreter and mpirun, as a virtual environment with Open MPI has them."""
    folder = tmp_path / "venv" / "bin"
    folder.mkdir(parents=True)
    (tmp_path / "venv" / "pyvenv.cfg").touch()
    for name, script in (("mpirun", MPIRUN), ("python", "#!/bin/sh\n")):
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)
    return str(tmp_path / "venv")


def an_mpi_job(*words: str, version: str = "v1", workers: int = 2) -> dict:
    """Return a job whose launcher runs these words by a shell in each worker."""
    worker = {"name": "mpi", "image": "x", "env": [{"name": "OF", "value": "the worker"}]}
    if version == "v2beta1":
        worker |= {"command": ["/usr/sbin/sshd"], "args": ["-De"]}
    launcher = {"name": "mpi", "image": "x", "command": ["mpirun", *words]}
    roles = {"Launcher": (1, launcher), "Worker": (workers, worker)}
    groups = {
        role: {
            "replicas": count,
            "restartPolicy": "Never",
            "template": {"spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}},
        }
        for role, (count, container) in roles.items()
    }
    spec = {"runPolicy": {"cleanPodPolicy": "Running"}, "mpiReplicaSpecs": groups}
    return {"apiVersion": f"kubeflow.org/{version}", "kind": "MPIJob", "metadata": {"name": "job"}, "spec": spec}


def test_an_unexpected_error_of_the_server_of_commands_ends_the_run_with_one_sentence(machine, python):
    permitted("namespaces")
    how = {"runtime": "namespaces", "arguments": ("--python", python)}
    done = machine.run_failing("node.exec_server:ExecServer._serve", an_mpi_job("true"), **how)
    assert done.returncode == 1, done.stdout + done.stderr
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith("Error: commands in replicas: internal error in Trainshed, please report it: ")
    assert not machine.remains()


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_a_job_with_more_slots_than_a_machine_can_list_is_refused(machine, python, version):
    job = an_mpi_job("true", version=version)
    job["spec"]["slotsPerWorker"] = 40_000
    done = machine.run(job, arguments=("--python", python))
    sentence = (
        "spec.slotsPerWorker: Invalid value: 40000: 3 replicas have more than 100000 slots, the most of a job with"
    )
    assert (done.returncode, done.stdout, sentence in done.stderr) == (1, "", True), done.stderr


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_a_launcher_enters_its_workers(machine, python, version):
    permitted("namespaces")
    job = an_mpi_job('read line; echo "$(hostname) of $OF: $line"', version=version)
    done = machine.run(job, runtime="namespaces", arguments=("--python", python))
    assert done.returncode == 0, done.stdout + done.stderr
    log = next(machine.runs.glob("2*/logs/job-launcher.log")).read_text()
    for number in (0, 1):
        assert f"job-worker-{number} of the worker: from the launcher" in log.splitlines()


def test_the_exit_code_of_a_rank_is_that_of_the_launcher(machine, python):
    permitted("namespaces")
    job = an_mpi_job("exit 7")
    done = machine.run(job, runtime="namespaces", arguments=("--python", python, "--output", "json"))
    (found,) = json.loads(done.stdout)["jobs"]
    assert (done.returncode, found["status"]["failure"]["exitCode"]) == (1, 7), done.stderr


def test_ranks_end_with_their_worker(machine, python):
    permitted("namespaces")
    arguments = ("--python", python, "--fail", "worker-0@2s", "--output", "json")
    done = machine.run(an_mpi_job("echo begun; sleep 99", workers=1), runtime="namespaces", arguments=arguments)
    assert done.returncode == 1, done.stderr


def test_processes_have_one_host(machine, python):
    script = (
        "#!/bin/sh\ncat $OMPI_MCA_orte_default_hostfile; echo $OMPI_MCA_plm_rsh_agent; cat $OMPI_MCA_plm_rsh_agent\n"
    )
    (Path(python) / "bin" / "mpirun").write_text(script)
    done = machine.run(an_mpi_job(), runtime="processes", arguments=("--python", python))
    assert done.returncode == 0, done.stdout + done.stderr
    log = next(machine.runs.glob("2*/logs/job-launcher.log")).read_text()
    assert log.startswith("localhost\nlocalhost\n")
    assert "/etc/mpi" not in log
    assert "/pods/exec/kubectl exec" in log


def test_a_missing_mpirun_is_reported(machine, python):
    program = Path(python) / "bin" / "mpirun"

    program.unlink()
    done = machine.run(an_mpi_job("true"), arguments=("--python", python))
    assert done.returncode == 1
    assert "pod job-launcher: spec.containers[0].command: Required value: mpirun is not in PATH" in done.stderr


def test_both_versions_in_one_run_are_refused(machine, python):
    other = an_mpi_job("true", version="v2beta1")
    other["metadata"]["name"] = "other"
    done = machine.run(an_mpi_job("true"), other, arguments=("--python", python))
    assert done.returncode == 1
    assert "a cluster serves one version, v1 or v2beta1" in done.stderr


@pytest.mark.parametrize("runtime", ["processes", "namespaces"])
def test_the_name_of_the_folder_with_all_runs_need_not_be_utf_8(machine, runtime):
    permitted(runtime)
    machine.state = Path(os.fsdecode(os.fsencode(machine.folder) + b"/\xff"))
    job = an_mpi_job(workers=1)
    launcher = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
    launcher["command"] = ["sh", "-c", "cat /etc/mpi/kubexec.sh && echo begun"]
    done = machine.run(job, runtime=runtime)
    assert (done.returncode, "launcher | begun" in done.stdout) == (0, True), done.stdout + done.stderr
