"""The conversion of pods and Services."""

from __future__ import annotations

import json
import tracemalloc
from datetime import UTC, datetime

import msgspec
import pytest

from trainshed.api import objects
from trainshed.api.objects import Phase, TerminatedState
from trainshed.client import NameConflict, PreviousJobTerminating, decode, metadata, ownership
from trainshed.client.lists import PODS

POD = {
    "metadata": {
        "name": "mnist-worker-1",
        "namespace": "ml",
        "uid": "u",
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T11:00:00Z",
        "deletionTimestamp": "2026-01-01T12:00:00Z",
        "deletionGracePeriodSeconds": 30,
        "finalizers": ["example.com/hold"],
        "labels": {
            "training.kubeflow.org/job-name": "mnist",
            "training.kubeflow.org/replica-type": "worker",
            "training.kubeflow.org/replica-index": "1",
        },
        "annotations": {"trainshed.dev/restart-attempt": "2"},
        "ownerReferences": [{"uid": "other"}, {"apiVersion": "kubeflow.org/v1", "uid": "job", "controller": True}],
    },
    "spec": {
        "nodeName": "n1",
        "containers": [{"name": "tensorflow"}, {"name": "other"}],
        "initContainers": [{"name": "mesh", "restartPolicy": "Always"}, {"name": "first"}],
    },
    "status": {
        "phase": "Failed",
        "reason": "Evicted",
        "message": "low on memory",
        "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T12:00:20Z"},
            {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "EvictionByEvictionAPI",
                "lastTransitionTime": "2026-01-01T11:59:00Z",
            },
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node"},
        ],
        "initContainerStatuses": [
            {"name": "first", "restartCount": 1, "state": {"waiting": {"reason": "X", "message": "m"}}},
            {"name": "mesh", "ready": True, "restartCount": 9},
        ],
        "containerStatuses": [
            {"name": "other"},
            {
                "name": "tensorflow",
                "image": "x:1",
                "restartCount": 3,
                "lastState": {"terminated": {"exitCode": 2, "startedAt": "2026-01-01T11:30:00Z"}},
                "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-01-01T12:00:00Z"}},
            },
        ],
    },
}


def decoded(document):
    return decode.pod(msgspec.json.Decoder(decode.PodObject).decode(json.dumps(document).encode()))


def test_every_fact_arrives():
    pod = decoded(POD)
    assert (pod.name, pod.namespace, pod.uid, pod.version, pod.owner) == ("mnist-worker-1", "ml", "u", "7", "job")
    assert (pod.job, pod.role, pod.index, pod.attempt) == ("mnist", "worker", 1, 2)
    assert (pod.phase, pod.deleting, pod.ready, pod.node) == (Phase.FAILED, True, True, "n1")
    assert pod.became_ready == datetime(2026, 1, 1, 12, 0, 20, tzinfo=UTC)
    assert (pod.reason, pod.message, pod.disruption) == ("Evicted", "low on memory", "EvictionByEvictionAPI")
    assert pod.disrupted == datetime(2026, 1, 1, 11, 59, tzinfo=UTC)
    assert (pod.unplaced, pod.unschedulable) == ("Unschedulable", "no node")
    mesh, first, own, other = pod.containers
    assert (mesh.sidecar, first.sidecar, own.name, other.name) == (True, False, "tensorflow", "other")
    assert (first.init, first.waiting, first.reason, first.message, first.exit_code) == (True, True, "X", "m", None)
    assert (own.exit_code, own.reason, own.restarts) == (137, "OOMKilled", 3)
    assert own.finished == datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert (own.image, own.before) == ("x:1", TerminatedState(2, datetime(2026, 1, 1, 11, 30, tzinfo=UTC)))
    assert [container.ready for container in pod.containers] == [True, False, False, False]
    assert (pod.created, pod.deletion_timestamp) == (
        datetime(2026, 1, 1, 11, tzinfo=UTC),
        datetime(2026, 1, 1, 12, tzinfo=UTC),
    )
    assert pod.deletion_requested == pod.disrupted, "an eviction is recorded before the grace period of 30 s begins"
    assert pod.finalizers == ("example.com/hold",)


