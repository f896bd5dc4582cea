"""The objects that pods name."""

from __future__ import annotations

import pytest

from trainshed.fit.assessment import Fit
from trainshed.fit.needed_objects import missing, references


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"serviceAccountName": "a", "runtimeClassName": "r"}, [("ServiceAccount", "a"), ("RuntimeClass", "r")]),
        ({"priorityClassName": "p"}, [("PriorityClass", "p")]),
        ({"priorityClassName": "system-node-critical"}, []),
        ({"imagePullSecrets": [{"name": "s"}, {}]}, [("Secret", "s")]),
        ({"volumes": [{"persistentVolumeClaim": {"claimName": "c"}}]}, [("PersistentVolumeClaim", "c")]),
        (
            {"volumes": [{"configMap": {"name": "m"}}, {"secret": {"secretName": "s"}}]},
            [("ConfigMap", "m"), ("Secret", "s")],
        ),
        ({"volumes": [{"configMap": {"name": "m", "optional": True}}]}, []),
        ({"volumes": [{"projected": {"sources": [{"secret": {"name": "s"}}]}}]}, [("Secret", "s")]),
        ({"volumes": [{"csi": {"nodePublishSecretRef": {"name": "s"}}}]}, [("Secret", "s")]),
        ({"volumes": [{"azureFile": {"secretName": "s"}}]}, [("Secret", "s")]),
        ({"containers": [{"envFrom": [{"configMapRef": {"name": "m"}}]}]}, [("ConfigMap", "m")]),
        ({"containers": [{"envFrom": [{"secretRef": {"name": "s", "optional": True}}]}]}, []),
        ({"initContainers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "s"}}}]}]}, [("Secret", "s")]),
        ({"containers": [{"env": [{"valueFrom": {"configMapKeyRef": {"name": "m"}}}] * 2}]}, [("ConfigMap", "m")]),
        ({"containers": [{"env": "none"}], "volumes": [None]}, []),
    ],
)
def test_objects_that_pods_cannot_do_without_are_found(spec, expected):
    assert list(references(spec)) == expected


@pytest.mark.parametrize(
    ("kind", "fit", "said"),
    [
        ("Secret", Fit.LACKING, "namespace ml has no Secret x, which Worker names: its pods would wait for it"),
        (
            "ServiceAccount",
            Fit.REFUSED,
            "namespace ml has no ServiceAccount x, which Worker names: the API server refuses",
        ),
        ("PriorityClass", Fit.REFUSED, "there is no PriorityClass x, which Worker names: the API server refuses"),
    ],
)
def test_what_is_missing_keeps_pods_waiting_or_from_being_created(kind, fit, said):
    found = missing((kind, "x"), "Worker", "ml")
    assert (found.fit, found.message.startswith(said)) == (fit, True), found.message
