"""The unmodified v1 SDK, in an environment of its own, against the operator (TO-249 to TO-258, TO-265)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support import FakeKubelet, UserClient
from support.jobs import job
from support.pods import container, names
from support.user_client import eventually
from testbed.control_plane import ControlPlane

from .row import differs, same

pytestmark = pytest.mark.usefixtures("operator")

HERE = Path(__file__)
PYTHON = HERE.parents[2] / ".venv-sdk" / "bin" / "python"
PT = "PyTorchJob"


@pytest.fixture
def sdk(server: ControlPlane, user: UserClient) -> Callable[[str], object]:
    """Calls the SDK in the test's namespace; returns the result."""

    def do(action: str) -> object:
        assert PYTHON.exists(), "make venv-sdk"
        command = [PYTHON, HERE.with_name("sdk_client.py"), server.kubeconfig, user.namespace, action]
        result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=240)
        assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
        return json.loads(result.stdout.splitlines()[-1])

    return do


def ends(**codes: str) -> Callable[[str], str]:
    """A script for the kubelet: pods whose name has this in it end with that code, all others run."""
    return lambda name: next((code for part, code in codes.items() if part in name), "Running")


@same("TO-249", "create_job from a function, for 3 workers: a master and two workers")
def test_a_job_from_a_function(user: UserClient, kubelet: FakeKubelet, sdk: Callable[[str], object]):
    assert sdk("function") == ["a-master-0", "a-worker-0", "a-worker-1"]
    command = " ".join(container(user.pod("a-master-0"))["args"])
    assert "def train_function" in command
    assert "torchrun" in command


@same("TO-250", "create_job from an image, for 1 worker: just a master, and it succeeds")
def test_a_job_from_an_image(user: UserClient, kubelet: FakeKubelet, sdk: Callable[[str], object]):
    kubelet.script = ends(master="0")
    assert sdk("image") == [True, ["a-master-0"]]


@same("TO-251", "wait_for_job_conditions: returns at Created, or at success; a failure is a RuntimeError")
def test_waiting(user: UserClient, kubelet: FakeKubelet, sdk: Callable[[str], object]):
    kubelet.script = ends(fails="1", master="0")
    succeeded, failed, error = sdk("waiting")
    assert (succeeded, failed) == (True, True)
    assert f"PyTorchJob {user.namespace}/fails is Failed" in error


@same("TO-253", "get_job_pods selects by all four labels at once")
@same("TO-254", "get_job_pods refuses a replica type in capitals by itself")
def test_selecting_pods(user: UserClient, kubelet: FakeKubelet, sdk: Callable[[str], object]):
    one, none, error = sdk("selection")
    assert (one, none) == (["a-worker-0"], [])
    assert "worker" in error


@differs("TO-255", "D8", "list_jobs works beside jobs without a runPolicy: they have an empty one")
def test_listing_jobs(user: UserClient, sdk: Callable[[str], object]):
    bare = job(PT, "bare", Master=1)
    del bare["spec"]["runPolicy"]
    user.create(bare)
    user.create(job(PT, "other", Master=1))
    assert sdk("listing") == ["bare", "other"]


@same("TO-256", "queue_name becomes the label of a queue, whether there is one or not")
def test_a_queue(user: UserClient, sdk: Callable[[str], object]):
    assert sdk("queue") == {"kueue.x-k8s.io/queue-name": "nowhere"}


@same("TO-258", "delete_job: the job is gone, and its pods after it")
def test_deleting(user: UserClient, kubelet: FakeKubelet, sdk: Callable[[str], object]):
    assert sdk("deletion") == []
    eventually(lambda: not user.pods() and not user.core("services"), 60)


@same("TO-265", "managedBy: the operator's own runs, MultiKueue's gets no condition, any other cannot be created")
def test_who_manages(user: UserClient, kubelet: FakeKubelet, sdk: Callable[[str], object]):
    listed, created, conditions, error = sdk("managers")
    assert listed == ["own", "theirs"]
    assert created is True
    assert conditions == []
    assert error.startswith(f"Failed to create PyTorchJob: {user.namespace}/strange")
    assert "spec.runPolicy.managedBy: Unsupported value" in error


def test_all_six_kinds_from_their_making_to_their_end(
    user: UserClient, kubelet: FakeKubelet, sdk: Callable[[str], object]
):
    kubelet.script = ends(**{"chief": "0", "master": "0", "launcher": "0", "jaxjob-worker": "0"})
    answers = sdk("everything")
    assert list(answers) == ["TFJob", "PyTorchJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob"]
    for kind, found in answers.items():
        assert (found["created"], found["succeeded"]) == (True, True), kind
        assert (found["failed"], found["restarting"]) == (False, False), kind
        assert found["conditions"][0] == "Created", kind
        assert found["conditions"][-1] == "Succeeded", kind
        assert found["listed"] == [kind.lower()], kind
        assert found["labels"] == {"seen": "yes"}, kind
        assert len(found["masters"]) == 1, kind
        assert set(found["masters"]) <= set(found["pods"]), kind


def test_fine_tuning_as_far_as_it_goes_without_a_hub(
    user: UserClient, kubelet: FakeKubelet, sdk: Callable[[str], object]
):
    assert sdk("fine_tuning") == ["tune-master-0", "tune-worker-0"]
    (first,) = user.pod("tune-master-0")["spec"]["initContainers"]
    assert first["name"] == "storage-initializer"
    assert "initContainers" not in user.pod("tune-worker-0")["spec"]
    assert names(user.core("persistentvolumeclaims")) == ["tune"]
    for name in ("tune-master-0", "tune-worker-0"):
        volumes = user.pod(name)["spec"]["volumes"]
        claims = [volume["persistentVolumeClaim"] for volume in volumes if "persistentVolumeClaim" in volume]
        assert claims == [{"claimName": "tune"}]
