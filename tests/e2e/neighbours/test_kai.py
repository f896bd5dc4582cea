"""Jobs with real containers as gangs of the real KAI: its pod-grouper, scheduler and binder run on the cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from support.gang_cluster import KaiGroups
from support.gang_scenarios import test_a_gang_that_does_not_fit_has_no_pod_on_a_node_and_says_why
from support.kubectl import PATIENCE, Kubectl
from support.user_client import eventually

from .deployments import kai as installed
from .node_gangs import NodeGangCluster

__all__ = ["test_a_gang_that_does_not_fit_has_no_pod_on_a_node_and_says_why"]

pytestmark = pytest.mark.long
GROUPS = "scheduling.run.ai/v2alpha2"


class KaiNodeGangCluster(KaiGroups, NodeGangCluster):
    """A user's jobs on the nodes, whose PodGroups KAI names."""


@pytest.fixture(scope="module")
def scheduler(
    kubeconfig: str,
    operator_with: Callable[[str], AbstractContextManager[None]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[None]:
    """KAI on the cluster, and the operator with its flag."""
    folder = tmp_path_factory.mktemp("kai")
    with installed(Kubectl(kubeconfig), folder), operator_with("gangScheduler=kai-scheduler"):
        yield


@pytest.fixture
def gang(kubeconfig: str, room: None, scheduler: None) -> Iterator[KaiNodeGangCluster]:
    """A user's jobs."""
    with KaiNodeGangCluster(Path(kubeconfig), GROUPS) as cluster:
        yield cluster


@pytest.fixture
def why() -> str:
    return "Unschedulable: 5 of 5 replicas are not running"


def test_a_gang_that_fits_is_one_group_and_runs_to_its_end(gang: KaiNodeGangCluster) -> None:
    gang.submit("fits", 3)
    eventually(lambda: gang.runs("fits", 3), PATIENCE)
    group = gang.group("fits")
    assert group
    assert (group["spec"]["minMember"], group["spec"]["queue"]) == (3, "default-queue")
    gang.finish("fits")
    eventually(lambda: gang.state("fits") == "Succeeded", PATIENCE)
