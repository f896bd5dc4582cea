"""The pods and Services of a job: as in v1, except for fields that a template must not set."""

from __future__ import annotations

import pytest

from support.builders import a_job, made, plan_for, replace
from trainshed.api.actions import CreateDependent, CreatePod
from trainshed.api.framework import JobDefaults, Variable, own_container
from trainshed.api.job import Port, Replica, RestartScope
from trainshed.frameworks.pytorch import PYTORCH
from trainshed.frameworks.tensorflow import TENSORFLOW
from trainshed.plan import builders

LABELS = "training.kubeflow.org/"


def pod_of(job, replica, job_defaults=None):
    """Return the body of the pod of a replica."""
    decision = plan_for(job, services=(), job_defaults=job_defaults or JobDefaults())
    return next(
        action.body for action in decision.actions if isinstance(action, CreatePod) and action.name.endswith(replica)
    )


def with_template(template, kind="TFJob", **fields):
    """Return a job with two workers and this template."""
    return a_job(kind, worker=2, template=template, **fields)


def test_a_pod_has_v1s_labels_and_owner():
    body = pod_of(a_job("PyTorchJob", master=1, worker=1), "master-0")
    assert body["metadata"]["labels"] == {
        f"{LABELS}operator-name": "pytorchjob-controller",
        f"{LABELS}job-name": "mnist",
        f"{LABELS}replica-type": "master",
        f"{LABELS}replica-index": "0",
        f"{LABELS}job-role": "master",
    }
    assert body["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "kubeflow.org/v1",
            "kind": "PyTorchJob",
            "name": "mnist",
            "uid": "job-uid",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


@pytest.mark.fault("J6")
def test_a_templates_labels_stay_but_ours_win_and_finalizers_do_not_come_along():
    metadata = {
        "labels": {"mine": "1", f"{LABELS}replica-index": "7", f"{LABELS}job-role": "master"},
        "annotations": {"note": "x", "trainshed.dev/restart-attempt": "9"},
        "finalizers": ["example.com/never"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "x"}],
        "namespace": "elsewhere",
        "name": "other",
        "generateName": "x-",
    }
    body = pod_of(with_template({"metadata": metadata, "spec": {"containers": [{"name": "tensorflow"}]}}), "worker-1")
    labels = body["metadata"]["labels"]
    assert (labels["mine"], labels[f"{LABELS}replica-index"]) == ("1", "1")
    assert f"{LABELS}job-role" not in labels
    assert body["metadata"]["annotations"] == {"note": "x", "trainshed.dev/restart-attempt": "0"}
    assert body["metadata"]["name"] == "mnist-worker-1"
    assert {"finalizers", "namespace", "generateName"}.isdisjoint(body["metadata"])
    assert [owner["uid"] for owner in body["metadata"]["ownerReferences"]] == ["job-uid"]


def test_a_default_annotation_is_on_pods_whose_template_does_not_have_it():
    inject = "sidecar.istio.io/inject"
    settings = JobDefaults(pod_annotations=((inject, "false"), ("trainshed.dev/restart-attempt", "9")))
    for own, expected in ({}, "false"), ({inject: "true"}, "true"):
        template = {"metadata": {"annotations": own}, "spec": {"containers": [{"name": "tensorflow"}]}}
        annotations = pod_of(with_template(template), "worker-1", settings)["metadata"]["annotations"]
        assert annotations == {inject: expected, "trainshed.dev/restart-attempt": "0"}


@pytest.mark.parametrize(
    ("restart", "expected"),
    [("Never", "Never"), ("ExitCode", "Never"), ("OnFailure", "OnFailure"), ("Always", "Always")],
)
def test_the_replica_specs_restart_policy_is_the_pods(restart, expected):
    template = {"spec": {"containers": [{"name": "tensorflow"}], "restartPolicy": "Always"}}
    job = with_template(template, restart=restart)
    assert pod_of(job, "worker-0")["spec"]["restartPolicy"] == expected
    assert [note.reason for note in plan_for(job).events] == ["SetPodTemplateRestartPolicy"]


def test_only_tensorflows_own_container_learns_tf_config_and_gets_the_port():
    containers = [{"name": "sidecar"}, {"name": "tensorflow", "env": [{"name": "TF_CONFIG", "value": "mine"}]}]
    sidecar, own = pod_of(with_template({"spec": {"containers": containers}}), "worker-0")["spec"]["containers"]
    assert "env" not in sidecar
    assert "ports" not in sidecar
    assert [entry["name"] for entry in own["env"]] == ["TF_CONFIG", "TF_CONFIG"]
    assert own["env"][0]["value"] == "mine"
    assert own["ports"] == [{"name": "tfjob-port", "containerPort": 2222}]


def test_all_containers_of_a_pytorch_pod_learn_who_they_are_but_init_containers_do_not():
    spec = {"containers": [{"name": "pytorch"}, {"name": "sidecar"}], "initContainers": [{"name": "first"}]}
    body = pod_of(with_template({"spec": spec}, "PyTorchJob"), "worker-0")
    assert all(any(entry["name"] == "RANK" for entry in c["env"]) for c in body["spec"]["containers"])
    (first,) = body["spec"]["initContainers"]
    assert "env" not in first


