"""Jobs with real containers as gangs of the real Volcano, whose chart is installed on the cluster."""

from __future__ import annotations

import pytest

from support.gang_scenarios import (
    test_a_gang_that_fits_runs_and_its_group_goes_with_it,
    test_a_gang_that_restarts_keeps_its_group,
    test_a_running_gang_grows_and_shrinks,
    test_of_two_gangs_that_do_not_fit_together_one_runs_after_the_other,
    test_of_two_waiting_gangs_the_one_of_higher_priority_runs_first,
    test_with_a_smaller_minimum_the_rest_of_a_gang_may_wait,
)
from support.kubectl import PATIENCE, Kubectl
from support.user_client import always, eventually

from . import deployments
from .node_gangs import RESOURCE, NodeGangCluster

__all__ = [
    "test_a_gang_that_fits_runs_and_its_group_goes_with_it",
    "test_a_gang_that_restarts_keeps_its_group",
    "test_a_running_gang_grows_and_shrinks",
    "test_of_two_gangs_that_do_not_fit_together_one_runs_after_the_other",
    "test_of_two_waiting_gangs_the_one_of_higher_priority_runs_first",
    "test_with_a_smaller_minimum_the_rest_of_a_gang_may_wait",
]

pytestmark = pytest.mark.long
GROUPS = "scheduling.volcano.sh/v1beta1"
INSTALLED, SCHEDULER = deployments.volcano, "volcano"


def test_a_gang_that_does_not_fit_has_no_pod_and_kubectl_describe_says_why(
    gang: NodeGangCluster, kubeconfig: str
) -> None:
    gang.submit("large", 5)
    why = f"its phase is Pending (resource in cluster is overused: overused {RESOURCE})"
    eventually(lambda: why in gang.blocked("large"), PATIENCE)
    described = Kubectl(kubeconfig, gang.user.namespace)("describe", "pytorchjob", "large")
    print(described)
    assert f"PodGroup large has not been admitted: {why}" in described
    assert gang.user.pods("large") == []


def test_a_queue_limits_its_jobs_and_a_job_says_so(gang: NodeGangCluster) -> None:
    name = f"small-{gang.user.namespace}"
    queue = {"apiVersion": GROUPS, "kind": "Queue", "metadata": {"name": name}}
    queue["spec"] = {"weight": 1, "capability": {RESOURCE: "2", "cpu": "2", "memory": "4Gi"}, "reclaimable": True}
    gang.user.call("POST", f"/apis/{GROUPS}/queues", queue)
    gang.submit("allowed", 2, queue=name)
    eventually(lambda: gang.runs("allowed", 2), PATIENCE)
    gang.submit("waits", 2, queue=name)
    why = f"its phase is Pending (queue resource quota insufficient: insufficient {RESOURCE})"
    eventually(lambda: why in gang.blocked("waits"), PATIENCE)
    always(lambda: gang.bound("waits") == 0, 3)
    gang.finish("allowed")
    eventually(lambda: gang.runs("waits", 2), PATIENCE)


def test_a_job_names_the_queue_that_does_not_exist_and_goes_on_when_it_does(gang: NodeGangCluster) -> None:
    name = f"late-{gang.user.namespace}"
    gang.submit("mistaken", 2, queue=name)
    eventually(lambda: f'queue.scheduling.volcano.sh "{name}" not found' in gang.blocked("mistaken"), PATIENCE)
    print("Blocked:", gang.blocked("mistaken"))
    assert gang.user.pods("mistaken") == []
    queue = {"apiVersion": GROUPS, "kind": "Queue", "metadata": {"name": name}, "spec": {"weight": 1}}
    gang.user.call("POST", f"/apis/{GROUPS}/queues", queue)
    eventually(lambda: gang.runs("mistaken", 2), PATIENCE)
