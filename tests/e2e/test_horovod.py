"""Horovod trains as an MPIJob on the node: started by mpirun, by horovodrun, and elastically, losing a worker.

Its image takes minutes to compile, so `make test` leaves these tests out: `make test-horovod`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from support import UserClient
from testbed import images, kind

from .example import FOLDER, ends_as_it_says

pytestmark = pytest.mark.long

#: The examples; they are parameters of the tests, so that the tests bear their names.
STATIC, ELASTIC = "mpi/horovod", "mpi/horovod-elastic"
#: How a user starts Horovod without mpirun: it reads the operator's hostfile, and connects the ranks by Gloo.
HOROVODRUN = [
    "horovodrun",
    "--gloo",
    "-np",
    "2",
    "--hostfile",
    "/etc/mpi/hostfile",
    "python3",
    "/examples/horovod_tensorflow.py",
]
BEGINS = re.compile(r"rank 0 of (\d) on \S+ begins with epoch (\d+)$", re.MULTILINE)
EPOCH = re.compile(r"epoch (\d+): loss [\d.]+, ranks \d$", re.MULTILINE)


@pytest.fixture(scope="session")
def kubeconfig() -> str:
    """The kubeconfig of the test bed, with the images of these jobs only; Horovod is compiled if it is not cached."""
    assert kind.exists(), "the test bed is not up: make test-horovod"
    kind.load([images.KUBECTL_DELIVERY, images.HOROVOD])
    return str(kind.kubeconfig())


@pytest.mark.parametrize("name", [STATIC])
def test_an_example_ends_as_it_says(name: str, kubectl: Callable[..., str], user: UserClient, tmp_path: Path) -> None:
    (job,) = ends_as_it_says(FOLDER / f"{name}.yaml", kubectl, user, tmp_path)
    finals = re.findall(r"rank (\d): final loss (\S+)", (tmp_path / f"{job.name}-launcher.log").read_text())
    print("final losses", sorted(finals))
    assert sorted(rank for rank, _ in finals) == ["0", "1"]
    assert len({loss for _, loss in finals}) == 1


def test_horovodrun_starts_the_ranks_as_well(kubectl: Callable[..., str], user: UserClient, tmp_path: Path) -> None:
    config, job = yaml.safe_load_all((FOLDER / f"{STATIC}.yaml").read_text())
    launcher = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
    launcher["command"] = HOROVODRUN
    del launcher["env"]  # mpirun's
    said = job["metadata"]["annotations"]
    logs = next(key for key in said if key.endswith("/logs"))
    said[logs] = said[logs].replace("connected by MPI", "connected by Gloo")
    path = tmp_path / "horovodrun.yaml"
    path.write_text(yaml.safe_dump_all((config, job)))
    ends_as_it_says(path, kubectl, user, tmp_path)


@pytest.mark.parametrize("name", [ELASTIC])
def test_the_others_go_on_without_a_lost_worker_and_its_replacement_joins_them(
    name: str, kubectl: Callable[..., str], user: UserClient, tmp_path: Path
) -> None:
    (job,) = ends_as_it_says(FOLDER / f"{name}.yaml", kubectl, user, tmp_path)
    log = (tmp_path / f"{job.name}-launcher.log").read_text()
    groups = [(int(size), int(epoch)) for size, epoch in BEGINS.findall(log)]
    print("ranks and first epochs of the groups:", groups)
    assert [size for size, _ in groups] == [2, 1, 2]
    epochs = [int(epoch) for epoch in EPOCH.findall(log)]
    assert set(epochs) == set(range(1, epochs[-1] + 1)), "epochs were left out"
    assert len(epochs) <= epochs[-1] + 2, "more was trained again than what was under way"
    status = user.job(job.kind, job.name)["status"]
    assert (status["failure"]["class"], status["restarts"]) == ("Disruption", 0), "a deleted pod counts as a failure"
