"""Pods and Services out of bytes."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import msgspec

from trainshed.api.pod import Phase
from trainshed.cluster import objects

POD = {
    "metadata": {
        "name": "mnist-worker-1",
        "namespace": "ml",
        "uid": "u",
        "resourceVersion": "7",
        "deletionTimestamp": "2026-01-01T12:00:00Z",
        "labels": {
            "training.kubeflow.org/job-name": "mnist",
            "training.kubeflow.org/replica-type": "worker",
            "training.kubeflow.org/replica-index": "1",
        },
        "annotations": {"trainshed.dev/attempt": "2"},
        "ownerReferences": [{"uid": "other"}, {"uid": "job", "controller": True}],
    },
    "spec": {"nodeName": "n1", "containers": [{"name": "ignored"}]},
    "status": {
        "phase": "Failed",
        "reason": "Evicted",
        "message": "low on memory",
        "conditions": [
            {"type": "Ready", "status": "True"},
            {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"},
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node"},
        ],
        "initContainerStatuses": [
            {"name": "first", "restartCount": 1, "state": {"waiting": {"reason": "X", "message": "m"}}}
        ],
        "containerStatuses": [
            {
                "name": "tensorflow",
                "restartCount": 3,
                "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-01-01T12:00:00Z"}},
            }
        ],
    },
}


def decoded(document):
    return objects.pod(msgspec.json.Decoder(objects.PodObject).decode(json.dumps(document).encode()))


def test_every_fact_arrives():
    pod = decoded(POD)
    assert (pod.name, pod.namespace, pod.uid, pod.version, pod.owner) == ("mnist-worker-1", "ml", "u", "7", "job")
    assert (pod.job, pod.role, pod.index, pod.attempt) == ("mnist", "worker", 1, 2)
    assert (pod.phase, pod.deleting, pod.ready, pod.node) == (Phase.FAILED, True, True, "n1")
    assert (pod.reason, pod.message, pod.disruption) == ("Evicted", "low on memory", "EvictionByEvictionAPI")
    assert (pod.unplaced, pod.unschedulable) == ("Unschedulable", "no node")
    first, own = pod.containers
    assert (first.init, first.waiting, first.reason, first.message, first.exit_code) == (True, True, "X", "m", None)
    assert (own.exit_code, own.reason, own.restarts) == (137, "OOMKilled", 3)
    assert own.finished == datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert pod.restarts == 4


def test_a_bare_pod_is_pending_and_nobodys():
    pod = decoded({"metadata": {"name": "x"}})
    assert (pod.phase, pod.owner, pod.index, pod.attempt, pod.ready) == (Phase.PENDING, "", -1, 0, False)


def test_forged_labels_and_unheard_of_phases_do_no_harm():
    labels = {"training.kubeflow.org/replica-index": "-5"}
    metadata = {"labels": labels, "annotations": {"trainshed.dev/attempt": "many"}}
    pod = decoded({"metadata": metadata, "status": {"phase": "Sleeping"}})
    assert (pod.index, pod.attempt, pod.phase) == (-1, 0, Phase.UNKNOWN)


def test_a_number_too_long_to_read_does_no_harm():
    assert decoded({"metadata": {"annotations": {"trainshed.dev/attempt": "9" * 5000}}}).attempt == 0


def test_a_service_is_known_by_its_labels_and_owner():
    document = {"metadata": POD["metadata"], "spec": {"clusterIP": "None"}}
    service = objects.service(msgspec.json.Decoder(objects.ServiceObject).decode(json.dumps(document).encode()))
    assert (service.name, service.owner, service.role, service.index, service.deleting) == (
        "mnist-worker-1",
        "job",
        "worker",
        1,
        True,
    )
