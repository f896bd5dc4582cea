"""A refusal says in one line what to do, or what right to ask for."""

from __future__ import annotations

import pytest

from trainshed.views import refusals

DENIED = 'pytorchjobs.kubeflow.org is forbidden: User "ann" cannot {} resource "{}" in API group "{}"{}'


@pytest.mark.parametrize(
    ("message", "reason", "advice"),
    [
        (
            DENIED.format("patch", "pytorchjobs", "kubeflow.org", ' in the namespace "ml"'),
            "Forbidden",
            "Ask for the right to patch pytorchjobs.kubeflow.org in namespace ml, which ClusterRole edit has",
        ),
        (
            DENIED.format("list", "pods", "", " at the cluster scope"),
            "Forbidden",
            "Ask for the right to list pods in all namespaces, which ClusterRole view has",
        ),
        ("no", "Forbidden", "Ask for the right, or choose another namespace with -n."),
        ("exceeded quota: jobs", "QuotaExceeded", "ask for a larger quota"),
        ('admission webhook "w" denied the request: no', "DeniedByWebhook", "Change the job, or ask for an exception"),
    ],
)
def test_a_refusal_says_what_to_ask_for(message, reason, advice):
    said = refusals.sentence(message, reason)
    assert said.startswith(f"{message}. ")
    assert advice in said


@pytest.mark.parametrize(
    ("workload", "how"),
    [
        (
            {"metadata": {"name": "w-1"}},
            'kubectl patch workload w-1 -n ml --type merge -p \'{"spec":{"active":false}}\'',
        ),
        (None, "Kueue has not made it yet"),
    ],
)
def test_a_job_of_kueue_is_stopped_by_its_workload(workload, how):
    assert refusals.kueue_decides("pytorchjob/mnist", "ml", workload).endswith(how)
    starts = refusals.kueue_starts("pytorchjob/mnist", "ml", workload)
    assert starts.endswith("trainshed explain pytorchjob/mnist -n ml says what it waits for" if workload else how)
    stopped = {"spec": {"active": False}, **(workload or {})}
    assert refusals.kueue_starts("pytorchjob/mnist", "ml", stopped).endswith(how)