def test_the_first_container_stands_in_where_none_has_the_frameworks_name():
    containers = [{"name": "first"}, {"name": "second"}]
    body = pod_of(with_template({"spec": {"containers": containers}}), "worker-0")
    assert ["env" in container for container in body["spec"]["containers"]] == [True, False]
    assert own_container(TENSORFLOW.container, []) == {}


def test_a_port_of_that_name_is_kept_and_no_other_is_added():
    container = {"name": "tensorflow", "ports": [{"name": "tfjob-port", "containerPort": 3333}]}
    body = pod_of(with_template({"spec": {"containers": [container]}}), "worker-0")
    assert body["spec"]["containers"][0]["ports"] == container["ports"]


def test_the_last_lines_of_a_failure_arrive_in_the_status_unless_the_user_wants_otherwise():
    own = {"name": "tensorflow"}
    said = {"name": "other", "terminationMessagePolicy": "File"}
    body = pod_of(with_template({"spec": {"containers": [own, said]}}), "worker-0")
    policies = [container["terminationMessagePolicy"] for container in body["spec"]["containers"]]
    assert policies == ["FallbackToLogsOnError", "File"]
    inits = [{"name": "prepare"}, {"name": "fetch", "terminationMessagePolicy": "File"}]
    body = pod_of(with_template({"spec": {"containers": [own], "initContainers": inits}}), "worker-0")
    policies = [container["terminationMessagePolicy"] for container in body["spec"]["initContainers"]]
    assert policies == ["FallbackToLogsOnError", "File"]


def test_a_template_without_containers_makes_a_pod_without_containers():
    body = pod_of(with_template({}), "worker-0")
    assert body["spec"]["containers"] == []


def test_v1s_init_container_comes_back_where_the_administrator_asks_for_it():
    job = a_job("PyTorchJob", master=1, worker=1)
    job_defaults = JobDefaults(init_image="alpine:3.10", init_tries=7)
    assert "initContainers" not in pod_of(job, "worker-0")["spec"]
    assert "initContainers" not in pod_of(job, "master-0", job_defaults)["spec"]
    (waiting,) = pod_of(job, "worker-0", job_defaults)["spec"]["initContainers"]
    assert (waiting["name"], waiting["image"]) == ("init-pytorch", "alpine:3.10")
    assert "nslookup mnist-master-0" in waiting["command"][2]
    assert "tries=7" in waiting["command"][2]
    assert waiting["resources"]["limits"] == {"cpu": "100m", "memory": "20Mi"}


def test_a_service_gives_a_member_its_name_before_it_is_ready():
    job = a_job(worker=1)
    group = replace(job.groups[0], ports=(Port("web", 80), Port("tfjob-port", 3333)), port=3333)
    body = builders.service_maker(TENSORFLOW, replace(job, groups=(group,)))(Replica("Worker", 0)).body
    assert body["spec"]["clusterIP"] == "None"
    assert body["spec"]["publishNotReadyAddresses"] is True
    assert body["spec"]["selector"] == body["metadata"]["labels"]
    assert f"{LABELS}job-role" not in body["metadata"]["labels"]
    assert body["spec"]["ports"] == [{"name": "web", "port": 80}, {"name": "tfjob-port", "port": 3333}]


def test_a_big_jobs_pods_read_the_cluster_from_one_config_map_that_is_made_first():
    decision = plan_for(a_job(worker=65), services=())
    first, *others = decision.actions
    assert isinstance(first, CreateDependent)
    assert first.body["immutable"] is True
    assert not any(isinstance(action, CreateDependent) for action in others)
    env = next(action for action in others if isinstance(action, CreatePod)).body["spec"]["containers"][0]["env"]
    assert env[0]["valueFrom"] == {"configMapKeyRef": {"name": first.name, "key": "TRAINSHED_CLUSTER"}}
    assert env[1]["value"].startswith('{"cluster":$(TRAINSHED_CLUSTER),"task"')


def test_a_user_overridable_variable_is_left_out_if_the_user_sets_it():
    variables = (Variable("A", "own", user_overridable=True), Variable("B", "b"))
    hooks = replace(PYTORCH.hooks, environment=lambda _job, _site: lambda _member: variables)
    framework = replace(PYTORCH, hooks=hooks)
    template = {"spec": {"containers": [{"name": "pytorch", "env": [{"name": "A", "value": "mine"}]}]}}
    make = builders.pod_maker(framework, with_template(template, "PyTorchJob"), JobDefaults())
    env = make(Replica("Worker", 0), 3).body["spec"]["containers"][0]["env"]
    assert env == [{"name": "A", "value": "mine"}, {"name": "B", "value": "b"}]


def test_no_pod_is_made_for_a_member_that_is_done():
    job = a_job("PyTorchJob", worker=2, scope=RestartScope.JOB)
    assert made(plan_for(job)) == ["mnist-worker-0", "mnist-worker-1"]
