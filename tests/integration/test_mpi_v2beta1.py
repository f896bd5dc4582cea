"""MPIJobs of v2beta1 on a real API server, installed as docs/kinds/mpijob.md says, under the rights of the profile."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator

import pytest
from cryptography.hazmat.primitives import serialization

from integration.security.rights import Right
from integration.security.used_rights import used_rights
from support import FakeKubelet, Operator, UserClient
from support.jobs import job
from support.kubectl import kubectl
from support.planes import CRDS, V2BETA1, change_to_v2beta1, ready_control_plane
from support.user_client import MERGE, Refused, always, eventually
from testbed.control_plane import ControlPlane

PROFILE = CRDS.parent / "manifests" / "overlays" / "mpi-v2beta1"
ACCOUNT = "system:serviceaccount:trainshed-system:trainshed"
MPI, LABEL = "MPIJob", "training.kubeflow.org/"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane on which v1's MPIJob has made room for the other, and the operator is installed."""
    with ready_control_plane(tmp_path_factory.mktemp("v2beta1")) as plane:
        change_to_v2beta1(plane)
        done = kubectl(plane, UserClient(plane.kubeconfig, "trainshed-system"), "apply", "-k", str(PROFILE))
        assert done.returncode == 0, done.stderr
        yield plane


