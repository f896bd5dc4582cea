"""`trainshed plan` and what the API server may answer to a job and its pods."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from support.jobs import job, pod_spec, pytorchjob
from support.listed_cluster import listed_cluster
from trainshed.cli import cli

NODE = {"metadata": {"name": "a"}, "status": {"allocatable": {"cpu": "4", "pods": "10"}}}
ACCEPTED = {"pytorchjobs": (201, {}), "pods": (201, {"spec": {"priority": 0, "containers": [{"name": "pytorch"}]}})}
READABLE: dict = {"nodes": [NODE], "apis": {"groups": []}}


def plan(folder: Path, *jobs: dict, created: dict | None = None, objects: dict | None = None, words=()) -> Result:
    answers = ACCEPTED if created is None else ACCEPTED | created
    with listed_cluster(folder, READABLE | (objects or {}), created=answers) as kubeconfig:
        text = "\n---\n".join(map(json.dumps, jobs or (pytorchjob("mnist", Master=1),)))
        return CliRunner().invoke(cli, ["plan", "-f", "-", "--kubeconfig", str(kubeconfig), *words], input=text)


def planned(folder: Path, *jobs: dict, **cluster: dict) -> tuple[int, list[dict]]:
    done = plan(folder, *jobs, words=("-o", "json"), **cluster)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, json.loads(done.stdout)


def answer(code: int, message: str, reason: str = "") -> tuple[int, dict]:
    return code, {"reason": reason, "message": message}


DENIED = 'pytorchjobs is forbidden: User "ann" cannot create resource "pytorchjobs" in API group "kubeflow.org"'
NO_DRY_RUN = 'admission webhook "w" does not support dry run'
QUOTA = 'pods "mnist-master-0" is forbidden: exceeded quota: gpus'
ENDS = 'pods "x" is forbidden: unable to create new content in namespace default because it is being terminated'
CALLED = "Internal error occurred: failed calling webhook"


@pytest.mark.parametrize(
    ("plural", "response", "objects", "verdict", "said"),
    [
        (
            "pytorchjobs",
            answer(403, DENIED),
            {"default": None},
            "not looked at",
            "accepts the job: ask for the right to c",
        ),
        (
            "pytorchjobs",
            answer(403, DENIED),
            {"default": None},
            "not looked at",
            "a namespace default: ask for the right",
        ),
        (
            "pytorchjobs",
            answer(403, DENIED),
            {"default": {"status": {"phase": "Terminating"}}},
            "refused",
            "being deleted",
        ),
        ("pytorchjobs", answer(404, 'namespaces "default" not found'), {}, "refused", 'namespaces "default" not found'),
        ("pytorchjobs", answer(404, "the server could not find"), {}, "refused", "The cluster has no kind PyTorchJob"),
        ("pytorchjobs", answer(409, "exists", "AlreadyExists"), {}, "refused", "Choose another name"),
        ("pytorchjobs", answer(400, NO_DRY_RUN), {}, "not looked at", "accepts the job: admission webhook"),
        (
            "pytorchjobs",
            answer(403, 'admission webhook "w" denied the request: no'),
            {},
            "refused",
            "denied the request",
        ),
        ("pytorchjobs", answer(500, f'{CALLED} "w": no endpoints'), {}, "refused", "points. An admission webhook"),
        (
            "pods",
            answer(403, DENIED.replace("pytorchjobs", "pods")),
            {},
            "not looked at",
            "accept the pods: ask for the",
        ),
        ("pods", answer(409, "exists", "AlreadyExists"), {}, "refused", "a pod mnist-master-0 exists already"),
        ("pods", answer(403, "violates PodSecurity"), {}, "refused", "pod mnist-master-0: violates PodSecurity"),
        ("pods", answer(403, ENDS), {}, "refused", "because it is being terminated"),
        ("pods", answer(403, QUOTA), {"resourcequotas": None}, "does not fit", "exceeded quota: gpus"),
        ("pods", answer(403, QUOTA), {}, "does not fit", None),
        ("pods", answer(500, f'{CALLED} "w": no endpoints'), {}, "refused", "no endpoints. An admission webhook does"),
        ("pods", answer(503, "starting"), {}, "not looked at", "accepts pod mnist-master-0: 503"),
        ("pods", answer(400, NO_DRY_RUN), {}, "not looked at", "accepts pod mnist-master-0: admission webhook"),
    ],
)
def test_what_the_api_server_answers_to_a_dry_run(tmp_path, plural, response, objects, verdict, said):  # noqa: PLR0917
    code, (found,) = planned(tmp_path, created={plural: response}, objects=objects)
    texts = [item["message"] for item in found["assessments"] if item["verdict"] == verdict]
    assert any(said in text for text in texts) if said else not texts, found["assessments"]
    assert code == (1 if said and verdict != "not looked at" else 0)


def test_an_api_server_that_does_not_answer_is_an_error_in_one_line(tmp_path):
    done = plan(tmp_path, created={"pytorchjobs": (503, {"message": "starting"})})
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "Error: 503: starting\n"


LEVEL = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}


def test_the_level_of_pod_security_is_named_if_no_pod_may_be_tried(tmp_path):
    created = {"pytorchjobs": answer(403, DENIED), "pods": answer(403, DENIED)}
    _, (found,) = planned(tmp_path, created=created, objects={"default": LEVEL})
    said = [item["message"] for item in found["assessments"]]
    assert "whether the pods meet level restricted of Pod Security, which default enforces" in said


def test_devices_without_an_equal_limit_are_refused_if_no_pod_may_be_tried(tmp_path):
    greedy = pytorchjob("mnist", Master=1)
    pod_spec(greedy, "Master")["containers"][0]["resources"] = {"requests": {"nvidia.com/gpu": "1"}}
    code, (found,) = planned(tmp_path, greedy, created={"pods": answer(403, DENIED)})
    assert (code, found["verdict"]) == (1, "refused")
    assert "requests nvidia.com/gpu without an equal limit" in str(found["assessments"])


@pytest.mark.parametrize(("cpu", "fit"), [("4", "not looked at"), ("5", "does not fit")])
def test_without_the_pods_of_others_the_nodes_are_taken_as_empty(tmp_path, cpu, fit):
    asks = {"spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": cpu}}}]}}
    code, (found,) = planned(tmp_path, created={"pods": (201, asks)}, objects={"pods": None})
    assert {item["verdict"] for item in found["assessments"] if item["part"] == "Nodes"} == {fit, "not looked at"}
    assert (code, found["complete"]) == (int(fit == "does not fit"), False)


def test_jobs_of_one_plan_do_not_take_the_same_room(tmp_path):
    asks = {"spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": "3"}}}]}}
    jobs = [pytorchjob(name, Master=1) for name in ("first", "second")]
    code, found = planned(tmp_path, *jobs, created={"pods": (201, asks)})
    assert (code, [item["verdict"] for item in found]) == (1, ["fits", "does not fit"])
    assert [item["name"] for item in found] == ["first", "second"]


@pytest.mark.parametrize(
    ("value", "policy", "said"),
    [
        (7, "PreemptLowerPriority", "Master: priority 7 of PriorityClass usual; they may preempt pods of a lower one"),
        (-7, "Never", "Master: priority -7 of PriorityClass usual; they preempt no other pods"),
    ],
)
def test_pods_without_a_class_have_the_one_for_all(tmp_path, value, policy, said):
    usual = {"metadata": {"name": "usual"}, "globalDefault": True, "value": value, "preemptionPolicy": policy}
    objects = {"priorityclasses": [{"metadata": {"name": "other"}, "value": 1}, usual]}
    _, (found,) = planned(tmp_path, created={"pods": answer(403, DENIED)}, objects=objects)
    assert said in [item["message"] for item in found["assessments"]]


def test_a_job_that_is_refused_without_a_cluster_is_refused_in_its_plan(tmp_path):
    wrong = pytorchjob("mnist", Master=2)
    code, found = planned(tmp_path, wrong, pytorchjob("fine", Master=1))
    assert (code, [item["verdict"] for item in found]) == (1, ["refused", "fits"])
    assert "must be 1" in found[0]["assessments"][0]["message"]


def test_what_the_files_have_beside_jobs_is_not_missing(tmp_path):
    needs = pytorchjob("mnist", Master=1)
    pod_spec(needs, "Master")["volumes"] = [{"name": "code", "configMap": {"name": "code"}}]
    files = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "code"}}
    for jobs, fits in (((needs,), "does not fit"), ((needs, files), "warning")):
        _, (found,) = planned(tmp_path, *jobs, objects={"code": 404})
        assert [item["verdict"] for item in found["assessments"] if item["part"] == "Objects"] == [fits]


@pytest.mark.parametrize("name", ["../../nodes", "a\x1b[31mb\nc", "x" * 300, "a?b=c"])
def test_a_name_that_no_object_has_is_not_asked_for(tmp_path, name):
    hostile = pytorchjob("mnist", Master=1)
    pod_spec(hostile, "Master")["imagePullSecrets"] = [{"name": name}]
    queued = {"kueue.x-k8s.io/queue-name": name}
    for labels, said in (({}, ("has no Secret", "imagePullSecrets")), (queued, ("would be refused",))):
        hostile["metadata"]["labels"] = labels
        done = plan(tmp_path, hostile, objects={"apis": {"groups": [{"name": "kueue.x-k8s.io"}]}})
        assert (done.exit_code, "\x1b" in done.stdout) == (1, False), done.output
        assert any(words in done.stdout for words in said), done.stdout


def test_what_a_suspended_job_and_one_of_another_controller_make_is_said(tmp_path):
    assert "the job is suspended" in plan(tmp_path, pytorchjob("mnist", policy={"suspend": True}, Master=1)).stdout
    elsewhere = {"managedBy": "kueue.x-k8s.io/multikueue"}
    assert "names another controller" in plan(tmp_path, pytorchjob("mnist", policy=elsewhere, Master=1)).stdout


def test_a_pod_is_tried_without_the_account_that_is_made_for_it(tmp_path):
    created = {"mpijobs": (201, {})}
    _, (found,) = planned(tmp_path, job("MPIJob", "hello", Launcher=1, Worker=1), created=created)
    assert {"kind": "ServiceAccount", "name": "hello-launcher"} in found["objects"]
    assert found["verdict"] == "fits"


def test_a_queue_without_kueue_is_a_warning(tmp_path):
    queued = pytorchjob("mnist", Master=1)
    queued["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "mine"}
    _, (found,) = planned(tmp_path, queued, created={"pytorchjobs": (201, queued)})
    (said,) = [item for item in found["assessments"] if item["part"] == "Queue"]
    assert (said["verdict"], "the cluster has no Kueue" in said["message"]) == ("warning", True)
