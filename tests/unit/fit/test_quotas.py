"""ResourceQuotas and LimitRanges: what they count, demand, give and refuse."""

from __future__ import annotations

import pytest

from trainshed.fit import limit_ranges, quotas
from trainshed.fit.assessment import Fit
from trainshed.fit.demands import RoleDemand


def demand(count: int = 2, limits: dict | None = None, requests: dict | None = None, **spec: object) -> RoleDemand:
    container = {"name": "pytorch", "resources": {"limits": limits or {}, "requests": requests or {}}}
    return RoleDemand("Worker", tuple(map(str, range(count))), {"containers": [container], **spec})


def limit(hard: dict, used: dict | None = None, **spec: object) -> quotas.Quota:
    status = {"hard": hard, "used": used or {}}
    return quotas.quota({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}, **spec}, "status": status})


GPUS, BOTH = {"nvidia.com/gpu": "8"}, {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("quota", "job", "fits", "said"),
    [
        (limit({"pods": "2"}), demand(), Fit.OK, "q has room: then 2 of 2 pods are used"),
        (
            limit({"pods": "2"}, {"pods": "1"}),
            demand(),
            Fit.LACKING,
            "lacks 1 pods: the job needs 2, and 1 of 2 are used",
        ),
        (limit({"requests.nvidia.com/gpu": "15"}), demand(limits=GPUS), Fit.LACKING, "lacks 1 requests.nvidia.com/gpu"),
        (limit({"requests.nvidia.com/gpu": "16"}), demand(limits=GPUS), Fit.OK, "16 of 16"),
        (limit({"cpu": "1"}), demand(limits=BOTH), Fit.LACKING, "lacks 1 cpu"),
        (limit({"requests.cpu": "2"}), demand(limits=BOTH), Fit.OK, "2 of 2 requests.cpu"),
        (limit({"limits.memory": "1Gi"}), demand(limits=BOTH), Fit.LACKING, "lacks 1Gi limits.memory"),
        (limit({"count/pods": "1"}), demand(), Fit.LACKING, "lacks 1 count/pods"),
        (limit({"limits.cpu": "9"}), demand(requests=BOTH), Fit.REFUSED, "demands limits.cpu of each container"),
        (limit({"requests.cpu": "9"}), demand(), Fit.REFUSED, "demands requests.cpu of each container, and container"),
        (limit({"requests.cpu": "9"}), demand(resources={"requests": {"cpu": "1"}}), Fit.OK, "2 of 9 requests.cpu"),
        (
            limit({"count/pytorchjobs.kubeflow.org": "0"}),
            demand(),
            Fit.LACKING,
            "lacks 1 count/pytorchjobs.kubeflow.org",
        ),
        (limit({"services": "1"}), demand(), Fit.LACKING, "lacks 1 services"),
        (limit({"services": "1"}, scopes=["NotTerminating"]), demand(), None, ""),
        (limit({"secrets": "0"}), demand(), None, ""),
        (limit({"pods": "1"}, scopes=["Terminating"]), demand(), None, ""),
        (limit({"pods": "1"}, scopes=["Terminating"]), demand(activeDeadlineSeconds=5), Fit.LACKING, "lacks 1 pods"),
        (limit({"pods": "1"}, scopes=["NotTerminating"]), demand(), Fit.LACKING, "lacks 1 pods"),
        (limit({"pods": "1"}, scopes=["BestEffort"]), demand(), Fit.LACKING, "lacks 1 pods"),
        (limit({"pods": "1"}, scopes=["BestEffort"]), demand(limits=BOTH), None, ""),
        (limit({"pods": "1"}, scopes=["NotBestEffort"]), demand(limits=BOTH), Fit.LACKING, "lacks 1 pods"),
        (limit({"pods": "1"}, scopes=["Unheard"]), demand(), None, ""),
        (limit({"pods": "1"}, scopes=["PriorityClass"]), demand(priorityClassName="high"), Fit.LACKING, "lacks 1 pods"),
        (limit({"pods": "1"}, scopes=["PriorityClass"]), demand(), None, ""),
        (limit({"pods": "1"}), demand(0), None, ""),
    ],
)
def test_a_quota_has_room_or_lacks_a_figure(quota, job, fits, said):
    found, _ = quotas.assess([quota], [job], {"services": 2, "count/pytorchjobs.kubeflow.org": 1})
    assert [item.fit for item in found] == ([fits] if fits else []), found
    assert not said or said in found[0].message, found[0].message


