"""Pods under an operator with flags: v1's init container, and a domain in TF_CONFIG (TO-099, 100, 123 to 125)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from support import Operator, UserClient
from support.jobs import job, pod_spec
from support.user_client import eventually
from testbed.control_plane import ControlPlane

from .created_objects import created_pods, variables
from .row import differs, same

PT, TF = "PyTorchJob", "TFJob"
IMAGE, DOMAIN = "alpine:3.10", "tf.training.org"


@pytest.fixture(scope="module")
def there(second_server: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[UserClient]:
    """A user of an operator with v1's flags for the init container and the domain."""
    user = UserClient.somewhere(second_server.kubeconfig, named="flags")
    flags = ("--no-leader-elect", f"--namespace={user.namespace}", f"--pytorch-init-container-image={IMAGE}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUSTOM_CLUSTER_DOMAIN", DOMAIN)
        operator = Operator(second_server.kubeconfig, tmp_path_factory.mktemp("flags"), *flags).start()
    yield user
    assert operator.stop() == 0
    assert operator.complaints() == []


@pytest.fixture(autouse=True)
def empty(there: UserClient) -> Iterator[None]:
    """After each test nothing of its jobs is left."""
    yield
    there.delete_jobs()
    eventually(lambda: not there.pods(), 20)


def waiting(pod: dict) -> list[dict]:
    """The init containers of a pod."""
    return pod["spec"].get("initContainers", [])


@differs("TO-099", "D15", "no init container; with v1's flag one in each worker that has a master")
@pytest.mark.usefixtures("operator")
def test_workers_wait_for_their_master_if_a_flag_says_so(user: UserClient, there: UserClient):
    wanted = job(PT, "a", Master=1, Worker=1)
    by_default = created_pods(user, wanted, "a-master-0", "a-worker-0")
    assert [waiting(pod) for pod in by_default.values()] == [[], []]
    with_flag = created_pods(there, wanted, "a-master-0", "a-worker-0")
    assert (len(waiting(with_flag["a-master-0"])), len(waiting(with_flag["a-worker-0"]))) == (0, 1)


@differs("TO-099", "D15", "no init container; with v1's flag one in each worker that has a master")
def test_workers_without_a_master_wait_for_nobody(there: UserClient):
    assert waiting(created_pods(there, job(PT, "a", Worker=1), "a-worker-0")["a-worker-0"]) == []


@differs("TO-100", "D15", "with v1's flag the init container is v1's, after the template's own")
def test_the_init_container_is_v1s(there: UserClient):
    wanted = job(PT, "a", Master=1, Worker=1)
    pod_spec(wanted, "Worker")["initContainers"] = [{"name": "own", "image": "busybox"}]
    own, default = waiting(created_pods(there, wanted, "a-master-0", "a-worker-0")["a-worker-0"])
    assert own["name"] == "own"
    assert (default["name"], default["image"], default["imagePullPolicy"]) == ("init-pytorch", IMAGE, "IfNotPresent")
    assert default["resources"] == {
        "limits": {"cpu": "100m", "memory": "20Mi"},
        "requests": {"cpu": "50m", "memory": "10Mi"},
    }
    shell, flag, script = default["command"]
    assert (shell, flag) == ("sh", "-c")
    assert "tries=100;" in script
    assert "nslookup a-master-0" in script


@same("TO-123", "a single worker gets no TF_CONFIG, whatever the domain")
def test_a_lone_worker_gets_no_tf_config_with_a_domain(there: UserClient):
    pod = created_pods(there, job(TF, "test-tfjob", Worker=1, PS=0), "test-tfjob-worker-0")["test-tfjob-worker-0"]
    assert variables(pod) == []


@pytest.mark.parametrize(
    "roles",
    [
        pytest.param(("ps", "worker"), marks=same("TO-124", "the domain stands after svc in every address")),
        pytest.param(("evaluator", "ps", "worker"), marks=same("TO-125", "the evaluator is in the cluster, and first")),
    ],
)
def test_the_domain_is_in_every_address(there: UserClient, roles: tuple[str, ...]):
    known = {"ps": "PS", "worker": "Worker", "evaluator": "Evaluator"}
    wanted = job(TF, "test-tfjob", **{known[role]: 1 for role in roles})
    made = created_pods(there, wanted, *(f"test-tfjob-{role}-0" for role in roles))
    cluster = {role: [f"test-tfjob-{role}-0.{there.namespace}.svc.{DOMAIN}:2222"] for role in roles}
    text = json.dumps(
        {"cluster": cluster, "task": {"type": "worker", "index": 0}, "environment": "cloud"}, separators=(",", ":")
    )
    assert variables(made["test-tfjob-worker-0"]) == [("TF_CONFIG", text)]