@pytest.mark.parametrize(
    ("state", "is_debugged"), [({"running": {}}, True), ({"terminated": {"exitCode": 0}}, False), ({}, False)]
)
def test_a_pod_has_an_address_and_is_debugged_while_an_ephemeral_container_runs(state, is_debugged):
    status = {
        "phase": "Running",
        "podIP": "10.0.0.1",
        "ephemeralContainerStatuses": [{"name": "debug", "state": state}],
    }
    pod = decoded({**POD, "status": status})
    assert (pod.ip, pod.debugged) == ("10.0.0.1", is_debugged)


@pytest.mark.parametrize(
    ("version", "owner"), [("kubeflow.org/v2beta1", "job"), ("v1", ""), ("kubeflow.org.io/v1", "")]
)
def test_only_a_reference_to_a_job_names_the_owner(version, owner):
    reference = {"apiVersion": version, "kind": "TFJob", "name": "mnist", "uid": "job", "controller": True}
    assert decoded({"metadata": {"name": "x", "ownerReferences": [reference]}}).owner == owner


def test_pods_share_what_they_have_in_common():
    first, second = decoded(POD), decoded(POD)
    for name in ("owner", "namespace", "job", "role", "node"):
        assert getattr(first, name)
        assert getattr(first, name) is getattr(second, name)
    assert first.containers[0].name is second.containers[0].name


def test_a_bare_pod_is_pending_and_has_no_owner():
    pod = decoded({"metadata": {"name": "x"}})
    assert (pod.phase, pod.owner, pod.index, pod.attempt, pod.ready) == (Phase.PENDING, "", -1, 0, False)


def test_invalid_labels_and_unknown_phases_are_tolerated():
    labels = {"training.kubeflow.org/replica-index": "-5"}
    metadata = {"labels": labels, "annotations": {"trainshed.dev/restart-attempt": "many"}}
    pod = decoded({"metadata": metadata, "status": {"phase": "Sleeping"}})
    assert (pod.index, pod.attempt, pod.phase) == (-1, 0, Phase.UNKNOWN)


def test_a_very_long_number_is_tolerated():
    assert decoded({"metadata": {"annotations": {"trainshed.dev/restart-attempt": "9" * 5000}}}).attempt == 0


def test_the_fields_of_a_service_are_converted():
    document = {"metadata": POD["metadata"], "spec": {"clusterIP": "None"}}
    service = decode.service(msgspec.json.Decoder(decode.ServiceObject).decode(json.dumps(document).encode()))
    assert (service.name, service.owner, service.role, service.index, service.deleting) == (
        "mnist-worker-1",
        "job",
        "worker",
        1,
        True,
    )


def test_an_object_is_ours_by_its_controller_as_long_as_watches_tell_of_it():
    owner = {"kind": "TFJob", "name": "a", "uid": "job", "controller": True}
    wanted = {"metadata": {"name": "a", "ownerReferences": [{"uid": "other"}, owner]}}
    own = [metadata.OwnerReference("job", controller=True, api_version="kubeflow.org/v1")]
    labelled, bare = (
        metadata.ObjectMeta(labels=metadata.Labels(job="a"), owner_references=own),
        metadata.ObjectMeta(name="a"),
    )
    assert (ownership.owned_by_other("pod", labelled, wanted), ownership.missing_label("pod", labelled)) == (None, "")
    assert "pod a is controlled by this job, but its label" in ownership.missing_label("pod", bare)
    assert ownership.missing_label("configmap", bare) == "", "v1 puts no label on these"
    foreign = metadata.ObjectMeta(labels=labelled.labels, owner_references=[metadata.OwnerReference("job")])
    head = "pod a already exists and is not controlled by this job; "
    expected = f"{head}it has no controller: delete the pod, or rename this job"
    assert str(ownership.owned_by_other("pod", foreign, wanted)) == expected
    foreign.owner_references = [metadata.OwnerReference("set", controller=True, kind="StatefulSet", name="web")]
    expected = f"{head}its controller is StatefulSet web: delete the pod, or rename this job"
    assert str(ownership.owned_by_other("pod", foreign, wanted)) == expected
    foreign.owner_references = [metadata.OwnerReference("job", True, "v1", "ConfigMap", "a")]
    assert "its controller is ConfigMap a: delete the pod" in str(ownership.owned_by_other("pod", foreign, wanted))
    foreign.owner_references = [metadata.OwnerReference("set", True, "apps/v1", "StatefulSet", "web")]
    foreign.deletion_timestamp = datetime(2026, 1, 1, tzinfo=UTC)
    expected = f"{head}its controller is StatefulSet web, and it is being deleted"
    assert str(ownership.owned_by_other("pod", foreign, wanted)) == expected