@pytest.mark.parametrize(
    ("operator", "name", "counts"),
    [
        ("In", "high", True),
        ("In", "", False),
        ("NotIn", "high", False),
        ("NotIn", "", True),
        ("DoesNotExist", "", True),
    ],
)
def test_a_scope_selects_pods_by_their_priority_class(operator, name, counts):
    expression = {"scopeName": "PriorityClass", "operator": operator, "values": ["high"]}
    quota = limit({"pods": "1"}, scopeSelector={"matchExpressions": [expression]})
    assert quotas.counts_pod(quota, {"priorityClassName": name} if name else {}) is counts


TERM = {"namespaces": ["other"]}


@pytest.mark.parametrize(
    ("affinity", "counts"),
    [
        ({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}, True),
        ({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": TERM}]}}, True),
        ({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"namespaceSelector": {}}]}}, True),
        ({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}, False),
    ],
)
def test_a_scope_selects_pods_by_affinity_to_other_namespaces(affinity, counts):
    assert quotas.counts_pod(limit({}, scopes=["CrossNamespacePodAffinity"]), {"affinity": affinity}) is counts


def test_a_quota_without_a_status_has_the_amounts_of_its_spec_and_fills_with_each_job():
    quota = quotas.quota({"metadata": {"name": "new"}, "spec": {"hard": {"pods": "3"}}})
    first, after = quotas.assess([quota], [demand()], {})
    second, _ = quotas.assess(after, [demand()], {})
    assert [item.fit for item in (*first, *second)] == [Fit.OK, Fit.LACKING]


def bounds(kind: str = "Container", **fields: dict) -> list[limit_ranges.Bounds]:
    return limit_ranges.bounds([{"metadata": {"name": "r"}, "spec": {"limits": [{"type": kind, **fields}]}}])


@pytest.mark.parametrize(
    ("limits", "job", "said"),
    [
        (bounds(max={"cpu": "1"}), demand(limits={"cpu": "1"}), None),
        (
            bounds(max={"cpu": "1"}),
            demand(limits={"cpu": "2"}),
            "has a limit of 2 cpu, and LimitRange r permits at most 1",
        ),
        (
            bounds(max={"cpu": "1"}),
            demand(),
            "container pytorch of Worker has no limit of cpu, and LimitRange r permits",
        ),
        (bounds(min={"cpu": "1"}), demand(), "requests no cpu, and LimitRange r demands at least 1"),
        (bounds(min={"cpu": "1"}), demand(requests={"cpu": "500m"}), "requests 500m cpu, and LimitRange r demands"),
        (bounds(min={"cpu": "1"}), demand(requests={"cpu": "1"}, limits={"cpu": "1"}), None),
        (bounds(maxLimitRequestRatio={"cpu": "2"}), demand(requests={"cpu": "1"}, limits={"cpu": "2"}), None),
        (
            bounds(maxLimitRequestRatio={"cpu": "2"}),
            demand(requests={"cpu": "1"}, limits={"cpu": "3"}),
            "more than 2 times",
        ),
        (bounds(maxLimitRequestRatio={"cpu": "2"}), demand(limits={}), "or one is missing"),
        (bounds("Pod", max={"cpu": "1"}), demand(limits={"cpu": "2"}), "the pod of Worker has a limit of 2 cpu"),
        (
            bounds("Pod", max={"cpu": "2"}),
            demand(limits={"cpu": "1"}, resources={"requests": {"cpu": "9"}}),
            "the pod of Worker requests 9 cpu, and LimitRange r permits at most 2",
        ),
        (bounds("PersistentVolumeClaim", max={"storage": "1"}), demand(), None),
        (
            bounds(default={"cpu": "1"}),
            demand(requests={"cpu": "2"}),
            "requests 2 cpu, more than its limit of 1, the default",
        ),
        (bounds(default={"cpu": "1"}, max={"cpu": "1"}), demand(), None),
        (bounds(max={"cpu": "1"}), demand(0), None),
    ],
)
def test_a_limit_range_refuses_pods(limits, job, said):
    job = RoleDemand(job.role, job.names, limit_ranges.defaulted(job.spec, limits))
    found = list(limit_ranges.assess(limits, job))
    assert [item.fit for item in found] == ([Fit.REFUSED] if said else []), found
    assert not said or said in found[0].message, found[0].message


def test_a_limit_range_gives_what_a_container_does_not_say():
    limits = bounds(default={"cpu": "2", "memory": "2Gi"}, defaultRequest={"cpu": "1"})
    spec = limit_ranges.defaulted(demand(limits={"memory": "4Gi"}, initContainers=[{"name": "i"}]).spec, limits)
    first = {"requests": {"memory": "4Gi", "cpu": "1"}, "limits": {"memory": "4Gi", "cpu": "2"}}
    assert spec["containers"][0]["resources"] == first
    assert spec["initContainers"][0]["resources"] == {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "2Gi"}}
