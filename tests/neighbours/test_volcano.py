"""Jobs as gangs of the real Volcano."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support import gang_schedulers
from support.gang_cluster import GangCluster, OwnGang, prepare
from support.gang_scenarios import *  # noqa: F403 - its tests
from support.user_client import eventually

from .conftest import Bed

#: The scheduler takes minutes to build.
pytestmark = pytest.mark.long
GROUPS = "scheduling.volcano.sh/v1beta1"


@pytest.fixture(scope="module")
def scheduler(bed: Bed) -> Iterator[None]:
    """Volcano beside the control plane, with nodes."""
    prepare(bed.kubeconfig)
    with gang_schedulers.volcano(bed.plane, bed.folder / "volcano"):
        yield


@pytest.fixture(scope="module")
def operator_flags() -> tuple[str, ...]:
    return ("--gang-scheduler-name=volcano",)


@pytest.fixture
def why() -> str:
    return "its phase is Pending (resource in cluster is overused: overused cpu)"


@pytest.fixture
def own_gang() -> OwnGang:
    group = {"apiVersion": GROUPS, "kind": "PodGroup", "metadata": {"name": "ring"}, "spec": {"minMember": 3}}
    return OwnGang(group, {"annotations": {"scheduling.k8s.io/group-name": "ring"}}, {"schedulerName": "volcano"})


def test_a_queue_limits_its_jobs_and_a_job_says_so(gang: GangCluster) -> None:
    name = f"small-{gang.user.namespace}"
    queue = {"apiVersion": GROUPS, "kind": "Queue", "metadata": {"name": name}}
    queue["spec"] = {"weight": 1, "capability": {"cpu": "2", "memory": "4Gi"}, "reclaimable": True}
    gang.user.call("POST", f"/apis/{GROUPS}/queues", queue)
    gang.submit("allowed", 2, queue=name)
    eventually(lambda: gang.runs("allowed", 2), 40)
    gang.submit("waits", 2, queue=name)
    why = "its phase is Pending (queue resource quota insufficient: insufficient cpu)"
    eventually(lambda: why in gang.blocked("waits"), 60)
    gang.finish("allowed")
    eventually(lambda: gang.runs("waits", 2), 60)


def test_a_gang_that_is_admitted_and_fits_no_node_says_why(gang: GangCluster) -> None:
    gang.submit("admitted", 5, minResources={"cpu": "1"})
    eventually(lambda: len(gang.uids("admitted")) == 5, 20)
    eventually(lambda: gang.blocked("admitted").startswith("Unschedulable: 5 of 5 replicas are not running"), 60)
    assert "pod group is not ready" in gang.blocked("admitted")
    assert gang.bound("admitted") == 0
