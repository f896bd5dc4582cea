"""The names and labels of pods and Services."""

from __future__ import annotations

from support.builders import a_job
from trainshed.api import framework
from trainshed.api.job import Replica
from trainshed.frameworks.pytorch import PYTORCH


def test_a_member_is_named_after_job_role_and_index():
    assert framework.child_name(a_job(), Replica("PS", 3)) == "mnist-ps-3"


def test_the_selector_is_sorted_text_as_the_scale_subresource_wants_it():
    expected = (
        "training.kubeflow.org/job-name=x,training.kubeflow.org/operator-name=pytorchjob-controller,"
        "training.kubeflow.org/replica-type=worker"
    )
    assert framework.selector(PYTORCH, a_job("PyTorchJob", name="x", worker=2), "Worker") == expected
