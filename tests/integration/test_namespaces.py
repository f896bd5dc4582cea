"""With rights in some namespaces only, the operator manages these, and reports the missing rights."""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable
from functools import partial

import pytest

from generate_manifests import KIND_RULES, LEASE_RULES, MPI_RULES, RULES, Rules
from support import Operator, Operators
from support.fake_kubelet import FakeKubelet
from support.jobs import smallest, tfjob
from support.user_client import UserClient, always, eventually
from testbed.control_plane import ControlPlane

RBAC = "/apis/rbac.authorization.k8s.io/v1"
#: For all kinds of jobs, without a gang scheduler.
JOBS = (*RULES, *(rule for rules in KIND_RULES.values() for rule in rules), *MPI_RULES)


@pytest.fixture
def account(second_server: ControlPlane) -> str:
    """A user without any right."""
    return f"trainshed-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def hands(second_server: ControlPlane) -> list[UserClient]:
    """Three namespaces."""
    return [UserClient.somewhere(second_server.kubeconfig, named=name) for name in ("first", "second", "third")]


@pytest.fixture
def begin(second_server: ControlPlane, account: str, operators: Operators) -> Callable[..., Operator]:
    """Starts an operator with this account, and does not wait for it."""
    kubeconfig = second_server.kubeconfig_for(account, ("system:authenticated",))
    return partial(operators.begin, kubeconfig, wait=False)


def permit(user: UserClient, account: str, *rules: Rules) -> None:
    """Give the account rights in the user's namespace, by a Role and nothing else."""
    base = f"{RBAC}/namespaces/{user.namespace}"
    parts = [
        {"apiGroups": [group], "resources": kinds, "verbs": verbs} for found in rules for group, kinds, verbs in found
    ]
    user.call("POST", f"{base}/roles", {"metadata": {"name": "trainshed"}, "rules": parts})
    subject = {"kind": "User", "name": account, "apiGroup": "rbac.authorization.k8s.io"}
    reference = {"kind": "Role", "name": "trainshed", "apiGroup": "rbac.authorization.k8s.io"}
    binding = {"metadata": {"name": "trainshed"}, "subjects": [subject], "roleRef": reference}
    user.call("POST", f"{base}/rolebindings", binding)


def readiness(operator: Operator) -> tuple[int, str]:
    """Return the status of /readyz; 0 before it listens."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{operator.health}/readyz", timeout=2) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def denied(plane: ControlPlane, account: str) -> list[str]:
    """Return the refused requests of the account, from the audit log."""
    lines = (json.loads(line) for line in plane.audit_log.read_text().splitlines() if account in line)
    return [
        f"{line['verb']} {line['requestURI']}" for line in lines if line.get("responseStatus", {}).get("code") == 403
    ]


def test_with_roles_in_two_namespaces_jobs_run_only_there(
    second_server: ControlPlane, hands: list[UserClient], account: str, begin: Callable[..., Operator]
):
    first, second, third = hands
    permit(first, account, JOBS, LEASE_RULES)
    permit(second, account, JOBS)
    flags = (f"--namespace={first.namespace},{second.namespace}", f"--lease-namespace={first.namespace}")
    operator = begin(*flags)
    operator.wait_until_ready()
    with FakeKubelet(first) as kubelet, FakeKubelet(second):
        for user in hands:
            user.create(tfjob("mnist", Worker=2))
        second.create(smallest("MPIJob", "hello"))
        for user in (first, second):
            eventually(lambda user=user: user.state("TFJob", "mnist") == "Running", 20)
        eventually(lambda: second.state("MPIJob", "hello") == "Running", 20)
        kubelet.end("mnist-worker-0", 0)
        eventually(lambda: first.state("TFJob", "mnist") == "Succeeded")
        eventually(lambda: first.events("mnist"))
    always(lambda: third.pods() == [] and third.conditions("TFJob", "mnist") == {})
    assert readiness(operator) == (200, "ok\n")
    assert denied(second_server, account) == [], "it asked for what it may not have"
    began = time.monotonic()
    assert operator.stop() == 0
    assert time.monotonic() - began < 5
    assert operator.complaints() == []
    assert not re.search("kopf .*; restarting", operator.log.read_text())


def kopf_watches(plane: ControlPlane, account: str) -> set[str]:
    """Return the namespaces in which kopf has watched jobs of this account's operator, from the audit log."""
    lines = (json.loads(line) for line in plane.audit_log.read_text().splitlines() if account in line)
    mine = (line for line in lines if line["verb"] == "watch" and line["responseStatus"].get("code") == 200)
    return {line["objectRef"]["namespace"] for line in mine if "kopf" in line.get("userAgent", "").lower()}


def test_a_namespace_without_rights_is_reported_and_delays_neither_others_nor_the_readiness(
    second_server: ControlPlane, hands: list[UserClient], account: str, begin: Callable[..., Operator]
):
    first, second, _ = hands
    permit(first, account, JOBS, LEASE_RULES)
    flags = (f"--namespace={first.namespace}", f"--namespace={second.namespace}")
    operator = begin(*flags, f"--lease-namespace={first.namespace}")
    with FakeKubelet(first), FakeKubelet(second):
        for user in (first, second):
            user.create(tfjob("mnist", Worker=1))
        eventually(lambda: first.state("TFJob", "mnist") == "Running", 20)
        assert eventually(lambda: readiness(operator)[0] == 200)
        _, said = readiness(operator)
        assert said.count("\n") == 2, "ok, and a line for the one namespace that lacks rights"
        assert re.search(f"cannot list and watch .* in namespace {second.namespace}: ", said)
        assert f'User "{account}" cannot list resource' in said
        assert said.split(": ", 1)[1].strip() in operator.log.read_text()
        assert second.pods() == []
        eventually(lambda: kopf_watches(second_server, account) == {first.namespace}, 20)
        permit(second, account, JOBS)
        eventually(lambda: second.state("TFJob", "mnist") == "Running", 20)
        eventually(lambda: kopf_watches(second_server, account) == {first.namespace, second.namespace}, 30)
    assert eventually(lambda: readiness(operator) == (200, "ok\n"))
    assert not re.search("kopf .*; restarting", operator.log.read_text())
    assert operator.complaints() == []


def test_a_forbidden_lease_is_reported(
    second_server: ControlPlane, hands: list[UserClient], account: str, begin: Callable[..., Operator]
):
    first, *_ = hands
    permit(first, account, JOBS)
    flags = (f"--namespace={first.namespace}", f"--lease-namespace={first.namespace}")
    operator = begin(*flags)
    said = f"cannot acquire the Lease {first.namespace}/trainshed: leases.coordination.k8s.io"
    eventually(lambda: said in readiness(operator)[1], 20)
    assert "leases.coordination.k8s.io" in operator.log.read_text()
