"""Each gang scheduler has its groups, and its own way for pods to say that they belong to one."""

from __future__ import annotations

import pytest

from support.builders import a_job
from trainshed.api import gang
from trainshed.api.objects import COSCHEDULING_GROUPS, KUBERNETES_GROUPS, KUBERNETES_GROUPS_ALPHA, VOLCANO_GROUPS


@pytest.mark.parametrize(
    ("scheduler", "kinds", "name"),
    [
        ("", (), ""),
        ("volcano", (VOLCANO_GROUPS,), "volcano"),
        ("Volcano", (VOLCANO_GROUPS,), "volcano"),
        ("Kubernetes", (KUBERNETES_GROUPS, KUBERNETES_GROUPS_ALPHA), ""),
        ("scheduler-plugins", (COSCHEDULING_GROUPS,), "scheduler-plugins"),
        ("KAI-scheduler", (), "kai-scheduler"),
        ("Mine", (COSCHEDULING_GROUPS,), "Mine"),
    ],
)
def test_known_schedulers_in_any_case_have_their_own_groups_and_another_name_means_the_coscheduling_plugin(
    scheduler, kinds, name
):
    assert gang.resources(scheduler) == kinds
    assert gang.scheduler_name(scheduler) == name


@pytest.mark.parametrize(
    ("scheduler", "labels", "annotations"),
    [
        ("", {}, {}),
        ("VOLCANO", {}, {"scheduling.k8s.io/group-name": "mnist", "volcano.sh/task-spec": "ps"}),
        ("kubernetes", {}, {}),
        ("kai-scheduler", {}, {}),
        ("scheduler-plugins", {"scheduling.x-k8s.io/pod-group": "mnist"}, {}),
    ],
)
def test_pods_say_that_they_belong_to_a_group(scheduler, labels, annotations):
    assert gang.pod_labels(scheduler, a_job()) == labels
    assert gang.pod_annotations(scheduler, "mnist", "PS") == annotations
