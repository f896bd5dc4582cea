"""Jobs with real containers as gangs of the real KAI: its pod-grouper, scheduler and binder run on the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.gang_cluster import KaiGroups
from support.gang_scenarios import test_a_gang_that_does_not_fit_has_no_pod_on_a_node_and_says_why
from support.kubectl import PATIENCE
from support.user_client import eventually

from . import deployments
from .node_gangs import NodeGangCluster

__all__ = ["test_a_gang_that_does_not_fit_has_no_pod_on_a_node_and_says_why"]

pytestmark = pytest.mark.long
GROUPS = "scheduling.run.ai/v2alpha2"
INSTALLED, SCHEDULER = deployments.kai, deployments.KAI


class KaiNodeGangCluster(KaiGroups, NodeGangCluster):
    """A user's jobs on the nodes, whose PodGroups KAI names."""


@pytest.fixture
def gang(kubeconfig: str, room: None, scheduler: None) -> Iterator[KaiNodeGangCluster]:
    """A user's jobs."""
    with KaiNodeGangCluster(Path(kubeconfig), GROUPS) as cluster:
        yield cluster


def test_a_gang_that_fits_is_one_group_and_runs_to_its_end(gang: KaiNodeGangCluster) -> None:
    gang.submit("fits", 3)
    eventually(lambda: gang.runs("fits", 3), PATIENCE)
    group = gang.group("fits")
    assert group
    assert (group["spec"]["minMember"], group["spec"]["queue"]) == (3, "default-queue")
    gang.finish("fits")
    eventually(lambda: gang.state("fits") == "Succeeded", PATIENCE)
