"""What a local run changes in the pods of MPIJobs, and the words of `kubectl exec` and `ssh`."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from trainshed.local.node import mpi_pods
from trainshed.local.node.remote_shell import parse_kubectl, parse_ssh


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("exec job-worker-0 -- /bin/sh -c true", ("job-worker-0", "", ["/bin/sh", "-c", "true"])),
        ("exec w --container main -- ls", ("w", "main", ["ls"])),
        ("exec -i --container=main w -- ls -- x", ("w", "main", ["ls", "--", "x"])),
        ("get pods", None),
        ("exec w ls", None),
        ("exec w --", None),
    ],
)
def test_kubectl_exec(words, expected):
    assert parse_kubectl(words.split()) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("job-worker-0.job.ns.svc ls -l", ("job-worker-0", "", ["/bin/sh", "-c", "ls -l"])),
        ("-x -o BatchMode=yes -p 2222 root@w true", ("w", "", ["/bin/sh", "-c", "true"])),
        ("-oBatchMode=yes w true", ("w", "", ["/bin/sh", "-c", "true"])),
        ("w", None),
    ],
)
def test_ssh(words, expected):
    assert parse_ssh(words.split()) == expected


def test_hosts_become_the_machine_once_for_each_slot():
    hosts = ["m-worker-1", "m-worker-10", "m-worker-1.m.ns.svc"]
    text = "m-worker-1 slots=2\nm-worker-10 slots=1\nm-worker-1.m.ns.svc:1\n"
    assert mpi_pods.on_one_host(text, hosts) == "localhost\n" * 4
    assert mpi_pods.on_one_host("echo m-worker-10:2; ./m-worker-1.txt", hosts) == "echo localhost:2; ./m-worker-1.txt"


def test_the_hostfile_of_2000_workers_is_written_in_a_fraction_of_a_second():
    hosts = [f"m-worker-{index}" for index in range(2000)]
    names = [*hosts, *(f"{host}.m.ns.svc" for host in hosts)]
    started = time.process_time()
    assert mpi_pods.on_one_host("".join(f"{host} slots=50\n" for host in hosts), names) == "localhost\n" * 100_000
    assert time.process_time() - started < 0.1


def a_pod(role: str, *, command: list[str] | None = None) -> dict:
    keys = {"name": "ssh-auth", "mountPath": "/root/.ssh"}
    container = {"name": "mpi", "image": "x", "volumeMounts": [keys]} | ({"command": command} if command else {})
    delivery = {"name": "kubectl-delivery", "image": "kubectl", "env": [{"name": "TARGET_DIR", "value": "/opt/kube"}]}
    spec = {"containers": [container], "volumes": [{"name": "ssh-auth", "secret": {"secretName": "s"}}]}
    inits = {"initContainers": [delivery]} if role == "launcher" else {}
    labels = {"training.kubeflow.org/replica-type": role}
    return {"metadata": {"name": f"m-{role}", "labels": labels}, "spec": spec | inits}


def admitted(pod: dict, version: str, *, in_containers: bool) -> dict:
    return mpi_pods.admitted(pod, version, Path("/run/1"), "0123", in_containers=in_containers)


def test_a_launcher_gets_the_programs_of_the_run():
    spec = admitted(a_pod("launcher", command=["mpirun"]), "v1", in_containers=False)["spec"]
    (init,) = spec["initContainers"]
    assert (init["image"], init["command"][-1]) == ("x", "cp /run/trainshed/kubectl $TARGET_DIR/kubectl")
    (container,) = spec["containers"]
    variables = {entry["name"]: entry["value"] for entry in container["env"]}
    assert variables["TRAINSHED_EXEC"] == "/run/trainshed/exec.sock"
    assert variables["TRAINSHED_EXEC_SECRET"] == "0123"
    assert variables["PRTE_ALLOW_RUN_AS_ROOT"] == "1"
    assert variables["PRTE_MCA_hwloc_default_binding_policy"] == "none", "the machine may have fewer cores than slots"
    assert spec["volumes"] == [{"name": "trainshed-exec", "hostPath": {"path": "/run/1"}}]
    assert [mount["name"] for mount in container["volumeMounts"]] == ["trainshed-exec"]


def test_a_worker_sleeps_instead_of_sshd():
    for command in (None, ["/usr/sbin/sshd", "-De"]):
        spec = admitted(a_pod("worker", command=command), "v2beta1", in_containers=False)["spec"]
        assert spec["containers"][0]["command"][0] == "sleep"
        assert spec["containers"][0]["volumeMounts"] == spec["volumes"] == []
    other = admitted(a_pod("worker", command=["serve"]), "v2beta1", in_containers=False)
    assert other["spec"]["containers"][0]["command"] == ["serve"]


def test_containers_have_their_own_sshd():
    pod = a_pod("worker")
    assert admitted(pod, "v2beta1", in_containers=True) is pod
    launcher = admitted(a_pod("launcher"), "v1", in_containers=True)["spec"]["containers"][0]
    variables = [entry["name"] for entry in launcher["env"]]
    assert variables == ["TRAINSHED_EXEC", "TRAINSHED_EXEC_SECRET"], "the image decides who may be root"


def test_the_programs_that_start_ranks_are_found():
    shell = ["sh", "-c", "cd /work && mpirun -np 2 train; echo mpiexec.log"]
    assert [program for _, program in mpi_pods.starters(a_pod("launcher", command=shell))] == ["mpirun"]
    assert list(mpi_pods.starters(a_pod("worker", command=["mpirun"]))) == []
