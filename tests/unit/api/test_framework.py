"""The names and defaults of each kind are v1's."""

from __future__ import annotations

import pytest

from support.builders import a_job
from trainshed.api.framework import Variable, literals
from trainshed.frameworks import FRAMEWORKS, served

#: kind: metrics label, field, roles, container, port name and number, restart policy, scale subresource, TTL reason.
V1 = {
    "TFJob": (
        *("tensorflow", "tfReplicaSpecs", "Chief Master PS Worker Evaluator"),
        *("tensorflow", "tfjob-port", 2222, "Never", False, "SuccessfulDeleteJob"),
    ),
    "PyTorchJob": (
        *("pytorch", "pytorchReplicaSpecs", "Master Worker"),
        *("pytorch", "pytorchjob-port", 23456, "OnFailure", True, "SuccessfulDeletePod"),
    ),
    "XGBoostJob": (
        *("xgboost", "xgbReplicaSpecs", "Master Worker"),
        *("xgboost", "xgboostjob-port", 9999, "Never", False, "SuccessfulDeleteJob"),
    ),
    "PaddleJob": (
        *("paddle", "paddleReplicaSpecs", "Master Worker"),
        *("paddle", "master", 36543, "OnFailure", True, "SuccessfulDeletePod"),
    ),
    "JAXJob": (
        *("jax", "jaxReplicaSpecs", "Worker"),
        *("jax", "jaxjob-port", 6666, "Never", True, "SuccessfulDeletePod"),
    ),
}
KNOWN = {framework.kind: framework for framework in FRAMEWORKS}


@pytest.mark.parametrize("kind", V1)
def test_names_and_defaults_of_a_kind_are_v1s(kind):
    found = KNOWN[kind]
    assert V1[kind] == (
        *(found.label, found.field, " ".join(found.roles)),
        *(
            found.container.name,
            found.container.port_name,
            found.container.port,
            found.defaults.restart_policy,
            found.selectors,
            found.naming.ttl_event_reason,
        ),
    )
    assert (found.plural, found.operator_name) == (f"{kind.lower()}s", f"{kind.lower()}-controller")


def test_literals_stand_in_the_order_in_which_they_are_given():
    assert literals(B="1", A="2") == (Variable("B", "1"), Variable("A", "2"))
    assert literals(user_overridable=True, A="2") == (Variable("A", "2", user_overridable=True),)


def test_one_version_of_mpijob_is_served():
    assert served("v1") == FRAMEWORKS
    newer = served("v2beta1")
    assert [framework.kind for framework in newer] == [framework.kind for framework in FRAMEWORKS]
    assert (newer[-1].prefix, newer[-1].operator_name) == ("/apis/kubeflow.org/v2beta1", "mpi-operator")
    assert {framework.api_version for framework in newer[:-1]} == {"kubeflow.org/v1"}


def test_by_default_no_replica_waits_and_no_role_is_optional():
    job, framework = a_job("JAXJob", worker=1), KNOWN["JAXJob"]
    assert framework.hooks.optional_roles(job) == ()
    assert framework.hooks.start_after(job, next(job.all_replicas).role) is None
    assert framework.hooks.ssh_secret_name(job) == ""
