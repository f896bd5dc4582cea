"""An MPIJob whose names are taken, that is deleted, or that has fewer workers (TO-113 to TO-115)."""

from __future__ import annotations

import pytest

from support import FakeKubelet, Operator, UserClient
from support.jobs import job, template
from support.user_client import always, eventually

from .created_objects import RBAC, created_pods, list_by_name, pods, resize, uids
from .row import differs, same

MPI = "MPIJob"
POD = template("mpi")
ROLE_REF = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "other"}


@pytest.mark.fault("J1")
@differs(
    "TO-113",
    "D21",
    "an object of another owner with a needed name is reported in the condition Blocked, and not changed",
)
@pytest.mark.usefixtures("operator", "kubelet")
@pytest.mark.parametrize(
    ("plural", "group", "name", "content"),
    [
        ("pods", "/api/v1", "m-launcher", POD),
        ("pods", "/api/v1", "m-worker-0", POD),
        ("configmaps", "/api/v1", "m-config", {"data": {"theirs": "x"}}),
        ("roles", RBAC, "m-launcher", {"rules": []}),
        ("rolebindings", RBAC, "m-launcher", {"roleRef": ROLE_REF, "subjects": []}),
    ],
)
def test_a_stranger_is_left_alone(user: UserClient, plural: str, group: str, name: str, content: dict):
    path = f"{group}/namespaces/{user.namespace}/{plural}"
    before = user.call("POST", path, content | {"metadata": {"name": name, "labels": {"app": "m"}}})
    user.create(job(MPI, "m", Launcher=1, Worker=1))
    blocked = eventually(lambda: user.conditions(MPI, "m").get("Blocked"))
    assert blocked["status"] == "True"
    assert blocked["message"].startswith(f"{plural[:-1]} {name} already exists and is not controlled by this job;")
    assert user.state(MPI, "m") == "Blocked"
    after = list_by_name(user, plural, group)[name]
    for field in ("uid", "labels", "ownerReferences"):
        assert after["metadata"].get(field) == before["metadata"].get(field)
    for field in content:
        if plural != "pods":
            assert after.get(field) == before.get(field)


@same("TO-114", "an MPIJob that is gone before it is reconciled is no error")
def test_a_job_that_is_gone_is_no_error(user: UserClient, operator: Operator):
    for number in range(5):
        user.create(job(MPI, f"m-{number}", Launcher=1, Worker=1))
        user.delete_job(MPI, f"m-{number}")
    always(lambda: not _complaints(operator, user.namespace), during=0.5)
    assert operator.alive


@same("TO-115", "from three workers to one: two pods go, and hosts and Role are fewer")
def test_fewer_workers_are_fewer_hosts(user: UserClient, operator: Operator, kubelet: FakeKubelet):
    wanted = job(MPI, "m", Launcher=1, Worker=3)
    before = uids(created_pods(user, wanted, "m-launcher", "m-worker-0", "m-worker-1", "m-worker-2"))
    eventually(lambda: len(_hosts(user)) == 3)
    eventually(lambda: _may_enter(user) == ["m-worker-0", "m-worker-1", "m-worker-2"])
    resize(user, MPI, "m", Worker=1)
    after = uids(pods(user, "m-launcher", "m-worker-0"))
    assert after.items() <= before.items()
    eventually(lambda: _hosts(user) == ["m-worker-0 slots=1"])
    eventually(lambda: _may_enter(user) == ["m-worker-0"])


def _hosts(user: UserClient) -> list[str]:
    return list_by_name(user, "configmaps")["m-config"]["data"]["hostfile"].splitlines()


def _may_enter(user: UserClient) -> list[str]:
    rules = list_by_name(user, "roles", RBAC)["m-launcher"]["rules"]
    return [name for rule in rules if rule["resources"] == ["pods/exec"] for name in rule["resourceNames"]]


def _complaints(operator: Operator, namespace: str) -> list[str]:
    lines = (line for line in operator.log.read_text().splitlines() if namespace in line)
    return [line for line in lines if any(word in line for word in ("ERROR", "WARNING", "Traceback"))]
