"""What a gang scheduler must do with jobs, whichever it is; each file of a scheduler imports these tests.

`gang` is a user's part of a cluster that has room for four pods, with simulated kubelets or with real containers.
"""

from __future__ import annotations

import time
from datetime import datetime

import pytest

from trainshed.plan.start_order import YIELD_AFTER

from .gang_cluster import PATIENCE, GangCluster, OwnGang
from .operator import Operator
from .user_client import always, eventually

__all__ = [
    "test_a_gang_that_does_not_fit_has_no_pod_on_a_node_and_says_why",
    "test_a_gang_that_fits_runs_and_its_group_goes_with_it",
    "test_a_gang_that_restarts_keeps_its_group",
    "test_a_running_gang_grows_and_shrinks",
    "test_of_two_gangs_that_do_not_fit_together_one_runs_after_the_other",
    "test_of_two_waiting_gangs_the_one_of_higher_priority_runs_first",
    "test_with_a_smaller_minimum_the_rest_of_a_gang_may_wait",
    "test_without_the_flag_all_pods_of_a_gang_that_the_user_made_start_at_once",
]


def test_a_gang_that_fits_runs_and_its_group_goes_with_it(gang: GangCluster) -> None:
    gang.submit("fits", 3)
    eventually(lambda: gang.runs("fits", 3), PATIENCE)
    assert gang.group("fits")
    gang.finish("fits")
    eventually(lambda: gang.state("fits") == "Succeeded", PATIENCE)
    eventually(lambda: gang.group("fits") is None, PATIENCE)


def test_a_gang_that_does_not_fit_has_no_pod_on_a_node_and_says_why(gang: GangCluster, why: str) -> None:
    gang.submit("large", 5)
    eventually(lambda: gang.group("large"), PATIENCE)
    always(lambda: gang.bound("large") == 0, 10)
    eventually(lambda: why in gang.blocked("large"), PATIENCE)
    print("Blocked:", gang.blocked("large"))
    assert gang.bound("large") == 0


def test_of_two_gangs_that_do_not_fit_together_one_runs_after_the_other(gang: GangCluster) -> None:
    names = ["one", "two"]
    for name in names:
        gang.submit(name, 3)
    eventually(lambda: any(gang.runs(name, 3) for name in names), PATIENCE)
    first, second = sorted(names, key=lambda name: not gang.runs(name, 3))
    always(lambda: gang.bound(second) == 0, 5)
    gang.finish(first)
    eventually(lambda: gang.state(first) == "Succeeded", PATIENCE)
    eventually(lambda: gang.runs(second, 3), PATIENCE)
    eventually(lambda: gang.blocked(second) == "", PATIENCE)


def test_with_a_smaller_minimum_the_rest_of_a_gang_may_wait(gang: GangCluster) -> None:
    gang.submit("part", 5, minAvailable=3)
    eventually(lambda: gang.runs("part", 4), PATIENCE)
    assert (gang.bound("part"), len(gang.uids("part"))) == (4, 5)


def test_a_running_gang_grows_and_shrinks(gang: GangCluster) -> None:
    gang.submit("scaled", 2)
    eventually(lambda: gang.runs("scaled", 2), PATIENCE)
    gang.scale("scaled", 4)
    eventually(lambda: gang.runs("scaled", 4), PATIENCE)
    gang.scale("scaled", 3)
    eventually(lambda: len(gang.uids("scaled")) == 3, PATIENCE)
    always(lambda: gang.runs("scaled", 3), 2)


def test_a_gang_that_restarts_keeps_its_group(gang: GangCluster) -> None:
    gang.submit("again", 3)
    eventually(lambda: gang.runs("again", 3), PATIENCE)
    before, group = gang.uids("again"), gang.group("again")
    gang.fail("again-worker-0")
    eventually(lambda: len(gang.uids("again") - before) == 3, PATIENCE)
    eventually(lambda: gang.runs("again", 3), PATIENCE)
    after = gang.group("again")
    assert group
    assert after
    assert after["metadata"]["uid"] == group["metadata"]["uid"]
    assert after["spec"] == group["spec"]


def test_of_two_waiting_gangs_the_one_of_higher_priority_runs_first(gang: GangCluster) -> None:
    gang.submit("first", 4, priority="high", priorityClass="high")
    eventually(lambda: gang.runs("first", 4), PATIENCE)
    for name in ("low", "high"):
        gang.submit(name, 3, priority=name, priorityClass=name)
        time.sleep(1)
    always(lambda: gang.bound("low") + gang.bound("high") == 0, 3)
    gang.finish("first")
    eventually(lambda: gang.runs("high", 3), PATIENCE)
    assert gang.bound("low") == 0


@pytest.mark.reported("11-own-gang")
@pytest.mark.parametrize("kind", ["MPIJob", "XGBoostJob"])
def test_without_the_flag_all_pods_of_a_gang_that_the_user_made_start_at_once(
    gang: GangCluster, without_flag: Operator, own_gang: OwnGang, kind: str
) -> None:
    gang.submit_marked(kind, own_gang)
    eventually(lambda: gang.user.state(kind, "ring") == "Running" and gang.bound("ring") == 3, PATIENCE)
    created = sorted(datetime.fromisoformat(pod["metadata"]["creationTimestamp"]) for pod in gang.user.pods("ring"))
    assert created[-1] - created[0] < YIELD_AFTER / 2
