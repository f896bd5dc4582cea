"""The API server refuses invalid jobs, with a message that says what to change; the table is support/bad_jobs.py."""

from __future__ import annotations

import copy
import json

import pytest
import yaml

from support.bad_jobs import BAD, GOOD
from support.jobs import KINDS, pytorchjob, smallest, tfjob
from support.kubectl import kubectl
from support.user_client import Refused, UserClient
from testbed.control_plane import ControlPlane
from testbed.releases import OLDER, minor_version
from trainshed import crd


@pytest.mark.fault("J4", "J5")
@pytest.mark.parametrize(("job", "words"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_invalid_jobs_are_refused_with_the_problem(user: UserClient, job: dict, words: str):
    with pytest.raises(Refused) as refused:
        user.create(copy.deepcopy(job))
    assert refused.value.code == 422
    assert any(part in refused.value.problem for part in words.split("|")), str(refused.value)


@pytest.mark.parametrize("job", [case[1] for case in GOOD], ids=[case[0] for case in GOOD])
def test_valid_jobs_are_accepted(user: UserClient, job: dict):
    user.create(copy.deepcopy(job))


@pytest.mark.fault("J5")
def test_a_name_too_long_is_refused_with_the_length_that_fits(user: UserClient):
    with pytest.raises(Refused, match="no more than 54 characters fit with these replicas"):
        user.create(tfjob("x" * 55, Worker=10))
    with pytest.raises(Refused, match="no more than 52 characters fit with these replicas"):
        user.create(tfjob("x" * 53, Worker=101))


def test_a_job_without_replicas_is_refused_for_that_and_not_for_its_name(user: UserClient):
    with pytest.raises(Refused, match="should have at least 1 properties") as refused:
        user.create(tfjob("a"))
    assert "metadata.name" not in str(refused.value)


@pytest.mark.parametrize("kind", KINDS)
def test_managed_by_is_immutable(user: UserClient, kind: str):
    own, theirs = "kubeflow.org/training-operator", "kueue.x-k8s.io/multikueue"
    user.create(smallest(kind, "a"))
    user.create(smallest(kind, "b", policy={"managedBy": own}))
    for name, manager in (("a", own), ("b", theirs), ("b", None)):
        with pytest.raises(Refused, match="managedBy: Invalid value: field is immutable"):
            user.patch_job(kind, name, {"spec": {"runPolicy": {"managedBy": manager}}})


def test_a_queue_may_be_set_and_removed_but_not_changed(user: UserClient):
    user.create(tfjob("a", Worker=1))

    def queue(name: str | None) -> None:
        policy = {"schedulingPolicy": {"queue": name} if name else None}
        user.patch_job("TFJob", "a", {"spec": {"runPolicy": policy}})

    queue("first")
    with pytest.raises(Refused, match=r"spec\.runPolicy\.schedulingPolicy\.queue is immutable"):
        queue("second")
    queue(None)
    queue("second")


def test_only_a_missing_run_policy_is_defaulted(user: UserClient):
    job = tfjob("a", Worker=1)
    del job["spec"]["runPolicy"]
    assert user.create(job)["spec"] == {
        "runPolicy": {"suspend": False},
        "tfReplicaSpecs": job["spec"]["tfReplicaSpecs"],
    }


def test_a_typo_in_the_template_is_refused_at_apply(server: ControlPlane, user: UserClient):
    job = tfjob("typo", Worker=1)
    job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["contaners"] = []
    result = kubectl(server, user, "apply", "-f", "-", text=yaml.safe_dump(job))
    assert result.returncode == 1
    assert "strict decoding error: unknown field" in result.stderr
    assert "contaners" in result.stderr


def test_the_columns_are_v1s_and_wide_output_has_more(server: ControlPlane, user: UserClient):
    user.create(tfjob("a", Worker=1))
    assert kubectl(server, user, "get", "tfjob").stdout.splitlines()[0].split() == ["NAME", "STATE", "AGE"]
    wide = kubectl(server, user, "get", "tfjob", "-o", "wide").stdout.splitlines()[0]
    assert " ".join(wide.split()) == "NAME STATE AGE READY RESTARTS PROGRESS REASON BLOCKED STALLED LAST FAILURE"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("pytorchjob", "A training job of PyTorch"),
        ("tfjob.spec.runPolicy.backoffLimit", "Number of restarts after which the next failure fails the job"),
        ("pytorchjob.spec.elasticPolicy.maxReplicas", "Largest number of workers with which torchrun trains"),
        ("mpijob.spec.mpiReplicaSpecs.restartPolicy", "Default: Never"),
        ("jaxjob.status.failure.exitCode", "128 plus the number of a signal"),
    ],
)
def test_kubectl_explain_describes_the_fields(server: ControlPlane, user: UserClient, path: str, words: str):
    output = kubectl(server, user, "explain", path).stdout
    assert words in " ".join(output.split())


