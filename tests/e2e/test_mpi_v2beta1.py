"""MPIJobs of v2beta1 train on the node: ranks are started by ssh, with keys that the operator has made.

The test bed's cluster serves v1's MPIJobs, as a cluster can serve only one of them. So the operator of this test looks
after a control plane of its own, whose pods the test bed's node runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from support import Operator, UserClient
from support.kubectl import PATIENCE
from support.kubectl import kubectl as kubectl_on
from support.planes import V2BETA1, change_to_v2beta1, ready_control_plane
from support.sampling import sampled
from support.user_client import eventually
from testbed import images

from .example import FOLDER, expectations
from .mirror_node import Double

EXAMPLE = FOLDER / "mpi" / "v2beta1" / "allreduce.yaml"
#: What the entry points of mpi-operator's images do for MPICH and Intel MPI: they wait until DNS knows the own name.
#: /etc/hosts, which has it, is not asked.
ASK = "for name in $HOSTNAME $(hostname -f); do until getent -s dns hosts $name; do sleep 0.2; done; done"


@pytest.fixture
def origin(user: UserClient, tmp_path: Path) -> Iterator[UserClient]:
    """A user in a cluster of MPIJobs of v2beta1, in a namespace of the same name as that on the node's."""
    with ready_control_plane(tmp_path / "plane") as plane:
        change_to_v2beta1(plane)
        origin = UserClient(plane.kubeconfig, user.namespace, V2BETA1)
        origin.make_namespace()
        operator = Operator(plane.kubeconfig, tmp_path, "--no-leader-elect", "--mpi-version=v2beta1").start()
        origin.apply = lambda text: kubectl_on(plane, origin, "apply", "-f", "-", text=text)
        with Double(origin, user):
            yield origin
        assert operator.stop() == 0
        assert operator.complaints() == []


@pytest.mark.parametrize("launcher", sampled(("when its workers are ready", "AtStartup"), "AtStartup"))
def test_an_example_trains_by_ssh(origin: UserClient, kubectl, launcher: str):
    documents = list(yaml.safe_load_all(EXAMPLE.read_text()))
    if launcher == "AtStartup":
        documents[-1]["spec"]["launcherCreationPolicy"] = launcher
    done = origin.apply(yaml.safe_dump_all(documents))
    assert done.returncode == 0, done.stderr
    (job,) = expectations(EXAMPLE)
    over = lambda: origin.state(job.kind, job.name) in ("Succeeded", "Failed")  # noqa: E731 - asked again and again
    eventually(over, job.within, every=0.5)
    log = kubectl("logs", f"{job.name}-launcher", "--all-containers")
    assert origin.state(job.kind, job.name) == job.says["ends"], log
    for _, pattern in job.lines("logs"):
        assert re.search(pattern, log, re.MULTILINE), log
    eventually(lambda: [pod["metadata"]["name"] for pod in origin.pods()] == [f"{job.name}-launcher"], 30)


def test_dns_knows_the_names_of_a_launcher_within_seconds(origin: UserClient, kubectl):
    container = {"name": "mpi", "image": images.OPEN_MPI}
    launcher = {**container, "command": ["timeout", "20", "sh", "-c", ASK]}
    specs = {
        role: {"replicas": 1, "template": {"spec": {"containers": [own]}}}
        for role, own in (("Launcher", launcher), ("Worker", container))
    }
    named = {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": "names"}}
    origin.create({**named, "spec": {"mpiReplicaSpecs": specs}})
    over = lambda: origin.state("MPIJob", "names") in ("Succeeded", "Failed")  # noqa: E731 - asked again and again
    eventually(over, PATIENCE, every=0.5)
    addresses = [line.split()[0] for line in kubectl("logs", "names-launcher").splitlines()]
    assert origin.state("MPIJob", "names") == "Succeeded", addresses
    assert len(addresses) == 2, "the short and the long name"
    assert len(set(addresses)) == 1
