"""Documents in: defaults filled, problems collected, nothing ever raised."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.jobs import pytorchjob, tfjob
from trainshed.api import parse, status_codec
from trainshed.api.framework import JobDefaults
from trainshed.api.job import CleanPodPolicy, PackedDocument, Port, RestartPolicy, RestartScope, Scheduling
from trainshed.frameworks import FRAMEWORKS
from trainshed.frameworks.pytorch import PYTORCH
from trainshed.frameworks.tensorflow import TENSORFLOW

WORDS = st.sampled_from(
    [
        "metadata",
        "spec",
        "status",
        "runPolicy",
        "tfReplicaSpecs",
        "Worker",
        "template",
        "containers",
        "conditions",
        "retry",
        "replicaStatuses",
        "failure",
        "time",
        "name",
        "ports",
        "type",
        "annotations",
        "podsPendingReplacement",
        "attempts",
        "replicas",
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=20,
)


def tensorflow(document, job_defaults=None):
    return parse.job(document, TENSORFLOW, job_defaults or JobDefaults())


def pytorch(document):
    return parse.job(document, PYTORCH, JobDefaults())


@given(st.dictionaries(WORDS, JSON), st.sampled_from(FRAMEWORKS))
def test_nothing_that_can_be_stored_makes_reading_fail(document, framework):
    parse.job(document, framework, JobDefaults())
    status_codec.parse_status(document)


def test_defaults_are_v1s():
    document = tfjob("a", Worker=1)
    del document["spec"]["tfReplicaSpecs"]["Worker"]["replicas"]
    del document["spec"]["tfReplicaSpecs"]["Worker"]["restartPolicy"]
    job = tensorflow(document)
    (group,) = job.groups
    assert (group.count, group.restart_policy, group.port) == (1, RestartPolicy.NEVER, 2222)
    assert group.ports == (Port("tfjob-port", 2222),)
    assert job.policy.clean_pods is CleanPodPolicy.NONE
    assert job.problems == ()
    document = pytorchjob("a", Worker=1)
    del document["spec"]["pytorchReplicaSpecs"]["Worker"]["restartPolicy"]
    assert pytorch(document).groups[0].restart_policy is RestartPolicy.ON_FAILURE


def test_what_the_administrator_chose_stands_in_for_what_a_user_left_out():
    job_defaults = JobDefaults(clean_pods=CleanPodPolicy.ALL)
    assert tensorflow(tfjob("a", Worker=1), job_defaults).policy.clean_pods is CleanPodPolicy.ALL
    chosen = tfjob("a", policy={"cleanPodPolicy": "Running"}, Worker=1)
    assert tensorflow(chosen, job_defaults).policy.clean_pods is CleanPodPolicy.RUNNING


def test_tensorflows_roles_may_be_written_in_any_case():
    assert [group.role for group in tensorflow(tfjob("a", WORKER=1, ps=1)).groups] == ["PS", "Worker"]


def test_the_frameworks_port_stands_after_the_users_own_unless_it_is_named():
    document = tfjob("a", Worker=1)
    container = document["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    container["ports"] = [{"name": "customPort", "containerPort": 1234}]
    assert tensorflow(document).groups[0].ports == (Port("customPort", 1234), Port("tfjob-port", 2222))
    container["ports"] = [{"name": "tfjob-port", "containerPort": 3333}]
    assert tensorflow(document).groups[0].port == 3333


@pytest.mark.parametrize(
    ("manager", "elsewhere"),
    [(None, False), ("kubeflow.org/training-operator", False), ("kueue.x-k8s.io/multikueue", True), ("other", True)],
)
def test_who_manages_a_job_is_known_even_if_the_rest_makes_no_sense(manager, elsewhere):
    policy = {} if manager is None else {"managedBy": manager}
    assert tensorflow(tfjob("a", policy=policy, Worker=1)).policy.managed_elsewhere is elsewhere
    nonsense = {"spec": {"runPolicy": policy, "tfReplicaSpecs": 5}}
    assert tensorflow(nonsense).policy.managed_elsewhere is elsewhere


@pytest.mark.parametrize(
    ("policy", "suspend", "deadline"),
    [
        ({"suspend": True, "activeDeadlineSeconds": 60}, True, 60),
        ({}, False, None),
        ({"suspend": "true", "activeDeadlineSeconds": True}, False, None),
        ({"suspend": 1, "activeDeadlineSeconds": -1}, False, None),
        ({"activeDeadlineSeconds": 10**11}, False, None),
        ("nonsense", False, None),
    ],
)
def test_what_takes_the_pods_of_a_job_away_is_known_even_if_the_rest_makes_no_sense(policy, suspend, deadline):
    found = tensorflow({"spec": {"runPolicy": policy, "tfReplicaSpecs": 5}})
    assert found.problems
    assert (found.policy.suspend, found.policy.deadline) == (suspend, deadline)


@pytest.mark.parametrize(
    ("value", "port"), [("25999", 25999), ("65535", 65535), ("65536", None), ("0", None), ("-1", None), ("http", None)]
)
def test_the_port_of_a_debug_server_is_a_port(value, port):
    document = tfjob("a", Worker=1)
    document["metadata"]["annotations"] = {"trainshed.dev/debug-server-port": value}
    found = tensorflow(document)
    assert found.debug_port == port
    assert ("must be a port from 1 to 65535" in "".join(found.problems)) == (port is None)


@pytest.mark.parametrize(("value", "name"), [("team-a", "team-a"), ("", ""), ("Team A", ""), ("a" * 64, ""), (7, "")])
def test_the_name_of_a_webhook_is_a_name(value, name):
    document = tfjob("a", Worker=1)
    document["metadata"]["annotations"] = {"trainshed.dev/notify": value}
    found = tensorflow(document, JobDefaults(notify=True))
    assert found.notify == name
    assert ("must be the name of a webhook" in "".join(found.problems)) == (not name and value != "")


@pytest.mark.parametrize("part", ["labels", "annotations"])
def test_a_job_is_in_a_queue_if_it_or_a_pod_template_has_a_label_or_an_annotation_of_kueue(part):
    document = tfjob("a", Worker=1)
    assert not tensorflow(document).queued
    document["metadata"][part] = {"kueue.x-k8s.io/queue-name": "research"}
    assert tensorflow(document).queued
    admitted = tfjob("a", Worker=1)
    admitted["spec"]["tfReplicaSpecs"]["Worker"]["template"]["metadata"] = {part: {"kueue.x-k8s.io/podset": "worker"}}
    assert tensorflow(admitted).queued


def test_annotations_choose_the_scope_and_what_a_disruption_means():
    document = tfjob("a", Worker=1)
    document["metadata"]["annotations"] = {"trainshed.dev/restart-scope": "Role", "trainshed.dev/on-disruption": "Fail"}
    job = tensorflow(document)
    assert (job.scope, job.fail_on_disruption, job.problems) == (RestartScope.ROLE, True, ())
    document["metadata"]["annotations"] = {"trainshed.dev/restart-scope": "Auto"}
    assert tensorflow(document).scope is None
    document["metadata"]["annotations"] = {"trainshed.dev/restart-scope": "all", "trainshed.dev/on-disruption": "?"}
    first, second = tensorflow(document).problems
    assert first.startswith('metadata.annotations[trainshed.dev/restart-scope]: Unsupported value: "all"')
    assert "Replace" in second


@pytest.mark.parametrize(
    ("spec", "problems"),
    [
        (None, ["spec: Required value"]),
        ({}, ["spec.tfReplicaSpecs: Required value"]),
        ([], ["spec: Invalid value: must be of type object"]),
        (
            {"tfReplicaSpecs": {"Worker": {"replicas": -1, "restartPolicy": "Sometimes"}}},
            [
                "spec.tfReplicaSpecs.Worker.replicas: Invalid value: -1: must be greater than or equal to 0",
                (
                    'spec.tfReplicaSpecs.Worker.restartPolicy: Unsupported value: "Sometimes": supported values:'
                    ' "Always", "OnFailure", "Never", "ExitCode"'
                ),
            ],
        ),
        (
            {"tfReplicaSpecs": {"Worker": {"replicas": "2"}}},
            ['spec.tfReplicaSpecs.Worker.replicas: Invalid value: "2": must be of type integer'],
        ),
        (
            {"tfReplicaSpecs": {}, "runPolicy": {"schedulingPolicy": {"minResources": {"cpu": "lots"}}}},
            [
                (
                    'spec.runPolicy.schedulingPolicy.minResources.cpu: Invalid value: "lots": must be a quantity,'
                    " such as 500m or 16Gi"
                ),
                "spec.tfReplicaSpecs: Invalid value: must not be empty",
            ],
        ),
    ],
)
def test_a_problem_names_the_field_and_says_what_is_wrong_in_the_words_of_the_api_server(spec, problems):
    assert list(tensorflow({"metadata": {"name": "a"}, "spec": spec}).problems) == problems


def test_what_the_framework_refuses_is_a_problem():
    assert "TF_CONFIG" in tensorflow(tfjob("a", Worker=9000)).problems[0]


def test_identity_and_leaving_are_read_from_the_metadata():
    document = tfjob("a", Worker=1)
    document["metadata"] |= {
        "uid": "u",
        "resourceVersion": "7",
        "generation": 3,
        "namespace": "ml",
        "deletionTimestamp": "x",
    }
    job = tensorflow(document)
    assert (job.uid, job.version, job.generation, job.namespace, job.deleting) == ("u", "7", 3, "ml", True)


def test_reading_changes_nothing_in_the_document():
    document = tfjob("a", Worker=1)
    before = copy.deepcopy(document)
    tensorflow(document)
    assert document == before


def test_the_scheduling_policy_of_a_job_is_parsed():
    asked = {"minAvailable": 2, "queue": "q", "minResources": {"cpu": 3}, "priorityClass": "p"}
    job = tensorflow(tfjob("a", policy={"schedulingPolicy": asked | {"scheduleTimeoutSeconds": 60}}, Worker=1))
    assert job.policy.scheduling == Scheduling(2, "q", {"cpu": 3}, "p", 60)
    assert tensorflow(tfjob("a", Worker=1)).policy.scheduling == Scheduling()


@pytest.mark.parametrize(("value", "packed"), [("ä", True), (2**70, True), ("\ud800", False)], ids=ascii)
def test_a_large_template_is_kept_as_json_and_reads_as_it_was_written(value, packed):
    document = tfjob("a", Worker=1)
    template = document["spec"]["tfReplicaSpecs"]["Worker"]["template"]
    template["x"] = [value] * 40_000
    found = tensorflow(document).groups[0].template
    assert isinstance(found, PackedDocument) is packed
    assert found == template
    assert len(found) == len(template)


@pytest.mark.parametrize("scheduler", ["", "volcano"])
@pytest.mark.parametrize("many", [0, 20_000])
def test_annotations_are_kept_where_something_reads_them_and_packed_if_there_are_many(scheduler, many):
    document, own = tfjob("a", Worker=1), {"trainshed.dev/restart-scope": "Job"}
    others = {"b": "2", "a": "1"} | {f"c{number}": "" for number in range(many)}
    kubectls = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
    document["metadata"]["annotations"] = others | kubectls | own
    found = parse.job(document, TENSORFLOW, JobDefaults(gang_scheduler=scheduler)).annotations
    assert dict(found) == (others | own if scheduler else own)
    assert list(found) == sorted(found)
    assert isinstance(found, PackedDocument) is bool(scheduler and many)


def test_an_empty_policy_is_the_default_as_in_v1():
    document = tfjob("a", policy={"cleanPodPolicy": ""}, restart="", Worker=1)
    job = parse.job(document, TENSORFLOW, JobDefaults())
    assert (job.problems, job.policy.clean_pods, job.groups[0].restart_policy) == ((), "None", "Never")
