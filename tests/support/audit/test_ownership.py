"""V6: pods that the operator may delete, and for how long it may not have seen a change."""

from __future__ import annotations

import pytest

from .change import USER
from .scenario import FAR, Scenario, with_pods


@pytest.mark.parametrize(("policy", "violated"), [("Running", {"V6"}), ("All", set())])
def test_a_pod_that_has_ended_is_cleaned_up_only_if_the_policy_says_so(policy, violated):
    scenario, _ = with_pods(1, policy={"cleanPodPolicy": policy})
    scenario.ends("job-worker-0", 0)
    scenario.status("jaxjobs", states="Created Succeeded", completionTime=FAR)
    assert scenario.violated == set()
    scenario.delete("pods", "job-worker-0")
    assert scenario.violated == violated


@pytest.mark.parametrize(
    ("said", "violated"), [("", set()), ("Job job was active longer than specified deadline", {"V6"})]
)
def test_a_pod_that_has_ended_is_not_among_those_that_a_limit_stops(said, violated):
    scenario, _ = with_pods(1)
    scenario.ends("job-worker-0", 137)
    scenario.status("jaxjobs", states="Created Failed", said=said, completionTime=FAR)
    scenario.delete("pods", "job-worker-0")
    assert scenario.violated & {"V6"} == violated


@pytest.mark.parametrize(("attempt", "violated"), [(0, set()), (1, {"V6"})])
def test_a_pod_of_an_old_attempt_may_be_deleted_under_any_clean_pod_policy(attempt, violated):
    scenario = Scenario()
    scenario.pod("job-worker-0", scenario.job(Worker=1, policy={"cleanPodPolicy": "Running"}), attempt=attempt)
    scenario.ends("job-worker-0", 137)
    scenario.status("jaxjobs", states="Created Failed", completionTime=FAR, attempts={"Worker": 1})
    scenario.delete("pods", "job-worker-0")
    assert scenario.violated & {"V6"} == violated


@pytest.mark.parametrize(("later", "watch_silence", "violated"), [(10, 0, set()), (60, 0, {"V6"}), (60, 50, set())])
def test_a_pod_that_lost_its_owner_may_be_deleted_for_as_long_as_a_watch_may_lag(later, watch_silence, violated):
    scenario = Scenario()
    scenario.auditor.records.watch_silence = watch_silence
    scenario.pod("job-worker-0", scenario.job(Worker=1))
    scenario.change("pods", "job-worker-0", USER, lambda pod: pod["metadata"].update(ownerReferences=[]))
    scenario.now += later
    scenario.delete("pods", "job-worker-0")
    assert scenario.violated == violated
