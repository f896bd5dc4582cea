"""Jobs as gangs of the real kube-scheduler, with Kubernetes' own PodGroups."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support import gang_schedulers
from support.gang_cluster import GangCluster, OwnGang, SimulatedGangCluster, prepare
from support.gang_scenarios import *  # noqa: F403 - its tests
from support.gang_schedulers import GATE, KUBERNETES_API, SERVED
from support.operator import Operator
from support.user_client import always, eventually
from testbed.control_plane import ControlPlane

from .conftest import Bed

GROUPS = KUBERNETES_API


@pytest.fixture(scope="module")
def feature_gates() -> tuple[str, ...]:
    return GATE, SERVED


@pytest.fixture(scope="module")
def scheduler(bed: Bed) -> Iterator[None]:
    """kube-scheduler beside the control plane, with nodes."""
    prepare(bed.kubeconfig)
    with gang_schedulers.kubernetes(bed.plane, bed.folder / "scheduler"):
        yield


@pytest.fixture(scope="module")
def operator_flags() -> tuple[str, ...]:
    return ("--gang-scheduler-name=kubernetes",)


@pytest.fixture
def why() -> str:
    return "Unschedulable: 5 of 5 replicas are not running"


@pytest.fixture
def own_gang() -> OwnGang:
    group = {"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}, "metadata": {"name": "ring"}}
    return OwnGang(
        {"apiVersion": GROUPS, "kind": "PodGroup", **group}, {}, {"schedulingGroup": {"podGroupName": "ring"}}
    )


def test_without_the_mark_the_workers_of_an_xgboost_job_are_created_after_their_master(
    gang: SimulatedGangCluster, without_flag: Operator
) -> None:
    gang.held.add("ring-master-0")
    gang.submit_marked("XGBoostJob", OwnGang())
    eventually(lambda: gang.bound("ring") == 1, 20)
    always(lambda: len(gang.uids("ring")) == 1, 3)
    waiting = gang.user.job("XGBoostJob", "ring")["status"]["waiting"]
    assert [(item["reason"], item["indexes"]) for item in waiting] == [("NotCreated", "0-1")]
    gang.held.clear()
    eventually(lambda: gang.user.state("XGBoostJob", "ring") == "Running" and gang.bound("ring") == 3, 40)


def test_a_gang_of_higher_priority_preempts_all_pods_of_another(gang: GangCluster) -> None:
    gang.submit("low", 3, priority="low")
    eventually(lambda: gang.runs("low", 3), 40)
    before = gang.uids("low")
    gang.submit("high", 3, priority="high")
    eventually(lambda: gang.runs("high", 3), 60)
    assert before.isdisjoint(gang.uids("low"))
    assert gang.bound("low") == 0
    gang.finish("high")
    eventually(lambda: gang.runs("low", 3), 60)


def test_a_suspended_gang_gets_a_new_group_when_it_is_resumed(gang: GangCluster) -> None:
    gang.submit("paused", 3)
    eventually(lambda: gang.runs("paused", 3), 40)
    first = (gang.group("paused") or {})["metadata"]["uid"]
    gang.user.patch_job("PyTorchJob", "paused", {"spec": {"runPolicy": {"suspend": True}}})
    eventually(lambda: gang.group("paused") is None, 30)
    gang.user.patch_job("PyTorchJob", "paused", {"spec": {"runPolicy": {"suspend": False}}})
    eventually(lambda: gang.runs("paused", 3), 40)
    assert (gang.group("paused") or {})["metadata"]["uid"] != first


def test_templates_of_different_priorities_make_no_gang(gang: GangCluster) -> None:
    gang.submit("mixed", 2, priority="high", priorityClass="low")
    eventually(lambda: gang.blocked("mixed").startswith("DifferentPriorities: "), 20)
    always(lambda: gang.uids("mixed") == set(), 3)
    assert gang.group("mixed") is None


def test_without_the_api_jobs_wait_until_it_is_served(bed: Bed, gang: GangCluster, operator: Operator) -> None:
    plane = bed.plane
    usual = plane.extra_flags
    plane.extra_flags = tuple(flag for flag in usual if flag not in (GATE, SERVED))  # with the gate 1.36 needs the API
    _restart(plane)
    assert operator.stop() == 0
    operator.start()
    gang.submit("waits", 2)
    eventually(lambda: gang.blocked("waits").startswith("PodGroupNotServed: "), 20)
    always(lambda: gang.uids("waits") == set(), 3)
    plane.extra_flags = usual
    _restart(plane)
    eventually(lambda: gang.runs("waits", 2), 90)


def _restart(plane: ControlPlane) -> None:
    plane.stop_apiserver()
    plane.start_apiserver()
