"""`trainshed run` with TrainJobs of Kubeflow Trainer: the programs meet where the policy of the runtime says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.local_runs import Machine, permitted
from support.trainjobs import a_trainjob

#: Rank 0 listens at the address of all, as a coordinator or a tracker does, until each other rank has said its own.
MEET = """
import os, socket, time
host, port, rank, size = {place}
if rank == "0":
    with socket.create_server(("", int(port))) as server:
        server.settimeout(60)
        print("met", sorted(server.accept()[0].recv(9).decode() for _ in range(int(size) - 1)), flush=True)
else:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            socket.create_connection((host, int(port))).sendall(rank.encode())
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
"""
PLACES = {
    "jax": """(
    *os.environ["JAX_COORDINATOR_ADDRESS"].split(":"), os.environ["JAX_PROCESS_ID"], os.environ["JAX_NUM_PROCESSES"]
)""",
    "xgboost": """(
    os.environ[f"DMLC_{name}"] for name in ("TRACKER_URI", "TRACKER_PORT", "TASK_ID", "NUM_WORKER")
)""",
}
#: Runs a program once on each host of a hostfile: mpirun --hostfile FILE PROGRAM.
MPIRUN = """#!/bin/sh
for host in $(sed 's/ slots=2$//' "$2"); do
    case $host in
        tj-launcher.*) "$3" ;;
        *) ssh "$host" "$3" ;;
    esac
done
"""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def log(machine: Machine, done: subprocess.CompletedProcess[str], pod: str) -> list[str]:
    assert done.returncode == 0, done.stdout + done.stderr
    return next(machine.runs.glob(f"2*/logs/{pod}.log")).read_text().splitlines()


@pytest.mark.parametrize("runtime", ["namespaces", "processes"])
@pytest.mark.parametrize(("policy", "first"), [("jax", "tj-worker-0"), ("xgboost", "tj-master-0")])
def test_the_ranks_meet_at_the_first_one(machine, policy, first, runtime):
    permitted(runtime)
    command = ["python", "-c", MEET.format(place=PLACES[policy])]
    job = a_trainjob(f"{policy}-distributed", {"numNodes": 3, "command": command})
    done = machine.run(job, runtime=runtime, arguments=("--python", sys.executable))
    assert log(machine, done, first) == ["met ['1', '2']"]


@pytest.mark.parametrize("runtime", ["deepspeed-distributed", "mlx-distributed"])
def test_mpirun_enters_each_host_of_the_hostfile(machine, tmp_path, runtime):
    permitted("namespaces")
    folder = tmp_path / "venv" / "bin"
    folder.mkdir(parents=True)
    (tmp_path / "venv" / "pyvenv.cfg").touch()
    for name, script in (("mpirun", MPIRUN), ("python", "#!/bin/sh\n")):
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)
    command = ["mpirun", "--hostfile", "/etc/mpi/hostfile", "hostname"]
    job = a_trainjob(runtime, {"numNodes": 3, "numProcPerNode": 2, "command": command})
    done = machine.run(job, runtime="namespaces", arguments=("--python", str(tmp_path / "venv")))
    assert log(machine, done, "tj-launcher") == ["tj-launcher", "tj-worker-0", "tj-worker-1"]
