"""Pods under an operator with flags: v1's init container, and a domain in TF_CONFIG (TO-099, 100, 123 to 125)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator

import pytest

from bed.control_plane import ControlPlane
from rig import Hand, Operator
from rig.jobs import job, pod_spec
from rig.planes import ready_control_plane

from .births import born, variables
from .row import differs, same

PT, TF = "PyTorchJob", "TFJob"
IMAGE, DOMAIN = "alpine:3.10", "tf.training.org"


@pytest.fixture(scope="module")
def flagged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with an operator that was told to bring the init container back, and of a domain."""
    with ready_control_plane(tmp_path_factory.mktemp("flagged")) as plane, pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUSTOM_CLUSTER_DOMAIN", DOMAIN)
        flags = ("--no-leader-elect", f"--pytorch-init-container-image={IMAGE}")
        operator = Operator(plane.kubeconfig, tmp_path_factory.mktemp("operator"), *flags).start()
        yield plane
        assert operator.stop() == 0
        assert operator.complaints() == []


@pytest.fixture
def there(flagged: ControlPlane, request: pytest.FixtureRequest) -> Hand:
    """A user's hand in a namespace of that control plane: the test's parameter, or one of its own."""
    hand = Hand(flagged.kubeconfig, getattr(request, "param", f"t-{uuid.uuid4().hex[:8]}"))
    hand.make_namespace()
    return hand


def waiting(pod: dict) -> list[dict]:
    """The init containers of a pod."""
    return pod["spec"].get("initContainers", [])


@differs("TO-099", "D15", "no init container; with v1's flag one in each worker that has a master")
@pytest.mark.usefixtures("operator")
def test_workers_wait_for_their_master_where_they_are_told_to(hand: Hand, there: Hand):
    wanted = job(PT, "a", Master=1, Worker=1)
    by_default = born(hand, wanted, "a-master-0", "a-worker-0")
    assert [waiting(pod) for pod in by_default.values()] == [[], []]
    told = born(there, wanted, "a-master-0", "a-worker-0")
    assert (len(waiting(told["a-master-0"])), len(waiting(told["a-worker-0"]))) == (0, 1)
    there.delete_job(PT, "a")
    alone = born(there, job(PT, "b", Worker=1), "b-worker-0")
    assert waiting(alone["b-worker-0"]) == []


@differs("TO-100", "D15", "with v1's flag the init container is v1's, after the template's own")
def test_the_init_container_is_v1s(there: Hand):
    wanted = job(PT, "a", Master=1, Worker=1)
    pod_spec(wanted, "Worker")["initContainers"] = [{"name": "own", "image": "busybox"}]
    own, ours = waiting(born(there, wanted, "a-master-0", "a-worker-0")["a-worker-0"])
    assert own["name"] == "own"
    assert (ours["name"], ours["image"], ours["imagePullPolicy"]) == ("init-pytorch", IMAGE, "IfNotPresent")
    assert ours["resources"] == {
        "limits": {"cpu": "100m", "memory": "20Mi"},
        "requests": {"cpu": "50m", "memory": "10Mi"},
    }
    shell, flag, script = ours["command"]
    assert (shell, flag) == ("sh", "-c")
    assert "tries=100;" in script
    assert "nslookup a-master-0" in script


@same("TO-123", "one worker is told nothing, whatever the domain")
def test_a_lone_worker_is_told_nothing_of_a_domain(there: Hand):
    pod = born(there, job(TF, "test-tfjob", Worker=1, PS=0), "test-tfjob-worker-0")["test-tfjob-worker-0"]
    assert variables(pod) == []


@pytest.mark.parametrize(
    ("there", "roles"),
    [
        pytest.param("ns2", ("ps", "worker"), marks=same("TO-124", "the domain stands after svc in every address")),
        pytest.param(
            "ns3", ("evaluator", "ps", "worker"), marks=same("TO-125", "the evaluator is in the cluster, and first")
        ),
    ],
    indirect=["there"],
)
def test_the_domain_is_in_every_address(there: Hand, roles: tuple[str, ...]):
    known = {"ps": "PS", "worker": "Worker", "evaluator": "Evaluator"}
    wanted = job(TF, "test-tfjob", **{known[role]: 1 for role in roles})
    made = born(there, wanted, *(f"test-tfjob-{role}-0" for role in roles))
    cluster = {role: [f"test-tfjob-{role}-0.{there.namespace}.svc.{DOMAIN}:2222"] for role in roles}
    text = json.dumps(
        {"cluster": cluster, "task": {"type": "worker", "index": 0}, "environment": "cloud"}, separators=(",", ":")
    )
    assert variables(made["test-tfjob-worker-0"]) == [("TF_CONFIG", text)]