@pytest.fixture(scope="module")
def operator(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """The operator with the flag and the rights that the profile gives it."""
    account = plane.kubeconfig_for(ACCOUNT, ("system:serviceaccounts", "system:authenticated"))
    flags = ("--mpi-version=v2beta1", "--lease-namespace=trainshed-system")
    operator = Operator(account, tmp_path_factory.mktemp("operator"), *flags).start()
    yield operator
    assert operator.stop() == 0
    assert operator.complaints() == []


@pytest.fixture
def user(plane: ControlPlane, operator: Operator) -> UserClient:
    """A user in a namespace of its own."""
    return UserClient.somewhere(plane.kubeconfig, V2BETA1)


@pytest.fixture
def kubelet(user: UserClient) -> Iterator[FakeKubelet]:
    """The namespace's pods run as soon as they are made."""
    with FakeKubelet(user) as kubelet:
        yield kubelet


def mpijob(name: str = "m", workers: int = 2, policy: dict | None = None, **spec: object) -> dict:
    """An MPIJob of v2beta1, all else left open."""
    found = job(MPI, name, policy=policy, restart=None, Launcher=None, Worker=workers)
    found["spec"].update(spec)
    return found | {"apiVersion": "kubeflow.org/v2beta1"}


def running(user: UserClient, found: dict, within: float = 20) -> dict:
    """The job, once it runs."""
    user.create(found)
    kind, name = found["kind"], found["metadata"]["name"]
    eventually(lambda: user.state(kind, name) == "Running", within)
    return user.job(kind, name) or {}


def secrets(user: UserClient) -> list[dict]:
    return user.core("secrets")


def config(user: UserClient) -> dict:
    return next(item["data"] for item in user.core("configmaps") if item["metadata"]["name"] == "m-config")


def everything(user: UserClient) -> list[dict]:
    return [*secrets(user), *user.core("services"), *user.core("configmaps"), *user.pods(), *user.jobs(MPI)]


def names(items: list[dict]) -> list[str]:
    return sorted(item["metadata"]["name"] for item in items)


def test_whoever_creates_a_suspended_job_may_update_it_at_the_version_of_the_creation(user: UserClient):
    for name, change in (("resumed", {"suspend": False}), ("labelled", {"suspend": True})):
        created = user.create(mpijob(name, policy={"suspend": True}))
        time.sleep(0.3)
        created["spec"]["runPolicy"].update(change)
        created["metadata"]["labels"] = {"example.com/team": "a"}
        user.call("PUT", user.path(MPI, name), created)
    assert eventually(lambda: user.pods("resumed"), 20)
    eventually(lambda: user.state(MPI, "labelled") == "Suspended", 20)
    eventually(lambda: "MPIJobSuspended" in [reason for _, reason, _ in user.events("labelled")], 20)
    assert [reason for _, reason, _ in user.events("labelled")].count("MPIJobSuspended") == 1
    assert "MPIJobSuspended" not in [reason for _, reason, _ in user.events("resumed")]


def test_a_job_from_its_beginning_to_its_success(user: UserClient, kubelet: FakeKubelet):
    owner = running(user, mpijob(policy={"cleanPodPolicy": "All"}, slotsPerWorker=2))["metadata"]["uid"]
    assert sorted(kubelet.created) == ["m-launcher", "m-worker-0", "m-worker-1"]
    own = [*user.pods(), *secrets(user), *user.core("services")]
    for item in own:
        (reference,) = item["metadata"]["ownerReferences"]
        assert (reference["apiVersion"], reference["uid"]) == ("kubeflow.org/v2beta1", owner)
    (service,) = user.core("services")
    selector = {f"{LABEL}job-name": "m", f"{LABEL}operator-name": "mpi-operator"}
    assert (service["metadata"]["name"], service["spec"]["clusterIP"]) == ("m", "None")
    assert (service["spec"]["selector"], service["spec"]["publishNotReadyAddresses"]) == (selector, True)
    assert all(selector.items() <= pod["metadata"]["labels"].items() for pod in user.pods())
    hosts = [f"m-worker-{index}.m.{user.namespace}.svc" for index in range(2)]
    assert config(user)["hostfile"] == "".join(f"{host} slots=2\n" for host in hosts)
    assert config(user)["discover_hosts.sh"].splitlines()[1:] == [f"echo {host}" for host in hosts]
    events = eventually(lambda: user.core("events"), 10)
    assert {event["involvedObject"]["apiVersion"] for event in events} == {"kubeflow.org/v2beta1"}
    kubelet.end("m-launcher", 0)
    eventually(lambda: user.state(MPI, "m") == "Succeeded", 20)
    assert user.conditions(MPI, "m")["Succeeded"]["message"] == f"MPIJob {user.namespace}/m successfully completed."
    eventually(lambda: names(user.pods()) == ["m-launcher"], 20)
    always(lambda: names(user.pods()) == ["m-launcher"])


def test_the_ssh_keys_match_and_are_never_changed(user: UserClient, kubelet: FakeKubelet):
    running(user, mpijob())
    (secret,) = secrets(user)
    content = {name: base64.b64decode(text) for name, text in secret["data"].items()}
    assert secret["type"] == "kubernetes.io/ssh-auth"
    form = (serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    public = serialization.load_pem_private_key(content["ssh-privatekey"], None).public_key().public_bytes(*form)
    assert content["ssh-publickey"].strip() == public
    kubelet.evict("m-worker-0")
    eventually(lambda: sorted(kubelet.created[3:]) == ["m-launcher", "m-worker-0", "m-worker-1"], 20)
    eventually(lambda: user.state(MPI, "m") == "Running", 20)
    assert user.job(MPI, "m")["status"].get("restarts", 0) == 0, "an eviction is no failure"
    assert secrets(user) == [secret]


def test_a_recreated_job_gets_new_ssh_keys(user: UserClient, kubelet: FakeKubelet):
    running(user, mpijob())
    (old,) = names(secrets(user))
    user.delete_job(MPI, "m")
    running(user, mpijob(), within=60)  # the garbage collector takes half a minute to notice a new CRD
    (new,) = eventually(lambda: (found := names(secrets(user))) and len(found) == 1 and found, 60)
    assert new != old
    volumes = [volume for pod in user.pods() for volume in pod["spec"]["volumes"] if volume["name"] == "ssh-auth"]
    assert {volume["secret"]["secretName"] for volume in volumes} == {new}


def test_the_job_is_running_when_all_its_pods_run(user: UserClient):
    with FakeKubelet(user, lambda name: "" if name == "m-worker-1" else "Running") as kubelet:
        user.create(mpijob(launcherCreationPolicy="AtStartup"))
        eventually(lambda: len(kubelet.created) == 3)
        launcher = user.pod("m-launcher")
        assert [container["name"] for container in launcher["spec"]["initContainers"]] == ["wait-for-workers"]
        eventually(lambda: user.job(MPI, "m").get("status", {}).get("ready") == "2/3")
        always(lambda: user.state(MPI, "m") != "Running")
        user.bind("m-worker-1", "node-0")
        kubelet.run("m-worker-1")
        eventually(lambda: user.state(MPI, "m") == "Running")


def test_suspended_and_resumed(user: UserClient, kubelet: FakeKubelet):
    running(user, mpijob())
    keys = secrets(user)
    user.patch_job(MPI, "m", {"spec": {"runPolicy": {"suspend": True}}})
    eventually(lambda: user.state(MPI, "m") == "Suspended" and not user.pods() and not user.core("services"), 20)
    user.patch_job(MPI, "m", {"spec": {"runPolicy": {"suspend": False}}})
    eventually(lambda: user.state(MPI, "m") == "Running", 20)
    assert names(user.core("services")) == ["m"]
    assert secrets(user) == keys


def test_workers_are_scaled_and_the_hostfile_follows(user: UserClient, kubelet: FakeKubelet):
    running(user, mpijob())
    for count in (3, 1):
        user.patch_job(MPI, "m", {"spec": {"mpiReplicaSpecs": {"Worker": {"replicas": count}}}})
        eventually(lambda count=count: len(user.pods()) == count + 1, 20)
        eventually(lambda count=count: len(config(user)["hostfile"].splitlines()) == count)


def test_the_job_and_its_keys_are_deleted_after_the_ttl(user: UserClient, kubelet: FakeKubelet):
    running(user, mpijob(policy={"ttlSecondsAfterFinished": 1}))
    kubelet.end("m-launcher", 0)
    eventually(lambda: user.job(MPI, "m") is None, 20)
    eventually(lambda: not secrets(user) and not user.pods() and not user.core("services"), 30)


def test_a_launcher_that_fails_is_restarted_in_place_as_often_as_a_batch_job_would_be(
    user: UserClient, kubelet: FakeKubelet
):
    running(user, mpijob())
    assert user.pod("m-launcher")["spec"]["restartPolicy"] == "OnFailure"
    kubelet.restart_in_place("m-launcher", 5)
    always(lambda: user.state(MPI, "m") == "Running")
    kubelet.restart_in_place("m-launcher", 6)
    eventually(lambda: user.state(MPI, "m") == "Failed", 20)
    assert "backoff limit" in user.conditions(MPI, "m")["Failed"]["message"]
    eventually(lambda: user.pods() == [], 20)


def test_at_rest_nothing_is_written_and_other_kinds_run(plane: ControlPlane, user: UserClient, kubelet: FakeKubelet):
    running(user, mpijob())
    running(UserClient(plane.kubeconfig, user.namespace), job("TFJob", "tf", Worker=1))

    time.sleep(1)
    before = everything(user)
    always(lambda: everything(user) == before, 2)


@pytest.mark.fault("J1")
def test_a_foreign_service_of_that_name_is_reported(user: UserClient, kubelet: FakeKubelet):
    user.make("services", {"metadata": {"name": "m"}, "spec": {"ports": [{"port": 80}]}})
    user.create(mpijob())
    assert "service m" in eventually(lambda: user.conditions(MPI, "m").get("Blocked"), 20)["message"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mpiImplementation": "LAM"}, "mpiImplementation"),
        ({"launcherCreationPolicy": "Later"}, "launcherCreationPolicy"),
        ({"runPolicy": {"managedBy": "kubeflow.org/training-operator"}}, "managedBy"),
        ({"Worker": {"replicas": 0}}, "must be greater than or equal to 1"),
        ({"Launcher": {"replicas": 2}}, "must be 1"),
        ({"Launcher": {"restartPolicy": "Always"}}, "restartPolicy"),
    ],
)
def test_invalid_jobs_are_refused(user: UserClient, change: dict, message: str):
    found, ((key, value),) = mpijob(), change.items()
    replicas = found["spec"]["mpiReplicaSpecs"]
    if key in replicas:
        replicas[key].update(value)
    else:
        found["spec"][key] = value
    with pytest.raises(Refused, match=message):
        user.create(found)
    with pytest.raises(Refused, match="DNS-1035"):
        user.create(mpijob("1m"))


def test_the_operator_may_create_secrets_and_not_read_them(plane: ControlPlane, user: UserClient, kubelet: FakeKubelet):
    running(user, mpijob())
    assert (found := used_rights(plane.audit_log, ACCOUNT)).shows(Right("", "secrets", "create"))
    assert found.refused == frozenset()

    def may(verb: str, *resource: str) -> bool:
        return kubectl(plane, user, "auth", "can-i", verb, *resource, f"--as={ACCOUNT}").stdout.strip() == "yes"

    assert [verb for verb in ("create", "get", "list", "watch", "patch") if may(verb, "secrets")] == ["create"]
    assert not any(may("create", *what) for what in (("pods", "--subresource=exec"), ("roles",), ("serviceaccounts",)))
    (deployment,) = user.call("GET", "/apis/apps/v1/namespaces/trainshed-system/deployments")["items"]
    assert "--mpi-version=v2beta1" in deployment["spec"]["template"]["spec"]["containers"][0]["args"]


def test_a_crd_with_both_versions_is_refused(plane: ControlPlane, user: UserClient):
    """The API server cannot convert between the versions."""
    done = kubectl(plane, user, "apply", "-f", str(CRDS / "kubeflow.org_mpijobs.yaml"))
    assert done.returncode != 0
    assert "storedVersions" in done.stderr
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/mpijobs.kubeflow.org"
    assert [version["name"] for version in user.call("PATCH", path, {}, MERGE)["spec"]["versions"]] == ["v2beta1"]
