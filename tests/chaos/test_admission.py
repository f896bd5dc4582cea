"""Webhooks and admission policies that change, delay and deny the operator's pods."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from support import FakeKubelet, Refused, UserClient
from support.audit_log import requests
from support.jobs import job, pytorchjob, tfjob
from support.pods import names
from support.sampling import sampled
from support.user_client import MERGE, always, eventually
from testbed.control_plane import ControlPlane
from testbed.releases import minor_version

from .webhook import NEW_PODS, STATUSES, Webhook

pytestmark = [pytest.mark.apiserver, pytest.mark.usefixtures("operator")]

USER = "trainshed"
MANIFESTS = Path(__file__).parents[2] / "manifests"
GROUP = "/apis/admissionregistration.k8s.io/v1"
PODS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}


@contextmanager
def policy(user: UserClient, kind: str, spec: dict) -> Iterator[None]:
    """Install and bind a policy for pods of the user's namespace until the end of the context."""
    name, within = (
        user.namespace,
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": user.namespace}}},
    )
    constraints = {"matchConstraints": {"resourceRules": [PODS], **within}, "failurePolicy": "Fail"}
    binding = {"policyName": name, "matchResources": within}
    plural = kind.replace("Policy", "Policies").lower()
    path, bound = f"{GROUP}/{plural}", f"{GROUP}/{kind.lower()}bindings"
    if kind.startswith("Validating"):
        binding["validationActions"] = ["Deny"]
    user.call("POST", path, {"metadata": {"name": name}, "spec": constraints | spec})
    user.call("POST", bound, {"metadata": {"name": name}, "spec": binding})
    try:
        yield
    finally:
        user.call("DELETE", f"{bound}/{name}")
        user.call("DELETE", f"{path}/{name}")


