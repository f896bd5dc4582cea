"""Whether queues of Kueue have quota for a job."""

from __future__ import annotations

import pytest

from trainshed.fit import kueue_queues
from trainshed.fit.assessment import Fit
from trainshed.fit.demands import RoleDemand


def role(count: int, gpus: int, name: str = "Worker") -> RoleDemand:
    container = {"resources": {"limits": {"gpu": str(gpus)} if gpus else {"cpu": "1"}}}
    return RoleDemand(name, tuple(map(str, range(count))), {"containers": [container]})


def flavor(name: str, quota: int, borrowing: int | None = None) -> dict:
    more = {} if borrowing is None else {"borrowingLimit": str(borrowing)}
    return {"name": name, "resources": [{"name": "gpu", "nominalQuota": str(quota), **more}]}


def queue(*flavors: dict, used: dict | None = None, waiting: int = 0, **spec: object) -> dict:
    usage = [{"name": name, "resources": [{"name": "gpu", "total": total}]} for name, total in (used or {}).items()]
    groups = [{"coveredResources": ["gpu"], "flavors": list(flavors)}]
    status = {"flavorsReservation": usage, "pendingWorkloads": waiting}
    return {"metadata": {"name": "all"}, "spec": {"resourceGroups": groups, **spec}, "status": status}


A8 = flavor("a", 8)
SHORT = "ClusterQueue all has too little for Worker: "


@pytest.mark.parametrize(
    ("demands", "cluster", "fits", "said"),
    [
        ([role(2, 4)], queue(A8), Fit.OK, "ClusterQueue all has quota left: flavour a"),
        (
            [role(2, 4)],
            queue(A8, used={"a": "4"}),
            Fit.LACKING,
            f"{SHORT}8 gpu are asked for, and of flavour a 4 of 8 are",
        ),
        ([role(3, 4)], queue(A8), Fit.LACKING, "0 of 8 are used, so that it does not fit even when all else has ended"),
        ([role(2, 4)], queue(A8, flavor("b", 9), used={"a": "4"}), Fit.OK, "flavour b"),
        ([role(1, 4), role(1, 8, "PS")], queue(A8, flavor("b", 9)), Fit.OK, "flavour a, b"),
        ([role(1, 8), role(1, 1, "PS")], queue(A8), Fit.LACKING, "ClusterQueue all has too little for PS"),
        ([role(2, 6)], queue(A8, cohortName="c"), Fit.WARNING, "must borrow a from cohort c"),
        ([role(2, 6)], queue(A8, cohort="c"), Fit.WARNING, "must borrow a from cohort c"),
        ([role(2, 6)], queue(flavor("a", 8, 2), cohortName="c"), Fit.LACKING, "12 gpu are asked for"),
        ([role(2, 6)], queue(flavor("a", 8, 4), cohortName="c"), Fit.WARNING, "must borrow"),
        ([role(1, 0)], queue(A8), Fit.LACKING, "ClusterQueue all has no quota for cpu"),
        ([role(1, 1)], queue(A8, stopPolicy="HoldAndDrain"), Fit.LACKING, "is stopped (HoldAndDrain)"),
        ([role(1, 1)], queue(), Fit.LACKING, "has too little for Worker"),
        ([role(1, 1)], None, Fit.LACKING, "there is no ClusterQueue all"),
        ([role(0, 1)], queue(A8), None, ""),
    ],
)
def test_a_cluster_queue_has_quota_or_lacks_a_figure(demands, cluster, fits, said):
    found = list(kueue_queues.of_cluster("all", demands, cluster))
    assert bool(found) == bool(fits), found
    assert not found or (found[0].fit, said in found[0].message) == (fits, True), found


def test_a_queue_that_is_not_active_says_why_and_who_waits_is_counted():
    cluster = queue(A8, waiting=2)
    cluster["status"]["conditions"] = [{"type": "Active", "status": "False", "message": "no flavour"}]
    first, _, last = kueue_queues.of_cluster("all", [role(1, 1)], cluster)
    assert (first.fit, first.message) == (Fit.LACKING, "ClusterQueue all is not active: no flavour")
    assert last.message.startswith("2 Workloads wait in ClusterQueue all")


def test_pods_count_where_a_queue_has_a_quota_for_them():
    groups = [
        {"coveredResources": ["pods"], "flavors": [{"name": "a", "resources": [{"name": "pods", "nominalQuota": 1}]}]}
    ]
    bare = RoleDemand("Worker", ("0", "1"), {"containers": [{}]})
    (found,) = kueue_queues.of_cluster("all", [bare], {"spec": {"resourceGroups": groups}})
    assert "2 pods are asked for" in found.message


@pytest.mark.parametrize(
    ("local", "said"),
    [
        (None, "there is no LocalQueue mine"),
        ({"spec": {"stopPolicy": "Hold"}}, "LocalQueue mine is stopped (Hold)"),
        ({"spec": {"stopPolicy": "None"}}, None),
    ],
)
def test_a_local_queue_may_be_missing_or_stopped(local, said):
    found = list(kueue_queues.of_local("mine", local))
    assert [said in item.message for item in found] == ([True] if said else [])