@pytest.mark.parametrize("kind", KINDS)
def test_kubectl_apply_accepts_the_size_of_the_crds(server: ControlPlane, user: UserClient, kind: str):
    name = f"{kind.lower()}s.kubeflow.org"
    annotations = json.loads(kubectl(server, user, "get", "crd", name, "-o", "json").stdout)["metadata"]["annotations"]
    written = annotations["kubectl.kubernetes.io/last-applied-configuration"]
    assert json.loads(written)["metadata"]["name"] == name
    assert sum(len(key) + len(value) for key, value in annotations.items()) < 256 * 1024 / 2


def test_an_elastic_job_is_scaled_within_its_bounds(server: ControlPlane, user: UserClient):
    wanted = pytorchjob("a", Worker=2)
    wanted["spec"]["elasticPolicy"] = {"minReplicas": 2, "maxReplicas": 3}
    user.create(wanted)
    for number, code in ((3, 0), (4, 1), (1, 1), (2, 0)):
        done = kubectl(server, user, "scale", "pytorchjob/a", f"--replicas={number}")
        assert done.returncode == code, done.stderr
        words = "spec.pytorchReplicaSpecs[Worker].replicas: Invalid value: "
        assert (words in done.stderr) is (code == 1)
        assert ("must be from minReplicas to maxReplicas of spec.elasticPolicy" in done.stderr) is (code == 1)
    user.patch_job("PyTorchJob", "a", {"spec": {"elasticPolicy": None}})
    assert kubectl(server, user, "scale", "pytorchjob/a", "--replicas=9").returncode == 0


def test_a_job_that_was_made_outside_its_bounds_can_be_changed_otherwise(user: UserClient):
    wanted = pytorchjob("a", Worker=5)
    wanted["spec"]["elasticPolicy"] = {"maxReplicas": 3}
    user.create(wanted)
    user.patch_job("PyTorchJob", "a", {"spec": {"runPolicy": {"suspend": True}}})
    with pytest.raises(Refused, match="must be from minReplicas to maxReplicas"):
        user.patch_job("PyTorchJob", "a", {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 4}}}})
    user.patch_job("PyTorchJob", "a", {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 1}}}})


@pytest.mark.parametrize("kind", ["TFJob", "XGBoostJob", "MPIJob"])
def test_other_kinds_are_not_scaled(server: ControlPlane, user: UserClient, kind: str):
    user.create(smallest(kind, "a"))
    assert kubectl(server, user, "scale", f"{kind.lower()}/a", "--replicas=3").returncode == 1


@pytest.mark.skipif(minor_version() in OLDER, reason="it is the schema of the newest release")
def test_the_stored_schema_of_the_template_is_this_servers(server: ControlPlane, user: UserClient):
    live = kubectl(server, user, "get", "--raw", crd.WHERE).stdout
    assert crd.strip_template(json.loads(live)) == crd.template_schema()


def test_unknown_status_fields_are_pruned(server: ControlPlane, user: UserClient):
    user.create(tfjob("a", Worker=1))
    forged = {"madeUp": 1, "restarts": 2, "replicaStatuses": {"Worker": {"active": 1, "strange": 5}}}
    patch = json.dumps({"status": forged})
    words = ("patch", "tfjob/a", "--subresource=status", "--type=merge", "-p", patch)
    result = kubectl(server, user, *words)
    assert result.returncode == 0, result.stderr
    stored = user.job("TFJob", "a")["status"]
    assert stored == {"restarts": 2, "replicaStatuses": {"Worker": {"active": 1}}}
