"""The run_checks about operators, the webhook configuration and the CRDs, each with the command that corrects it."""

from __future__ import annotations

import pytest

from support import v1
from trainshed.cli.operators import ClusterState, command_line
from trainshed.cli.preflight import State, run_checks
from trainshed.crd import definition
from trainshed.frameworks import FRAMEWORKS
from trainshed.frameworks.mpi import MPI
from trainshed.frameworks.mpi_v2beta1 import MPI_V2BETA1
from trainshed.frameworks.pytorch import PYTORCH

from .cluster_objects import ENTITLED, LABELS, OWN, V1, deployment, webhook


def found_in(
    deployments=(), webhooks=(), definitions=(), frameworks=(), *, bindings=(ENTITLED,)
) -> list[tuple[str, str, str]]:
    cluster_state = ClusterState(tuple(deployments), tuple(webhooks), tuple(definitions), tuple(bindings))
    return [(str(found.state), found.message, found.command) for found in run_checks(cluster_state, frameworks)]


def test_a_cluster_without_v1_is_ok():
    found = found_in([deployment("nginx", name="web"), deployment(OWN, name="trainshed")])
    assert {state for state, _, _ in found} == {State.OK}
    assert found[1][1] == f"Trainshed is running: Deployment kubeflow/trainshed, 1 pod, {OWN}"


NONE = "new jobs have no STATE, and no job is started, restarted or cleaned up"


@pytest.mark.parametrize(
    ("deployments", "state", "words", "command"),
    [
        ([], State.ACTION_REQUIRED, "no operator is running", "kubectl apply -k manifests/"),
        ([deployment(pods=0)], State.ACTION_REQUIRED, "no operator is running", "kubectl apply -k manifests/"),
        (
            [deployment(OWN, name="trainshed", pods=0)],
            State.ACTION_REQUIRED,
            "Trainshed is stopped: Deployment kubeflow/trainshed has no pods",
            "kubectl --namespace kubeflow scale deployment/trainshed --replicas=2",
        ),
        (
            [deployment(OWN, name="trainshed", pods=2, ready=0)],
            State.ERROR,
            f"Trainshed is running: Deployment kubeflow/trainshed, 2 pods, {OWN}, none of them ready",
            "kubectl --namespace kubeflow get pods,lease",
        ),
    ],
)
def test_a_cluster_without_a_working_operator_is_not_ok(deployments, state, words, command):
    assert found_in(deployments)[1] == (state, f"{words}; {NONE}", command)


def test_a_stopped_trainshed_beside_a_running_v1_is_no_finding():
    words = [found[1] for found in found_in([deployment(), deployment(OWN, name="trainshed", pods=0)])]
    assert not [line for line in words if "Trainshed" in line or NONE in line]


def test_a_running_v1_is_to_be_stopped():
    state, words, command = found_in([deployment(pods=2)])[0]
    assert state == State.ACTION_REQUIRED
    assert words == f"training-operator v1 is running: Deployment kubeflow/training-operator, 2 pods, {V1}"
    assert command == "kubectl --namespace kubeflow scale deployment/training-operator --replicas=0"
    assert found_in([deployment(pods=0)])[0][:1] == (State.OK,)


@pytest.mark.parametrize("found", [deployment("mirror/op:7", labels=LABELS), deployment("mirror/training-operator:7")])
def test_v1_is_recognized_by_its_label_or_its_image(found):
    assert found_in([found])[0][0] == State.ACTION_REQUIRED


@pytest.mark.parametrize(
    "found",
    [
        deployment(OWN, labels=LABELS),
        deployment("mirror/op:7", labels=LABELS | {"app.kubernetes.io/name": "trainshed"}),
        deployment(OWN, beside=({"name": "istio-proxy", "image": "istio/proxy"},), labels=LABELS),
    ],
)
def test_trainsheds_image_in_v1s_deployment_is_trainshed(found):
    v1s, own = [words for _, words, _ in found_in([found])][:2]
    assert v1s == "no Deployment of training-operator v1 found"
    assert own.startswith("Trainshed is running: ")


def test_two_operators_at_once_are_an_error():
    state, words, _ = found_in([deployment(), deployment(OWN, name="trainshed")])[0]
    assert state == State.ERROR
    assert words.endswith("stop v1 now")
    state, words, command = found_in([deployment(OWN, name="trainshed"), deployment(OWN)])[2]
    assert state == State.ERROR
    assert words.startswith("Trainshed is running: Deployment kubeflow/training-operator, 1 pod")
    assert command == "kubectl --namespace kubeflow scale deployment/training-operator --replicas=0"


def test_the_webhook_is_an_error_once_v1_is_stopped():
    state, words, command = found_in([deployment()], [webhook()])[1]
    assert (state, command) == (
        State.ACTION_REQUIRED,
        "kubectl delete validatingwebhookconfiguration validator.training-operator.kubeflow.org",
    )
    assert "as soon as v1 is stopped, every create and update of a job fails" in words
    state, words, _ = found_in([deployment(pods=0)], [webhook("other")])[2]
    assert state == State.ERROR
    assert "but v1 is not running: every create and update of a job fails" in words


def test_webhooks_of_other_programs_are_not_reported():
    assert (
        found_in([], [webhook("kueue-validating", "kueue-webhook-service"), {"metadata": {"name": "none"}}])[2][0]
        == "ok"
    )


def test_crds_of_v1_are_recognized():
    theirs = next(found for found in v1.crds() if found["spec"]["names"]["kind"] == "PyTorchJob")
    frameworks = (PYTORCH,)
    assert found_in([], [], [definition(PYTORCH)], frameworks)[-1][:2] == (
        "ok",
        "CRD pytorchjobs.kubeflow.org is Trainshed's",
    )
    state, words, command = found_in([], [], [theirs], frameworks)[-1]
    assert (state, command) == (State.ACTION_REQUIRED, "kubectl replace -f crds/kubeflow.org_pytorchjobs.yaml")
    assert "is v1's" in words
    assert found_in([deployment(OWN)], [], [theirs], frameworks)[-1][0] == State.ERROR
    state, words, command = found_in([], [], [], frameworks)[-1]
    assert (state, command) == (State.ACTION_REQUIRED, "kubectl create -f crds/kubeflow.org_pytorchjobs.yaml")


def test_a_crd_of_another_version_is_not_to_be_replaced():
    state, words, command = found_in([], [], [definition(MPI_V2BETA1)], (MPI,))[-1]
    assert (state, command) == (State.ACTION_REQUIRED, "")
    assert "serves v2beta1, not v1" in words
    assert found_in([], [], [definition(MPI_V2BETA1)], (MPI_V2BETA1,))[-1][0] == State.OK
    assert found_in([], [], [], (MPI_V2BETA1,))[-1][2] == "kubectl create -f crds/v2beta1/kubeflow.org_mpijobs.yaml"


def test_each_kind_has_a_finding():
    assert len(found_in([deployment()], [], [], FRAMEWORKS)) == 2 + len(FRAMEWORKS)


def test_the_flags_of_v1_are_read_from_its_deployment():
    env = [{"name": "KUBEFLOW_NAMESPACE", "value": "ml"}, {"name": "MY_POD_NAME", "valueFrom": {}}]
    found = deployment(command=["/manager", "--a=1"], args=["--b"], env=[*env, {"name": "CUSTOM_CLUSTER_DOMAIN"}])
    assert command_line(found) == ("--namespace=ml", "--a=1", "--b")
    assert command_line(deployment()) == ()
