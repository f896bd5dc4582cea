"""The environment of the pods of a TFJob (TO-122, TO-126 to TO-133)."""

from __future__ import annotations

import json

import pytest

from support import UserClient
from support.jobs import job, pod_spec

from .created_objects import created_pods, variables
from .row import same

pytestmark = pytest.mark.usefixtures("operator")

TF = "TFJob"
NAME = "test-tfjob"
PORT = "tfjob-port"


def config(pod: dict, container: str = "tensorflow") -> list[str]:
    """The texts of TF_CONFIG in a container."""
    return [value for name, value in variables(pod, container) if name == "TF_CONFIG"]


def tf_configs(user: UserClient, wanted: dict, *members: str) -> dict[str, list[str]]:
    """Return the texts of TF_CONFIG by replica, for a job of these replicas."""
    made = created_pods(user, wanted, *(f"{NAME}-{member}" for member in members))
    return {member: config(made[f"{NAME}-{member}"]) for member in members}


def dynamic(**roles: int) -> dict:
    """A TFJob whose workers come and go."""
    wanted = job(TF, NAME, **roles)
    wanted["spec"]["enableDynamicWorker"] = True
    return wanted


def host(user: UserClient, member: str, port: int = 2222) -> str:
    """Return the address of a replica."""
    return f"{NAME}-{member}.{user.namespace}.svc:{port}"


def written(value: object) -> list[str]:
    """JSON without spaces, once."""
    return [json.dumps(value, separators=(",", ":"))]


@same("TO-122", "one worker and no parameter servers need no TF_CONFIG")
def test_a_lone_worker_gets_no_tf_config(user: UserClient):
    assert tf_configs(user, job(TF, NAME, Worker=1, PS=0), "worker-0") == {"worker-0": []}


@same("TO-126", "evaluator, parameter server and worker find each other by host, in the order of the alphabet")
def test_everybody_is_in_the_cluster(user: UserClient):
    members = ("evaluator-0", "ps-0", "worker-0")
    found = tf_configs(user, job(TF, NAME, Worker=1, PS=1, Evaluator=1), *members)
    cluster = {member.partition("-")[0]: [host(user, member)] for member in members}
    for member in members:
        task = {"type": member.partition("-")[0], "index": 0}
        assert found[member] == written({"cluster": cluster, "task": task, "environment": "cloud"})


@same("TO-127", "a job is distributed if it has more than one replica")
@pytest.mark.parametrize(
    ("roles", "distributed"),
    [
        ({"Worker": 1}, False),
        ({"Worker": 1, "PS": 1}, True),
        ({"PS": 1}, False),
        ({"Worker": 1, "Chief": 1}, True),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else "",
)
def test_a_lone_replica_gets_no_tf_config(user: UserClient, roles: dict, distributed: bool):
    found = tf_configs(user, job(TF, NAME, **roles), *(f"{role.lower()}-0" for role in roles))
    assert {bool(texts) for texts in found.values()} == {distributed}


@same("TO-128", "dynamic: a worker gets its own address by its index, and those of all parameter servers")
def test_a_dynamic_worker_knows_the_servers(user: UserClient):
    members = ("worker-0", "worker-1", "ps-0", "ps-1")
    found = tf_configs(user, dynamic(Worker=2, PS=2), *members)
    servers = [host(user, "ps-0"), host(user, "ps-1")]
    for index in range(2):
        cluster = {"worker": {str(index): host(user, f"worker-{index}")}, "ps": servers}
        assert found[f"worker-{index}"] == written({"cluster": cluster, "task": {"type": "worker", "index": index}})


@same("TO-129", "dynamic: a parameter server gets only its own address")
def test_a_server_of_dynamic_workers_knows_itself(user: UserClient):
    found = tf_configs(user, dynamic(Worker=2, PS=2), "worker-0", "worker-1", "ps-0", "ps-1")
    cluster = {"worker": {}, "ps": [host(user, "ps-0")]}
    assert found["ps-0"] == written({"cluster": cluster, "task": {"type": "ps", "index": 0}})


@same("TO-130", "dynamic: no environment; no chief; null where there are no parameter servers")
def test_a_chief_of_dynamic_workers_knows_nobody(user: UserClient):
    found = tf_configs(user, dynamic(Worker=1, Chief=1), "worker-0", "chief-0")
    assert found["chief-0"] == written({"cluster": {"worker": {}, "ps": []}, "task": {"type": "chief", "index": 0}})
    cluster = {"worker": {"0": host(user, "worker-0")}, "ps": None}
    assert found["worker-0"] == written({"cluster": cluster, "task": {"type": "worker", "index": 0}})


@same("TO-131", "a role's own tfjob-port is in its addresses, and 2222 in the others'")
def test_a_role_has_its_own_port(user: UserClient):
    wanted = job(TF, NAME, Worker=1, PS=1)
    pod_spec(wanted, "PS")["containers"][0]["ports"] = [{"name": PORT, "containerPort": 3333}]
    (text,) = tf_configs(user, wanted, "worker-0", "ps-0")["worker-0"]
    assert json.loads(text)["cluster"] == {"ps": [host(user, "ps-0", 3333)], "worker": [host(user, "worker-0")]}


@same("TO-132", "TF_CONFIG is for the container tensorflow, not for a sidecar")
def test_a_sidecar_gets_no_tf_config(user: UserClient):
    wanted = job(TF, NAME, Worker=2)
    pod_spec(wanted, "Worker")["containers"].append({"name": "sidecar", "image": "busybox"})
    for pod in created_pods(user, wanted, f"{NAME}-worker-0", f"{NAME}-worker-1").values():
        assert len(config(pod)) == 1
        assert config(pod, "sidecar") == []


@same("TO-133", "a TF_CONFIG of the template stays, and the operator's stands after it")
def test_a_users_own_stands_before_ours(user: UserClient):
    wanted = job(TF, NAME, Worker=2)
    pod_spec(wanted, "Worker")["containers"][0]["env"] = [{"name": "TF_CONFIG", "value": "{}"}]
    for texts in tf_configs(user, wanted, "worker-0", "worker-1").values():
        theirs, own = texts
        assert theirs == "{}"
        assert list(json.loads(own)) == ["cluster", "task", "environment"]
