"""The test bed with the operator in it, as `make deploy` leaves it; a namespace for each test."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support import UserClient
from support.kubectl import PATIENCE, Kubectl
from support.user_client import eventually
from testbed import images, kind

#: What the names of the tests' namespaces begin with.
PREFIX = "e2e-"


@pytest.fixture(scope="session")
def kubeconfig() -> str:
    """The kubeconfig of the test bed, in which the operator runs as its Deployment."""
    path = kind.kubeconfig()
    assert path.exists(), "the test bed is not up: make deploy"
    kind.load(images.common())
    return str(path)


@contextmanager
def new_namespace(kubeconfig: str) -> Iterator[Kubectl]:
    """kubectl in a new namespace, which is deleted afterwards; its pods are waited for at the end of all tests."""
    namespace = f"{PREFIX}{uuid.uuid4().hex[:6]}"
    run = Kubectl(kubeconfig, namespace)
    run("create", "namespace", namespace)
    yield run
    run("delete", "namespace", namespace, "--wait=false")


@pytest.fixture
def kubectl(kubeconfig: str) -> Iterator[Kubectl]:
    """kubectl in a namespace of the test's own, which goes with all that is in it."""
    with new_namespace(kubeconfig) as run:
        yield run


@pytest.fixture
def user(kubeconfig: str, kubectl: Kubectl) -> UserClient:
    """Plain requests in the same namespace."""
    return UserClient(Path(kubeconfig), kubectl.command[-1])


@pytest.fixture(autouse=True, scope="session")
def operator(kubeconfig: str) -> Iterator[None]:
    """The operator's Deployment is there and ready; at the end all namespaces go, and its log holds no traceback."""
    run = Kubectl(kubeconfig, "trainshed-system")
    run("rollout", "status", "deployment/trainshed", "--timeout=120s", timeout=130)
    yield
    if left := [name for name in run("get", "namespaces", "-o=name").split() if name.startswith(f"namespace/{PREFIX}")]:
        run("wait", "--for=delete", "--timeout=120s", *left, timeout=130)
    assert complaints(run) == []


@pytest.fixture(scope="session")
def flags(kubeconfig: str) -> str:
    """The flags of the operator. `make test-e2e` switches on what the chart leaves off."""
    return Kubectl(kubeconfig, "trainshed-system")("get", "deployment", "trainshed", "-o=jsonpath={..args}")


def complaints(run: Kubectl) -> list[str]:
    """Return the errors in the operator's log, as text or as JSON.

    A lost Lease is none: the leader may be on the node that test_nodes.py cuts off for longer than its Lease lasts.
    """
    log = eventually(lambda: _log(run), PATIENCE)
    words = ("Traceback", " ERROR ", '"level":"error"')
    lines = [line for line in log.splitlines() if any(word in line for word in words)]
    return [line for line in lines if "lease trainshed: lost" not in line]


def _log(run: Kubectl) -> str:
    """Return the operator's log, or "" if a pod of it disappeared meanwhile."""
    try:
        return run("logs", "--selector=app.kubernetes.io/name=trainshed", "--tail=-1", "--prefix")
    except AssertionError as error:
        if "NotFound" in str(error):
            return ""
        raise
