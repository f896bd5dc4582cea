"""Annotations of Trainshed that do not exist, and values that do not, are refused by the admission policy."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest

from docs.commands import ROOT
from support import Refused, UserClient
from support.invalid_names import BAD_ANNOTATIONS, GOOD_ANNOTATIONS, foreign
from support.jobs import KINDS, job, replicas, smallest, tfjob
from support.kubectl import kubectl
from support.user_client import eventually
from testbed.control_plane import ControlPlane

from .accounts import change, code, refusal

POLICY = ROOT / "manifests" / "base" / "annotation-policy.yaml"
PATH = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/trainshed-annotations"
BAD = {"metadata": {"annotations": {"trainshed.dev/restart-scope": "bad"}}}


def bad(name: str) -> dict:
    """A job with a value that does not exist."""
    found = tfjob(name, Worker=1)
    found["metadata"] |= copy.deepcopy(BAD["metadata"])
    return found


def in_force(server: ControlPlane, verb: str, *, refused: bool) -> None:
    """Apply or delete the policy of manifests/, and wait until it is in force or not."""
    admin = UserClient(server.kubeconfig, "default")
    assert kubectl(server, admin, verb, "-f", str(POLICY)).returncode == 0
    eventually(lambda: (code(admin, bad("probe")) != 201) is refused, 30)


@pytest.fixture(scope="module", autouse=True)
def policy(server: ControlPlane) -> Iterator[None]:
    """The policy is in force; afterwards it is not."""
    in_force(server, "apply", refused=True)
    yield
    in_force(server, "delete", refused=False)


@pytest.mark.parametrize(("job", "words"), BAD_ANNOTATIONS, ids=[case[1][:60] for case in BAD_ANNOTATIONS])
def test_a_bad_annotation_is_refused_in_the_words_of_render(user: UserClient, job: dict, words: str):
    assert words in refusal(user, job)


@pytest.mark.parametrize("job", [*GOOD_ANNOTATIONS, foreign()], ids=lambda job: str(job["metadata"]["annotations"]))
def test_good_annotations_are_accepted(user: UserClient, job: dict):
    assert refusal(user, job) == ""


@pytest.mark.parametrize("kind", KINDS)
def test_jobs_of_every_kind_and_every_template_are_checked(user: UserClient, kind: str):
    wanted = smallest(kind, "a")
    assert refusal(user, wanted) == ""
    wanted["metadata"]["annotations"] = {"trainshed.dev/x": "y"}
    assert "metadata.annotations[trainshed.dev/x]: unknown annotation" in refusal(user, wanted)
    for role in KINDS[kind].least:
        marked = smallest(kind, "a")
        replicas(marked, role)["template"]["metadata"] = {"annotations": {"trainshed.dev/on-disruption": "Fail"}}
        assert f"{KINDS[kind].field}[{role}].template.metadata.annotations" in refusal(user, marked)


def test_existing_jobs_can_be_changed_suspended_and_deleted(server: ControlPlane, user: UserClient):
    in_force(server, "delete", refused=False)
    wanted = bad("old")
    marks = {"annotations": {"trainshed.dev/restart-scope": "Job"}}
    replicas(wanted, "Worker")["template"]["metadata"] = marks
    wanted["metadata"]["finalizers"] = ["a.b/c"]
    user.create(wanted)
    in_force(server, "apply", refused=True)
    assert change(user, wanted, {"spec": {"runPolicy": {"suspend": True}}}) == 200
    assert change(user, wanted, {"metadata": {"annotations": {"a.b/c": "d"}}}) == 200
    with pytest.raises(Refused, match="Unsupported value"):
        user.patch_job("TFJob", "old", {"metadata": {"annotations": {"trainshed.dev/restart-scope": "worse"}}})
    assert change(user, wanted, {"metadata": {"annotations": {"trainshed.dev/restart-scope": None}}}) == 200
    with pytest.raises(Refused, match="Unsupported value"):
        user.patch_job("TFJob", "old", BAD)
    user.delete_job("TFJob", "old")
    assert change(user, wanted, {"metadata": {"finalizers": None}}) == 200
    assert user.job("TFJob", "old") is None


def test_the_most_annotations_are_within_the_servers_budget(user: UserClient):
    roles = {"Chief": 1, "PS": 1, "Worker": 1, "Evaluator": 1}
    wanted = job("TFJob", "big", **roles)
    many = {f"trainshed.dex/{number:06}": "v" * 40 for number in range(4_300)}
    assert 250_000 < sum(len(key) + len(value) for key, value in many.items()) < 256 * 1024
    wanted["metadata"]["annotations"] = {**dict(list(many.items())[:-20]), "trainshed.dev/restart-scope": "Job"}
    for role in roles:
        replicas(wanted, role)["template"]["metadata"] = {"annotations": many}
    assert refusal(user, wanted) == ""
    wanted["metadata"]["annotations"]["trainshed.dev/restart-scope"] = "all"
    assert 'Unsupported value: "all"' in refusal(user, wanted)


def test_the_server_reports_no_type_errors_in_the_policy(user: UserClient):
    status = eventually(lambda: "typeChecking" in (found := user.call("GET", PATH).get("status", {})) and found, 30)
    assert status["typeChecking"].get("expressionWarnings", []) == []