def in_force(user: UserClient, differs: str) -> bool:
    """Return whether the policy changes or denies a pod of that name."""
    sent = {"metadata": {"name": differs}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    try:
        made = user.call("POST", f"/api/v1/namespaces/{user.namespace}/pods?dryRun=All", sent)
    except Refused:
        return True
    return made["spec"]["containers"][0]["image"] != "x"


def denying(pattern: str) -> dict:
    """The spec of a policy that lets no pod in whose name matches."""
    return {"validations": [{"expression": f"!object.metadata.name.matches('{pattern}')", "message": "not that one"}]}


SIDECAR = """
Object{
  metadata: Object.metadata{labels: {"mesh": "on"}},
  spec: Object.spec{
    containers: object.spec.containers.map(c, Object.spec.containers{name: c.name, image: "mirror.example/" + c.image})
      + [Object.spec.containers{name: "mesh", image: "mesh:1"}]}}
"""


@pytest.mark.fault("K1")
@pytest.mark.skipif(minor_version() in {"1.30", "1.33", "1.35"}, reason="serves no MutatingAdmissionPolicy v1")
def test_pods_that_a_policy_changes_are_accepted_as_they_are(
    server: ControlPlane, user: UserClient, kubelet: FakeKubelet
):
    patch = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": SIDECAR}}
    with policy(user, "MutatingAdmissionPolicy", {"mutations": [patch], "reinvocationPolicy": "Never"}):
        eventually(lambda: in_force(user, "probe"))
        user.create(job("TFJob", "mesh", restart="ExitCode", PS=1, Worker=2))
        eventually(lambda: user.state("TFJob", "mesh") == "Running")
        assert all(pod["metadata"]["labels"]["mesh"] == "on" for pod in user.pods())
        images = {container["image"] for pod in user.pods() for container in pod["spec"]["containers"]}
        assert images == {"mirror.example/python:3.11-slim", "mesh:1"}
        before = writes(server, user)
        always(lambda: len(kubelet.created) == 3, 3)
        assert writes(server, user) - before == Counter()
        kubelet.end("mesh-worker-0", 0)
        eventually(lambda: user.state("TFJob", "mesh") == "Succeeded")


def writes(server: ControlPlane, user: UserClient) -> Counter[str]:
    """Return the operator's writes in the user's namespace so far, without Events."""
    asked = requests(server, USER, user.namespace)
    return Counter(request.what for request in asked if request.writes and "events" not in request.what)


@pytest.mark.fault("K2")
def test_a_slow_webhook_of_one_namespace_delays_no_other(server: ControlPlane, user: UserClient, kubelet: FakeKubelet):
    other = UserClient(server.kubeconfig, f"{user.namespace}-quick")
    other.make_namespace()
    with Webhook.start(server, user) as webhook, FakeKubelet(other):
        webhook.delay = 8.0
        for number in range(30):
            user.create(tfjob(f"slow-{number}", Worker=4))
        eventually(lambda: webhook.asked >= 10, 20)
        began = time.monotonic()
        other.create(tfjob("quick", Worker=2))
        eventually(lambda: other.state("TFJob", "quick") == "Running", 15)
        assert time.monotonic() - began < webhook.delay
        webhook.delay = 0.0
        eventually(lambda: len(user.pods()) == 120, 60)


@pytest.mark.fault("K2")
def test_a_flapping_webhook_costs_only_time(server: ControlPlane, user: UserClient, kubelet: FakeKubelet):
    with Webhook.start(server, user) as webhook:
        webhook.fails = lambda number: number % 2 == 1
        user.create(pytorchjob("flap", Master=1, Worker=5))
        eventually(lambda: len(user.pods()) == 6 and user.state("PyTorchJob", "flap") == "Running", 30)
        eventually(lambda: len(kubelet.created) >= 6)
        assert sorted(kubelet.created) == names(user.pods())
        assert not user.job("PyTorchJob", "flap")["status"].get("restarts")


OTHER_OWNER = {"path": "/metadata/ownerReferences/0/uid", "value": "11111111-1111-1111-1111-111111111111"}
RENAMED = {"path": "/metadata/generateName", "value": "odd-"}, {"op": "remove", "path": "/metadata/name"}


@pytest.mark.fault("K5")
@pytest.mark.parametrize("changes", sampled((RENAMED, (OTHER_OWNER,)), RENAMED), ids=["name", "owner"])
def test_pods_that_a_webhook_renames_or_gives_away_are_not_created_without_end(
    server: ControlPlane, user: UserClient, kubelet: FakeKubelet, changes: tuple[dict[str, str], ...]
):
    with Webhook.start(server, user) as webhook:
        webhook.changes = [{"op": "add"} | change for change in changes]
        user.create(tfjob("odd", Worker=2))
        blocked = eventually(lambda: user.conditions("TFJob", "odd").get("Blocked"))
        assert blocked["reason"] == "AlteredOnCreation"
        always(lambda: webhook.asked <= 6, 10)
    eventually(lambda: user.state("TFJob", "odd") == "Running", 30)


@pytest.mark.fault("K5")
def test_pods_without_their_attempt_are_not_created_without_end(
    server: ControlPlane, user: UserClient, kubelet: FakeKubelet
):
    user.create(job("PyTorchJob", "bare", restart="ExitCode", Master=1, Worker=1))
    eventually(lambda: user.state("PyTorchJob", "bare") == "Running", 30)
    with Webhook.start(server, user) as webhook:
        webhook.changes = [{"op": "remove", "path": "/metadata/annotations"}]
        kubelet.end("bare-worker-0", 137)
        said = "others have deleted the pod, or its annotations"
        eventually(lambda: said in str(user.job("PyTorchJob", "bare")["status"].get("waiting")), 20)
        always(lambda: webhook.asked <= 10, 10)  # two pods, each twice at once, and after 1, 2 and 4 seconds
    eventually(lambda: user.state("PyTorchJob", "bare") == "Running", 60)


@pytest.mark.fault("K6")
@pytest.mark.parametrize(
    "status", sampled(({"restarts": 7}, {"attempts": {"Worker": 3}}), {"restarts": 7}), ids="-".join
)
def test_a_status_that_a_webhook_changes_each_time_is_not_written_without_end(
    server: ControlPlane, user: UserClient, kubelet: FakeKubelet, status: dict
):
    with Webhook.start(server, user, STATUSES) as webhook:
        webhook.changes = [{"op": "add", "path": "/status", "value": status}]
        user.create(tfjob("reverted", Worker=1))
        eventually(lambda: "StatusReverted" in str(user.events("reverted")), 20)
        always(lambda: webhook.asked <= 6, 10)
        pods = names(user.pods("reverted"))
        assert pods == ["reverted-worker-0"], "nothing is done that the status would have to count"
    eventually(lambda: user.state("TFJob", "reverted") == "Running", 60)


@pytest.mark.fault("K3")
@pytest.mark.parametrize("code", [404, 409])
def test_pods_whose_deletion_a_webhook_denies_as_if_they_were_gone_stay_in_the_status(
    server: ControlPlane, user: UserClient, kubelet: FakeKubelet, code: int
):
    user.create(tfjob("held", Worker=2))
    eventually(lambda: user.state("TFJob", "held") == "Running")
    with Webhook.start(server, user, NEW_PODS | {"operations": ["DELETE"]}) as webhook:
        webhook.denies = code
        user.patch_job("TFJob", "held", {"spec": {"runPolicy": {"suspend": True}}})
        eventually(lambda: webhook.asked >= 6, 15)
        assert user.job("TFJob", "held")["status"]["replicaStatuses"] == {"Worker": {"active": 2}}
        assert "SuccessfulDeletePod" not in [reason for _, reason, _ in user.events("held")]
    eventually(lambda: user.pods() == [], 30)


@pytest.mark.fault("K3")
def test_pods_that_are_denied_are_reported_and_created_once_they_may(
    server: ControlPlane, user: UserClient, kubelet: FakeKubelet
):
    with policy(user, "ValidatingAdmissionPolicy", denying("-worker-[12]$")):
        eventually(lambda: in_force(user, "probe-worker-1"))
        user.create(tfjob("some", Chief=1, Worker=4))
        blocked = eventually(lambda: user.conditions("TFJob", "some").get("Blocked"))
        assert "not that one" in blocked["message"]
        time.sleep(4)
        found = names(user.pods())
        assert "some-chief-0" in found
        assert not {"some-worker-1", "some-worker-2"} & set(found)
        assert writes(server, user)["create pods"] <= 15
    eventually(lambda: len(user.pods()) == 5, 60)  # the back-off of refusals may have grown to 32 s meanwhile
    eventually(lambda: "Blocked" not in user.conditions("TFJob", "some"), 30)


@pytest.mark.fault("J2")
def test_with_our_policy_only_the_operator_creates_pods_of_a_job(user: UserClient, kubelet: FakeKubelet):
    text = (MANIFESTS / "overlays" / "pod-admission-policy" / "resources.yaml").read_text()
    documents = list(yaml.safe_load_all(text.replace("system:serviceaccount:trainshed-system:trainshed", USER)))
    made = user.create(tfjob("prize", policy={"suspend": True}, Worker=2))
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "prize", "uid": made["metadata"]["uid"]}
    labels = {"training.kubeflow.org/job-name": "prize"}
    forged = {"metadata": {"ownerReferences": [owner | {"controller": True}], "labels": labels}}
    bare = {"spec": {"containers": [{"name": "tensorflow", "image": "busybox"}]}}
    for document in documents:
        user.call("POST", path_of(document), document)
    try:
        eventually(lambda: refused(user, {"metadata": forged["metadata"] | {"name": "probe"}, **bare}, dry=True))
        assert refused(user, {"metadata": forged["metadata"] | {"name": "prize-worker-0"}, **bare})
        user.make("pods", {"metadata": {"name": "plain"}, **bare})
        with pytest.raises(Refused, match="only the operator"):
            user.call("PATCH", f"/api/v1/namespaces/{user.namespace}/pods/plain", forged, MERGE)
        user.patch_job("TFJob", "prize", {"spec": {"runPolicy": {"suspend": False}}})
        eventually(lambda: user.state("TFJob", "prize") == "Running")
        kubelet.end("prize-worker-0", 0)
        eventually(lambda: user.state("TFJob", "prize") == "Succeeded")
        user.delete_job("TFJob", "prize")
        eventually(lambda: names(user.pods()) == ["plain"], 60)
    finally:
        for document in documents:
            user.call("DELETE", f"{path_of(document)}/{document['metadata']['name']}")


def path_of(document: dict) -> str:
    return f"{GROUP}/{document['kind'].lower()}s".replace("policys", "policies")


def refused(user: UserClient, pod: dict, *, dry: bool = False) -> bool:
    """Return whether the server refuses this pod."""
    try:
        user.call("POST", f"/api/v1/namespaces/{user.namespace}/pods{'?dryRun=All' if dry else ''}", pod)
    except Refused as no:
        return "only the operator" in str(no)
    return False
