"""The kinds of dependents, and where they live."""

from __future__ import annotations

import pytest

from trainshed.api import objects
from trainshed.api.objects import Resource

ALL = [value for value in vars(objects).values() if isinstance(value, Resource)]


@pytest.mark.parametrize(
    ("resource", "version"),
    [
        (objects.CONFIG_MAPS, "v1"),
        (objects.ROLES, "rbac.authorization.k8s.io/v1"),
        (objects.AUTOSCALERS, "autoscaling/v2"),
        (objects.VOLCANO_GROUPS, "scheduling.volcano.sh/v1beta1"),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_the_path_tells_the_version(resource: Resource, version: str):
    assert resource.api_version == version


def test_what_pods_read_stays_and_what_acts_on_them_is_passing():
    temporary = {(resource.kind, resource.api_version) for resource in ALL if resource.temporary}
    assert temporary == {
        ("HorizontalPodAutoscaler", "autoscaling/v2"),
        ("PodGroup", "scheduling.k8s.io/v1alpha2"),
        ("PodGroup", "scheduling.k8s.io/v1beta1"),
        ("PodGroup", "scheduling.volcano.sh/v1beta1"),
        ("PodGroup", "scheduling.x-k8s.io/v1alpha1"),
    }


def test_kinds_of_the_same_name_are_different_resources():
    assert objects.VOLCANO_GROUPS != objects.COSCHEDULING_GROUPS
    assert len(set(ALL)) == len(ALL)
