"""The models that the specs of all kinds share."""

from __future__ import annotations

from trainshed.api.spec import JobSpec, RunPolicySpec


def test_null_where_an_object_belongs_is_the_default():
    spec = JobSpec.model_validate({"runPolicy": None})
    assert spec.run_policy.model_dump() == RunPolicySpec().model_dump()


def test_a_kind_has_no_clean_pod_policy_outside_of_its_run_policy_unless_it_defines_one():
    assert JobSpec.model_validate({"runPolicy": {"cleanPodPolicy": "All"}}).top_level_clean_pod_policy is None
