"""Trainings report to two replicas by tokens of a real API server, under the rights that the overlay grants."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import urllib3

from integration.security.rights import Right
from integration.security.used_rights import used_rights
from support import FakeKubelet, Operator, UserClient
from support.jobs import pytorchjob
from support.kubectl import kubectl
from support.planes import CRDS, ready_control_plane
from support.user_client import eventually
from testbed.control_plane import ControlPlane
from testbed.ports import free_port
from trainshed.plan.reporting_pods import FOLDER, VOLUME, audience

OVERLAY = CRDS.parent / "manifests" / "overlays" / "progress"
SYSTEM = "trainshed-system"
ACCOUNT = f"system:serviceaccount:{SYSTEM}:trainshed"
HOST = f"trainshed-progress.{SYSTEM}.svc"
REPORTS = {"trainshed.dev/progress": "Endpoint"}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane on which the operator is installed with the endpoint."""
    with ready_control_plane(tmp_path_factory.mktemp("reports")) as plane:
        done = kubectl(plane, UserClient(plane.kubeconfig, SYSTEM), "apply", "-k", str(OVERLAY))
        assert done.returncode == 0, done.stderr
        yield plane


@pytest.fixture(scope="module")
def ports(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """The ports of two replicas, of which the first leads."""
    account = plane.kubeconfig_for(ACCOUNT, ("system:serviceaccounts", "system:authenticated"))
    found = free_port(), free_port()
    replicas = []
    for port in found:
        flags = (f"--progress-server={HOST}:10443", f"--progress-bind-address=127.0.0.1:{port}")
        folder = tmp_path_factory.mktemp("operator")
        replicas.append(Operator(account, folder, *flags, f"--lease-namespace={SYSTEM}").start())
        if len(replicas) == 1:
            eventually(lambda: "trainshed_leader 1.0" in replicas[0].served(), 30)
    yield found
    for replica in replicas:
        assert replica.stop() == 0
        assert replica.complaints() == []


@pytest.fixture
def user(plane: ControlPlane, ports: tuple[int, int]) -> UserClient:
    """A user in a namespace of its own."""
    return UserClient.somewhere(plane.kubeconfig)


@pytest.fixture
def kubelet(user: UserClient) -> Iterator[FakeKubelet]:
    """The namespace's pods run as soon as they are made."""
    with FakeKubelet(user) as kubelet:
        yield kubelet


def running(user: UserClient, name: str, annotations: dict[str, str] = REPORTS) -> dict:
    """The pod of a job of one replica, once it runs."""
    job = pytorchjob(name, Master=1)
    job["metadata"]["annotations"] = annotations
    user.create(job)
    eventually(lambda: user.state("PyTorchJob", name) == "Running", 20)
    (pod,) = user.pods(name)
    return pod


def token(user: UserClient, pod: dict, wanted: str) -> str:
    """What the kubelet would project into a pod."""
    reference = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
    spec = {"audiences": [wanted], "expirationSeconds": 3600, "boundObjectRef": reference}
    path = f"/api/v1/namespaces/{user.namespace}/serviceaccounts/default/token"
    return user.call("POST", path, {"spec": spec})["status"]["token"]


def projected(pod: dict) -> str:
    """The audience of the token that the kubelet projects."""
    (volume,) = (volume for volume in pod["spec"]["volumes"] if volume["name"] == VOLUME)
    return volume["projected"]["sources"][0]["serviceAccountToken"]["audience"]


def post(user: UserClient, port: int, job: str, bearer: str, **report: object) -> int:
    """Send a report to a replica, by the CA that the pods of the job have; return the code of the answer."""
    (config,) = (item for item in user.core("configmaps") if item["metadata"]["name"] == f"{job}-pytorchjob-progress")
    tls = urllib3.util.ssl_.create_urllib3_context()
    tls.load_verify_locations(cadata=config["data"]["ca.crt"])
    pool = urllib3.HTTPSConnectionPool("127.0.0.1", port, ssl_context=tls, server_hostname=HOST, assert_hostname=HOST)
    with pool:
        body = json.dumps({"trainerStatus": report})
        headers = {"Authorization": f"Bearer {bearer}", "Content-Type": "application/json"}
        path = f"/apis/{audience(user.namespace, job)}"
        return pool.request("POST", path, body=body, headers=headers, retries=False).status


def reported(user: UserClient, name: str) -> dict:
    return (user.job("PyTorchJob", name) or {}).get("status", {}).get("trainerStatus", {})


def test_a_pod_reports_to_the_leader_and_by_the_other_replica(
    plane: ControlPlane, ports: tuple[int, int], user: UserClient, kubelet: FakeKubelet
):
    pod = running(user, "m")
    variables = {entry["name"]: entry.get("value") for entry in pod["spec"]["containers"][0]["env"]}
    assert variables["KUBEFLOW_TRAINER_SERVER_URL"] == f"https://{HOST}:10443/apis/{audience(user.namespace, 'm')}"
    assert variables["KUBEFLOW_TRAINER_SERVER_TOKEN"] == f"{FOLDER}/token"
    bearer = token(user, pod, projected(pod))
    leader, standby = ports
    assert post(user, leader, "m", bearer, progressPercentage=10) == 200
    eventually(lambda: reported(user, "m").get("progressPercentage") == 10, 20)
    assert post(user, standby, "m", bearer, progressPercentage=20) == 200
    eventually(lambda: reported(user, "m").get("progressPercentage") == 20, 40)
    rights = used_rights(plane.audit_log, ACCOUNT)
    assert rights.refused == set()
    assert Right("authentication.k8s.io", "tokenreviews", "create") in rights.used
    assert {right.verb for right in rights.used if right.resource == "secrets"} == {"get", "update"}


def test_who_may_not_report_is_refused_and_the_owner_of_the_job_learns_it(
    ports: tuple[int, int], user: UserClient, kubelet: FakeKubelet
):
    pod, other = running(user, "mine"), running(user, "yours")
    leader, standby = ports
    for_mine, for_yours = (audience(user.namespace, name) for name in ("mine", "yours"))
    assert post(user, leader, "mine", token(user, other, for_yours), progressPercentage=1) == 403, "another audience"
    assert post(user, standby, "mine", token(user, other, for_mine), progressPercentage=1) == 403, "another job's pod"
    assert post(user, leader, "mine", "no token", progressPercentage=1) == 403
    assert post(user, leader, "mine", token(user, pod, for_mine), progressPercentage=101) == 422
    assert reported(user, "mine") == reported(user, "yours") == {}

    expected = {"BadToken", "Malformed"}

    def refusals(name: str) -> set[str]:
        return {words for _, reason, words in user.events(name) if reason == "ProgressReportRefused"}

    eventually(lambda: {words.partition(")")[0].partition("(")[2] for words in refusals("mine")} == expected, 20)
    eventually(lambda: ["OtherJob" in words for words in refusals("yours")] == [True], 20)


def test_the_token_of_a_deleted_pod_is_refused(ports: tuple[int, int], user: UserClient, kubelet: FakeKubelet):
    pod = running(user, "m")
    bearer = token(user, pod, projected(pod))
    assert post(user, ports[0], "m", bearer, progressPercentage=1) == 200
    user.call("DELETE", f"/api/v1/namespaces/{user.namespace}/pods/{pod['metadata']['name']}?gracePeriodSeconds=0")
    eventually(lambda: post(user, ports[0], "m", bearer, progressPercentage=2) == 403, 10)


def test_pods_of_jobs_that_do_not_ask_get_nothing(user: UserClient, kubelet: FakeKubelet):
    pod = running(user, "m", {})
    assert "KUBEFLOW" not in json.dumps(pod)
    assert [item for item in user.core("configmaps") if item["metadata"]["name"] != "kube-root-ca.crt"] == []
