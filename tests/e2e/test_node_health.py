"""A condition of a real node, as Node Problem Detector sets it, explains the end of a replica that ran there then."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from support import UserClient
from support.user_client import eventually

from .conftest import PATIENCE, Kubectl
from .test_reasons import KIND, a_job, all_run, runs

FLAG, CONDITION = "--node-health", "TrainshedTestProblem"
STRATEGIC = "application/strategic-merge-patch+json"
#: A program that fails when a file is there.
FAILS_ON_DEMAND = ["sh", "-c", "until [ -e /tmp/end ]; do sleep 0.2; done; exit 1"]


@pytest.fixture(autouse=True)
def enabled(flags: str) -> None:
    """Fail if the operator may not read nodes."""
    assert FLAG in flags, "make deploy VALUES='--set nodeHealth.enabled=true'"


class Conditions:
    """Sets a condition on nodes, and removes it again."""

    def __init__(self, user: UserClient) -> None:
        self._user = user
        self._nodes: set[str] = set()

    def set(self, node: str, since: datetime) -> None:
        """Say that the node has a problem since this time."""
        said = {"status": "True", "reason": "XidError", "message": "GPU fell off the bus"}
        said["lastTransitionTime"] = since.strftime("%Y-%m-%dT%H:%M:%SZ")
        self._nodes.add(node)
        self._patch(node, said)

    def remove(self) -> None:
        """Remove all that were set."""
        for node in self._nodes:
            self._patch(node, {"$patch": "delete"})

    def _patch(self, node: str, condition: dict) -> None:
        body = {"status": {"conditions": [{"type": CONDITION} | condition]}}
        self._user.call("PATCH", f"/api/v1/nodes/{node}/status", body, STRATEGIC)


@pytest.fixture
def conditions(user: UserClient) -> Iterator[Conditions]:
    """Conditions that are gone at the end."""
    found = Conditions(user)
    yield found
    found.remove()


def test_a_replica_is_tried_again_because_its_node_got_a_problem(
    user: UserClient, kubectl: Kubectl, conditions: Conditions
) -> None:
    user.create(a_job("broken", FAILS_ON_DEMAND, policy={"backoffLimit": 0}))
    eventually(lambda: all_run(user, "broken"), PATIENCE)
    node = user.pod("broken-worker-0")["spec"]["nodeName"]
    conditions.set(node, datetime.now(UTC))
    kubectl("exec", "broken-worker-0", "--", "touch", "/tmp/end")
    failure = eventually(lambda: runs(user, "broken"), PATIENCE)["status"]["failure"]
    assert failure["class"] == "Infrastructure"
    assert f"({node} failed meanwhile: {CONDITION}: GPU fell off the bus)" in failure["message"]
    assert user.job(KIND, "broken")["status"].get("restarts", 0) == 0
