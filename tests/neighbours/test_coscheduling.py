"""Jobs as gangs of the real coscheduling plugin of scheduler-plugins.

By default it tries a gang that it has refused again after five minutes; here the scheduler has a flag that shortens it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support import gang_schedulers
from support.gang_cluster import RING_GROUP, GangCluster, OwnGang, prepare
from support.gang_scenarios import (
    test_a_gang_that_does_not_fit_has_no_pod_on_a_node_and_says_why,
    test_a_gang_that_fits_runs_and_its_group_goes_with_it,
    test_a_gang_that_restarts_keeps_its_group,
    test_a_running_gang_grows_and_shrinks,
    test_of_two_gangs_that_do_not_fit_together_one_runs_after_the_other,
    test_with_a_smaller_minimum_the_rest_of_a_gang_may_wait,
    test_without_the_flag_all_pods_of_a_gang_that_the_user_made_start_at_once,
)
from support.user_client import always, eventually

from .conftest import Bed

__all__ = [
    "test_a_gang_that_does_not_fit_has_no_pod_on_a_node_and_says_why",
    "test_a_gang_that_fits_runs_and_its_group_goes_with_it",
    "test_a_gang_that_restarts_keeps_its_group",
    "test_a_running_gang_grows_and_shrinks",
    "test_of_two_gangs_that_do_not_fit_together_one_runs_after_the_other",
    "test_with_a_smaller_minimum_the_rest_of_a_gang_may_wait",
    "test_without_the_flag_all_pods_of_a_gang_that_the_user_made_start_at_once",
]

#: The scheduler takes minutes to build.
pytestmark = pytest.mark.long
GROUPS = "scheduling.x-k8s.io/v1alpha1"


@pytest.fixture(scope="module")
def scheduler(bed: Bed) -> Iterator[None]:
    """The scheduler of scheduler-plugins beside the control plane, with nodes."""
    prepare(bed.kubeconfig)
    with gang_schedulers.coscheduling(bed.plane, bed.folder / "scheduler"):
        yield


@pytest.fixture(scope="module")
def operator_flags() -> tuple[str, ...]:
    return (f"--gang-scheduler-name={gang_schedulers.COSCHEDULING}",)


@pytest.fixture
def why() -> str:
    return "Unschedulable: 5 of 5 replicas are not running"


@pytest.fixture
def own_gang() -> OwnGang:
    labels = {"scheduling.x-k8s.io/pod-group": "ring"}
    return OwnGang(RING_GROUP, {"labels": labels}, {"schedulerName": gang_schedulers.COSCHEDULING})


def test_a_minimum_of_no_pods_on_a_running_job_is_accepted(gang: GangCluster) -> None:
    gang.submit("none", 2)
    eventually(lambda: gang.runs("none", 2), 40)
    patch = {"spec": {"runPolicy": {"schedulingPolicy": {"minAvailable": 0}}}}
    gang.user.patch_job("PyTorchJob", "none", patch)
    eventually(lambda: (gang.group("none") or {})["spec"]["minMember"] == 1, 10)
    always(lambda: gang.blocked("none") == "", 2)
