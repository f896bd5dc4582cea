"""A proxy that an admission policy puts before the containers of every pod does not decide, on a real API server."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator

import pytest

from support.fake_kubelet import FakeKubelet
from support.reported import documents
from support.user_client import MERGE, UserClient, eventually
from testbed.releases import minor_version

pytestmark = [
    pytest.mark.usefixtures("shared_operator"),
    pytest.mark.skipif(minor_version() in {"1.30", "1.33", "1.35"}, reason="serves no MutatingAdmissionPolicy v1"),
]

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POLICY, BINDING, JOB = documents("10-proxy-first")


@pytest.fixture
def injected(user: UserClient) -> Iterator[UserClient]:
    """A user in a namespace whose pods get the proxy as their first container."""
    name, label = f"proxy-first-{user.namespace}", {"inject": user.namespace}
    policy = copy.deepcopy(POLICY) | {"metadata": {"name": name}}
    policy["spec"]["matchConstraints"]["namespaceSelector"] = {"matchLabels": label}
    user.call("PATCH", f"/api/v1/namespaces/{user.namespace}", {"metadata": {"labels": label}}, MERGE)
    user.call("POST", f"{ADMISSION}/mutatingadmissionpolicies", policy)
    binding = BINDING | {"metadata": {"name": name}, "spec": {"policyName": name}}
    user.call("POST", f"{ADMISSION}/mutatingadmissionpolicybindings", binding)
    probe = {"metadata": {"name": "probe"}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    eventually(lambda: first_container(user.call("POST", pods(user, "?dryRun=All"), probe)) == "proxy", 30)
    yield user
    user.call("DELETE", f"{ADMISSION}/mutatingadmissionpolicybindings/{name}")
    user.call("DELETE", f"{ADMISSION}/mutatingadmissionpolicies/{name}")


def pods(user: UserClient, query: str) -> str:
    return f"/api/v1/namespaces/{user.namespace}/pods{query}"


def first_container(pod: dict) -> str:
    return pod["spec"]["containers"][0]["name"]


def status(phase: str, **codes: int | None) -> dict:
    """Return the status of a pod whose containers have ended with these codes, or run; sorted, as a kubelet does."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    found = []
    for name, code in sorted(codes.items()):
        ended = {"exitCode": code, "reason": "Error" if code else "Completed", "startedAt": now, "finishedAt": now}
        state = {"running": {"startedAt": now}} if code is None else {"terminated": ended}
        common = {"name": name, "ready": code is None, "restartCount": 0, "image": "", "imageID": ""}
        found.append(common | {"state": state})
    return {"phase": phase, "containerStatuses": found}


@pytest.mark.reported("10-proxy-first")
@pytest.mark.parametrize(
    ("phase", "codes", "expected"),
    [
        ("Failed", {"main": 1, "proxy": 0}, "Failed"),
        ("Running", {"main": 1, "proxy": None}, "Failed"),
        ("Running", {"main": 0, "proxy": None}, "Succeeded"),
        ("Failed", {"main": 0, "proxy": 137}, "Succeeded"),
    ],
)
def test_mpirun_decides_though_a_proxy_is_the_first_container(
    injected: UserClient, phase: str, codes: dict, expected: str
):
    with FakeKubelet(injected):
        injected.create(copy.deepcopy(JOB))
        eventually(lambda: injected.state("MPIJob", "ring") == "Running", 20)
        launcher = injected.pod("ring-launcher")
        assert launcher is not None
        assert first_container(launcher) == "proxy"
        injected.set_pod_status("ring-launcher", status("Running", main=None, proxy=None))
        injected.set_pod_status("ring-launcher", status(phase, **codes))
        eventually(lambda: injected.state("MPIJob", "ring") == expected, 20)
