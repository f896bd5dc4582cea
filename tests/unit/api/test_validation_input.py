"""The input of validation rules."""

from __future__ import annotations

import pytest

from trainshed.api.spec import ReplicaSpec, containers_of, replica_count


def test_a_role_without_a_number_is_one_replica():
    assert [replica_count(ReplicaSpec(replicas=replicas)) for replicas in (None, 0, 3)] == [1, 0, 3]


@pytest.mark.parametrize("template", [None, {}, {"spec": 5}, {"spec": {}}, {"spec": {"containers": "x"}}])
def test_a_template_that_looks_like_none_has_no_containers(template):
    assert containers_of(ReplicaSpec(template=template)) == []


def test_what_does_not_look_like_a_container_is_passed_over():
    assert containers_of(ReplicaSpec(template={"spec": {"containers": [{"name": "a"}, 5]}})) == [{"name": "a"}]