def test_an_object_of_the_previous_job_of_that_name_is_waited_for():
    owner = {"kind": "TFJob", "name": "a", "uid": "new", "controller": True}
    wanted = {"metadata": {"name": "a-worker-0", "ownerReferences": [owner]}}
    there = metadata.ObjectMeta(
        owner_references=[metadata.OwnerReference("old", True, "kubeflow.org/v1", "TFJob", "a")]
    )
    error = ownership.owned_by_other("pod", there, wanted)
    assert isinstance(error, PreviousJobTerminating)
    assert str(error) == "waiting for pod a-worker-0 of the previous job to terminate"
    there.owner_references[0].name = "b"
    assert type(ownership.owned_by_other("pod", there, wanted)) is NameConflict


@pytest.mark.parametrize(
    ("text", "attempt"), [("2147483647", 2**31 - 1), ("7", 7), ("9" * 5000, 0), ("-1", 0), ("", 0)]
)
def test_an_attempt_within_int32_is_parsed(text, attempt):
    content = json.dumps(
        {"metadata": {"name": "a", "uid": "u", "annotations": {objects.RESTART_ATTEMPT_ANNOTATION: text}}}
    ).encode()
    assert PODS.item(content).attempt == attempt


@pytest.mark.parametrize(
    ("text", "attempt"),
    [("2147483647", 2147483647), ("2147483648", 0), ("9999999999", 0), ("\u0667", 0), ("-1", 0), ("", 0)],
)
def test_an_attempt_beyond_int32_is_ignored(text, attempt):
    assert decoded({"metadata": {"annotations": {"trainshed.dev/restart-attempt": text}}}).attempt == attempt


def test_extreme_numbers_times_and_texts_are_bounded():
    last = {"terminated": {"exitCode": -(2**40), "startedAt": "0001-01-01T00:00:00Z", "message": "y" * 10**6}}
    end = {"exitCode": 2**40, "finishedAt": "9999-12-31T23:59:59Z", "reason": "x" * 10**6}
    states = [{"restartCount": -5, "state": {"terminated": end}}, {"restartCount": 2**40, "lastState": last}]
    meta = {"deletionTimestamp": "2026-01-01T12:00:00Z", "deletionGracePeriodSeconds": 2**62}
    first, second = decoded({"metadata": meta, "status": {"containerStatuses": states}}).containers
    assert (first.restarts, first.exit_code, first.finished, len(first.reason)) == (
        0,
        2**31 - 1,
        None,
        decode.MAX_REASON_LENGTH,
    )
    assert (second.restarts, second.before.exit_code) == (2**31 - 1, -(2**31))
    assert second.before.started.timestamp() == 0, "the start is unknown"
    assert len(second.before.message) == decode.MAX_MESSAGE_LENGTH


def test_an_extreme_grace_period_is_tolerated():
    meta = {"deletionTimestamp": "2026-01-01T12:00:00Z", "deletionGracePeriodSeconds": 2**62}
    assert decoded({"metadata": meta}).deletion_requested is not None


def test_a_pod_says_whether_its_name_resolves_by_the_service_of_its_job():
    assert decoded({"metadata": {"annotations": {"trainshed.dev/job-service": "mnist"}}}).service == "mnist"
    assert decoded(POD).service == ""


@pytest.mark.slow
def test_names_that_others_choose_do_not_stay_in_memory():
    """A pod whose annotations change all the time; `sys.intern` never forgets."""
    before = decode._shared.cache_info()
    tracemalloc.start()
    for number in range(100_000):
        names = (f"{number}-{what}" * 20 for what in ("node", "hash", "service"))
        kept = [decode._name(name) for name in names]
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept[0].startswith("99999-node")
    assert before.maxsize is not None
    assert grown < decode.SHARED_NAMES * 3 * decode.MAX_NAME_LENGTH
    huge = {"trainshed.dev/job-service": "x" * 200_000, "trainshed.dev/template-hash": "y" * 200_000}
    pod = decoded({"metadata": {"annotations": huge}})
    assert len(pod.service) == len(pod.template_hash) == decode.MAX_NAME_LENGTH
