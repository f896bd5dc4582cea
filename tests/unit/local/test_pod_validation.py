"""Before a local run starts, names, keys and paths are refused that the API server refuses, in its words."""

from __future__ import annotations

import pytest

from support import pod_names
from support.pod_names import ACCEPTED, REFUSED, REFUSED_OBJECTS, an_object, pod
from trainshed.local.pod_validation import problems


@pytest.mark.parametrize(("body", "problem"), REFUSED, ids=[case[1][-60:] for case in REFUSED])
def test_a_pod_that_the_api_server_refuses_does_not_start(body, problem):
    found = problems((), [body])
    assert any(line.startswith("pod pod: spec.") and problem in line for line in found), found


@pytest.mark.parametrize("body", ACCEPTED)
def test_a_pod_that_the_api_server_accepts_starts(body):
    assert problems((), [body]) == []


@pytest.mark.parametrize(("kind", "parts", "problem"), REFUSED_OBJECTS)
def test_an_object_that_the_api_server_refuses_is_refused(kind, parts, problem):
    found = problems([an_object(kind, parts)], ())
    assert any(problem in line for line in found), found


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (
            pod(image="--privileged"),
            'spec.containers[0].image: Invalid value: "--privileged": must be the name of an image',
        ),
        (
            pod(image="dir:/data/x"),
            'spec.containers[0].image: Invalid value: "dir:/data/x": must be the name of an image',
        ),
        (
            pod(image="oci:./images/x:1"),
            'spec.containers[0].image: Invalid value: "oci:./images/x:1": must be the name of an image',
        ),
        (
            pod({"persistentVolumeClaim": {"claimName": "../../home"}}),
            'claimName: Invalid value: "../../home": a lowercase',
        ),
        (pod({"hostPath": {"path": "a"}}), 'hostPath.path: Invalid value: "a": must be an absolute path'),
        (pod(args=["a\0b"]), "spec.containers[0].args[0]: Invalid value: must not contain a zero byte"),
        (pod(workingDir="\ud800"), "spec.containers[0].workingDir: Invalid value: must be text in UTF-8"),
        (pod(env=[None]), "spec.containers[0].env[0]: Invalid value: must not be null"),
    ],
)
def test_what_no_machine_can_run_is_refused(body, problem):
    assert any(problem in line for line in problems((), [body]))


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"kind": "ConfigMap", "metadata": "x"}, "metadata: Invalid value: must be of type object"),
        (an_object("ConfigMap", {"data": ["x"]}), "data: Invalid value: must be of type object"),
        (an_object("ConfigMap", {"data": {"a": 1}}), "data[a]: Invalid value: must be of type string"),
        (an_object("ConfigMap", {"data": {1: "a"}}), "data[1]: Invalid value: must be of type string"),
        (
            an_object("TFJob", {"metadata": {"name": "j", "namespace": "../x"}}),
            'metadata.namespace: Invalid value: "../x"',
        ),
        (an_object("Secret", {"metadata": {"namespace": "x"}}), "metadata.name: Required value"),
        (an_object("Secret", {"metadata": {"labels": {"a": 1}}}), "metadata.labels: Invalid value: must be of type"),
        (an_object("Secret", {"metadata": {"annotations": "a"}}), "metadata.annotations: Invalid value: must be of"),
    ],
)
def test_an_object_that_cannot_be_read_is_refused(document, problem):
    assert any(problem in line for line in problems([document], ()))


def test_a_problem_of_all_replicas_is_reported_once():
    bad = pod_names.REFUSED[0][0]
    second = {**bad, "metadata": {**bad["metadata"], "name": "other"}}
    assert [line.partition(":")[0] for line in problems((), [bad, second])] == ["pod pod"]


@pytest.mark.parametrize("image", ["x", "x:1", "a/b:1", "host:5000/a/b@sha256:00", "[::1]:5000/a", "localhost/a:b"])
def test_names_of_images_are_accepted(image):
    assert problems((), [pod(image=image)]) == []
