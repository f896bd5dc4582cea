"""Who runs, who still checks jobs, and whose the CRDs are: told from documents, each with the command that mends it."""

from __future__ import annotations

import pytest

from rig import v1
from trainshed.api.crd import definition
from trainshed.cli.premises import Premises, State, command_line, findings
from trainshed.frameworks import FRAMEWORKS
from trainshed.frameworks.mpi import MPI
from trainshed.frameworks.mpi_v2beta1 import MPI_V2BETA1
from trainshed.frameworks.pytorch import PYTORCH

V1, OURS = "kubeflow/training-operator:v1-1", "ghcr.io/trainshed/trainshed:1"
LABELS = {"control-plane": "kubeflow-training-operator"}


def deployment(image=V1, *, pods=1, name="training-operator", labels=None, beside=(), **container) -> dict:
    containers = [*beside, {"name": "operator", "image": image, **container}]
    metadata = {"name": name, "namespace": "kubeflow", "labels": labels or {}}
    status = {"replicas": pods} if pods else {}
    return {"metadata": metadata, "spec": {"template": {"spec": {"containers": containers}}}, "status": status}


def webhook(name="validator.training-operator.kubeflow.org", service="training-operator") -> dict:
    return {"metadata": {"name": name}, "webhooks": [{"clientConfig": {"service": {"name": service}}}]}


def told(deployments=(), webhooks=(), definitions=(), frameworks=()) -> list[tuple[str, str, str]]:
    premises = Premises(tuple(deployments), tuple(webhooks), tuple(definitions))
    return [(str(found.state), found.words, found.command) for found in findings(premises, frameworks)]


def test_a_cluster_without_v1_is_fine():
    assert {state for state, _, _ in told()} == {State.FINE}
    words = told([deployment("nginx", name="web"), deployment(OURS, name="trainshed")])[1][1]
    assert words == f"Trainshed runs: Deployment kubeflow/trainshed, 1 pod, {OURS}"


def test_v1_that_runs_is_to_be_stopped():
    state, words, command = told([deployment(pods=2)])[0]
    assert state == State.TO_DO
    assert words == f"training-operator v1 runs: Deployment kubeflow/training-operator, 2 pods, {V1}"
    assert command == "kubectl --namespace kubeflow scale deployment/training-operator --replicas=0"
    assert told([deployment(pods=0)])[0][:1] == (State.FINE,)


@pytest.mark.parametrize("found", [deployment("mirror/op:7", labels=LABELS), deployment("mirror/training-operator:7")])
def test_v1_is_known_by_its_label_or_its_image(found):
    assert told([found])[0][0] == State.TO_DO


@pytest.mark.parametrize(
    "found",
    [
        deployment(OURS, labels=LABELS),
        deployment("mirror/op:7", labels=LABELS | {"app.kubernetes.io/name": "trainshed"}),
        deployment(OURS, beside=({"name": "istio-proxy", "image": "istio/proxy"},), labels=LABELS),
    ],
)
def test_an_image_of_ours_in_v1s_place_is_ours(found):
    v1s, ours = [words for _, words, _ in told([found])][:2]
    assert v1s == "training-operator v1 has no Deployment here"
    assert ours.startswith("Trainshed runs: ")


def test_two_operators_at_once_are_wrong():
    state, words, _ = told([deployment(), deployment(OURS, name="trainshed")])[0]
    assert state == State.WRONG
    assert words.endswith("stop v1 now")
    state, words, command = told([deployment(OURS, name="trainshed"), deployment(OURS)])[2]
    assert state == State.WRONG
    assert words.startswith("Trainshed runs: Deployment kubeflow/training-operator, 1 pod")
    assert command == "kubectl --namespace kubeflow scale deployment/training-operator --replicas=0"


def test_the_webhook_is_wrong_as_soon_as_nobody_answers_it():
    state, words, command = told([deployment()], [webhook()])[1]
    assert (state, command) == (
        State.TO_DO,
        "kubectl delete validatingwebhookconfiguration validator.training-operator.kubeflow.org",
    )
    assert "once v1 is stopped it refuses every job" in words
    state, words, _ = told([deployment(pods=0)], [webhook("other")])[1]
    assert state == State.WRONG
    assert "every job, new or changed, is refused" in words


def test_webhooks_of_others_are_none_of_our_business():
    assert (
        told([], [webhook("kueue-validating", "kueue-webhook-service"), {"metadata": {"name": "none"}}])[1][0] == "ok"
    )


def test_the_crds_are_told_apart():
    theirs = next(found for found in v1.crds() if found["spec"]["names"]["kind"] == "PyTorchJob")
    frameworks = (PYTORCH,)
    assert told([], [], [definition(PYTORCH)], frameworks)[-1][:2] == ("ok", "the CRD pytorchjobs.kubeflow.org is ours")
    state, words, command = told([], [], [theirs], frameworks)[-1]
    assert (state, command) == (State.TO_DO, "kubectl replace -f crds/kubeflow.org_pytorchjobs.yaml")
    assert "is v1's" in words
    assert told([deployment(OURS)], [], [theirs], frameworks)[-1][0] == State.WRONG
    state, words, command = told([], [], [], frameworks)[-1]
    assert (state, command) == (State.TO_DO, "kubectl create -f crds/kubeflow.org_pytorchjobs.yaml")


def test_a_crd_of_another_version_is_no_reason_to_replace_it():
    state, words, command = told([], [], [definition(MPI_V2BETA1)], (MPI,))[-1]
    assert (state, command) == (State.TO_DO, "")
    assert "serves v2beta1 and not v1" in words
    assert told([], [], [definition(MPI_V2BETA1)], (MPI_V2BETA1,))[-1][0] == State.FINE
    assert told([], [], [], (MPI_V2BETA1,))[-1][2] == "kubectl create -f crds/v2beta1/kubeflow.org_mpijobs.yaml"


def test_each_kind_has_its_word():
    assert len(told([], [], [], FRAMEWORKS)) == 2 + len(FRAMEWORKS)


def test_the_flags_of_v1_are_read_from_its_deployment():
    env = [{"name": "KUBEFLOW_NAMESPACE", "value": "ml"}, {"name": "MY_POD_NAME", "valueFrom": {}}]
    found = deployment(command=["/manager", "--a=1"], args=["--b"], env=[*env, {"name": "CUSTOM_CLUSTER_DOMAIN"}])
    assert command_line(found) == ("--namespace=ml", "--a=1", "--b")
    assert command_line(deployment()) == ()
