"""The life of a release: it goes, comes, is upgraded and rolled back, and no pod of a job minds any of it.

It stands last in its ring, and leaves the release as it found it. Both versions of Helm have their turn.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import UserClient
from support.jobs import pod_spec, tfjob
from support.release import HOME, NAME, Helm
from support.user_client import eventually
from testbed.images import PYTHON

from .conftest import PATIENCE, Kubectl, complaints

FIRST_JOB = Path(__file__).parents[2] / "examples" / "pytorch" / "distributed-pytorch-job.yaml"
FIRST, LONG = "distributed-pytorch-job", "long"
KINDS = "tfjobs,pytorchjobs,xgboostjobs,paddlejobs,jaxjobs,mpijobs"


@pytest.fixture
def home(kubeconfig: str) -> Kubectl:
    """kubectl where the operator is; the log that is about to go is looked at before."""
    run = Kubectl(kubeconfig, HOME)
    assert complaints(run) == []
    return run


@pytest.fixture
def values(kubeconfig: str, tmp_path: Path) -> Iterator[Path]:
    """The values of the release as it was found; whatever happens, it is there with them at the end."""
    helm, found = Helm(4, kubeconfig), tmp_path / "values.json"
    found.write_text(helm.values())
    yield found
    if helm.is_pending():
        helm("uninstall", NAME, "--wait")
    helm.upgrade(found)


def lives(user: UserClient, job: str) -> dict[str, tuple[str, int]]:
    """For each pod of a job that runs its uid, and how often its container was started again."""
    return {
        pod["metadata"]["name"]: (pod["metadata"]["uid"], pod["status"]["containerStatuses"][0]["restartCount"])
        for pod in user.pods(job)
        if pod["status"]["phase"] == "Running"
    }


def leaving(run: Kubectl, kinds: str) -> list[str]:
    """Return the objects that are terminating."""
    items = json.loads(run("get", kinds, "--output", "json"))["items"]
    return [item["metadata"]["name"] for item in items if "deletionTimestamp" in item["metadata"]]


def kept_by_helm(home: Kubectl) -> int:
    """The bytes of the biggest Secret in which Helm keeps the release; the API server takes 1 MiB."""
    items = json.loads(home("get", "secrets", "--selector", f"owner=helm,name={NAME}", "--output", "json"))["items"]
    return max(len(base64.b64decode(item["data"]["release"])) for item in items)


def acts(home: Kubectl, log: str = "info") -> None:
    """Return once the operator is there as it is to be: all its replicas, of which one leads."""
    home("rollout", "status", f"deployment/{NAME}", f"--timeout={PATIENCE}s", timeout=PATIENCE + 10)
    flags = home("get", f"deployment/{NAME}", "--output", "jsonpath={.spec.template.spec.containers[0].args}")
    assert f"--log-level={log}" in flags
    pods = lambda: home("get", "pods", "--output", "jsonpath={.items[*].metadata.name}").split()  # noqa: E731 - asked again
    holder = lambda: home("get", "lease", NAME, "--output", "jsonpath={.spec.holderIdentity}")  # noqa: E731 - the same
    eventually(lambda: holder().partition("_")[0] in pods(), PATIENCE, every=0.5)


def run_long(user: UserClient) -> dict[str, tuple[str, int]]:
    """The pods of a job of two workers that goes on for longer than the test does."""
    job = tfjob(LONG, Worker=2)
    spec = pod_spec(job, "Worker")
    spec["containers"][0] |= {"image": PYTHON, "command": ["sleep", "3600"], "imagePullPolicy": "IfNotPresent"}
    spec["terminationGracePeriodSeconds"] = 0
    user.create(job)
    eventually(lambda: len(lives(user, LONG)) == 2, PATIENCE, every=0.5)
    return lives(user, LONG)


@pytest.mark.long
def test_jobs_do_not_mind_what_becomes_of_the_release(
    kubeconfig: str, kubectl: Kubectl, user: UserClient, home: Kubectl, values: Path
) -> None:
    three, four = Helm(3, kubeconfig), Helm(4, kubeconfig)
    long = run_long(user)

    four("uninstall", NAME, "--wait")
    eventually(lambda: not home("get", "deployments,pods", "--output", "name"), PATIENCE, every=0.5)
    assert lives(user, LONG) == long
    assert leaving(kubectl, f"pods,services,configmaps,{KINDS}") == []
    user.create(tfjob("unmanaged", Worker=1))
    user.delete_job("TFJob", "unmanaged")
    eventually(lambda: user.job("TFJob", "unmanaged") is None)

    assert "distributed-pytorch-job.yaml" in three.install(values)
    acts(home)
    assert kept_by_helm(home) < 600_000
    kubectl("create", "-f", str(FIRST_JOB))
    eventually(lambda: len(lives(user, FIRST)) == 3, PATIENCE, every=0.5)
    first = lives(user, FIRST)

    three.upgrade(values, "log.level=debug")
    acts(home, log="debug")
    assert lives(user, LONG) == long
    three("rollback", NAME, "1")
    acts(home)
    assert lives(user, LONG) == long
    eventually(lambda: user.state("PyTorchJob", FIRST) == "Succeeded", PATIENCE, every=0.5)
    assert {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in user.pods(FIRST)} == {
        name: uid for name, (uid, _) in first.items()
    }
    assert not user.job("PyTorchJob", FIRST)["status"].get("restarts")
    assert complaints(home) == []

    three("uninstall", NAME, "--wait")
    four.install(values)
    acts(home)
    assert lives(user, LONG) == long
    user.delete("pods", f"{LONG}-worker-1", grace=0)
    # The operator manages the job and starts it again as a whole.
    eventually(lambda: not set(lives(user, LONG).items()) & set(long.items()), PATIENCE, every=0.5)
    eventually(lambda: lives(user, LONG).keys() == long.keys(), PATIENCE, every=0.5)
