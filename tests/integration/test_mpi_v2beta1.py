"""MPIJobs of v2beta1 on a real API server, installed as docs/mpi.md says, under the rights of the profile."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator

import pytest
from cryptography.hazmat.primitives import serialization

from integration.security.rights import Right
from integration.security.used_rights import used_rights
from support import Hand, Operator, Stage
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
        done = kubectl(plane, Hand(plane.kubeconfig, "trainshed-system"), "apply", "-k", str(PROFILE))
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
def hand(plane: ControlPlane, operator: Operator) -> Hand:
    """A user's hand in a namespace of its own."""
    return Hand.somewhere(plane.kubeconfig, V2BETA1)


@pytest.fixture
def stage(hand: Hand) -> Iterator[Stage]:
    """The namespace's pods run as soon as they are made."""
    with Stage(hand) as stage:
        yield stage


def mpijob(name: str = "m", workers: int = 2, policy: dict | None = None, **spec: object) -> dict:
    """An MPIJob of v2beta1, all else left open."""
    found = job(MPI, name, policy=policy, restart=None, Launcher=None, Worker=workers)
    found["spec"].update(spec)
    return found | {"apiVersion": "kubeflow.org/v2beta1"}


def running(hand: Hand, found: dict, within: float = 20) -> dict:
    """The job, once it runs."""
    hand.create(found)
    kind, name = found["kind"], found["metadata"]["name"]
    eventually(lambda: hand.state(kind, name) == "Running", within)
    return hand.job(kind, name) or {}


def secrets(hand: Hand) -> list[dict]:
    return hand.core("secrets")


def config(hand: Hand) -> dict:
    return next(item["data"] for item in hand.core("configmaps") if item["metadata"]["name"] == "m-config")


def everything(hand: Hand) -> list[dict]:
    return [*secrets(hand), *hand.core("services"), *hand.core("configmaps"), *hand.pods(), *hand.jobs(MPI)]


def names(items: list[dict]) -> list[str]:
    return sorted(item["metadata"]["name"] for item in items)


def test_a_job_from_its_beginning_to_its_success(hand: Hand, stage: Stage):
    owner = running(hand, mpijob(policy={"cleanPodPolicy": "All"}, slotsPerWorker=2))["metadata"]["uid"]
    assert stage.created == ["m-worker-0", "m-worker-1", "m-launcher"]
    own = [*hand.pods(), *secrets(hand), *hand.core("services")]
    for item in own:
        (reference,) = item["metadata"]["ownerReferences"]
        assert (reference["apiVersion"], reference["uid"]) == ("kubeflow.org/v2beta1", owner)
    (service,) = hand.core("services")
    selector = {f"{LABEL}job-name": "m", f"{LABEL}operator-name": "mpi-operator"}
    assert (service["metadata"]["name"], service["spec"]["clusterIP"]) == ("m", "None")
    assert (service["spec"]["selector"], service["spec"]["publishNotReadyAddresses"]) == (selector, True)
    assert all(selector.items() <= pod["metadata"]["labels"].items() for pod in hand.pods())
    hosts = [f"m-worker-{index}.m.{hand.namespace}.svc" for index in range(2)]
    assert config(hand)["hostfile"] == "".join(f"{host} slots=2\n" for host in hosts)
    assert config(hand)["discover_hosts.sh"].splitlines()[1:] == [f"echo {host}" for host in hosts]
    events = eventually(lambda: hand.core("events"), 10)
    assert {event["involvedObject"]["apiVersion"] for event in events} == {"kubeflow.org/v2beta1"}
    stage.end("m-launcher", 0)
    eventually(lambda: hand.state(MPI, "m") == "Succeeded", 20)
    assert hand.conditions(MPI, "m")["Succeeded"]["message"] == f"MPIJob {hand.namespace}/m successfully completed."
    eventually(lambda: names(hand.pods()) == ["m-launcher"], 20)
    always(lambda: names(hand.pods()) == ["m-launcher"])


def test_the_keys_fit_together_and_are_never_changed(hand: Hand, stage: Stage):
    running(hand, mpijob())
    (secret,) = secrets(hand)
    content = {name: base64.b64decode(text) for name, text in secret["data"].items()}
    assert secret["type"] == "kubernetes.io/ssh-auth"
    form = (serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    public = serialization.load_pem_private_key(content["ssh-privatekey"], None).public_key().public_bytes(*form)
    assert content["ssh-publickey"].strip() == public
    stage.evict("m-worker-0")
    eventually(lambda: stage.created[3:] == ["m-worker-0", "m-worker-1", "m-launcher"], 20)
    eventually(lambda: hand.state(MPI, "m") == "Running", 20)
    assert hand.job(MPI, "m")["status"].get("restarts", 0) == 0, "an eviction is no failure"
    assert secrets(hand) == [secret]


def test_a_namesake_never_gets_the_keys_of_the_one_before(hand: Hand, stage: Stage):
    running(hand, mpijob())
    (old,) = names(secrets(hand))
    hand.delete_job(MPI, "m")
    running(hand, mpijob(), within=60)  # the garbage collector takes half a minute to notice a new CRD
    (new,) = eventually(lambda: (found := names(secrets(hand))) and len(found) == 1 and found, 60)
    assert new != old
    volumes = [volume for pod in hand.pods() for volume in pod["spec"]["volumes"] if volume["name"] == "ssh-auth"]
    assert {volume["secret"]["secretName"] for volume in volumes} == {new}


def test_it_runs_when_all_of_it_runs(hand: Hand):
    with Stage(hand, lambda name: "" if name == "m-worker-1" else "Running") as stage:
        hand.create(mpijob(launcherCreationPolicy="AtStartup"))
        eventually(lambda: len(stage.created) == 3)
        launcher = hand.pod("m-launcher")
        assert [container["name"] for container in launcher["spec"]["initContainers"]] == ["wait-for-workers"]
        eventually(lambda: hand.job(MPI, "m").get("status", {}).get("ready") == "2/3")
        always(lambda: hand.state(MPI, "m") != "Running")
        hand.bind("m-worker-1", "stage-0")
        stage.run("m-worker-1")
        eventually(lambda: hand.state(MPI, "m") == "Running")


def test_suspended_and_resumed(hand: Hand, stage: Stage):
    running(hand, mpijob())
    keys = secrets(hand)
    hand.patch_job(MPI, "m", {"spec": {"runPolicy": {"suspend": True}}})
    eventually(lambda: hand.state(MPI, "m") == "Suspended" and not hand.pods() and not hand.core("services"), 20)
    hand.patch_job(MPI, "m", {"spec": {"runPolicy": {"suspend": False}}})
    eventually(lambda: hand.state(MPI, "m") == "Running", 20)
    assert names(hand.core("services")) == ["m"]
    assert secrets(hand) == keys


def test_workers_come_and_go_with_their_number_and_the_hostfile_follows(hand: Hand, stage: Stage):
    running(hand, mpijob())
    for count in (3, 1):
        hand.patch_job(MPI, "m", {"spec": {"mpiReplicaSpecs": {"Worker": {"replicas": count}}}})
        eventually(lambda count=count: len(hand.pods()) == count + 1, 20)
        eventually(lambda count=count: len(config(hand)["hostfile"].splitlines()) == count)


def test_it_is_deleted_when_its_time_is_up_and_its_keys_with_it(hand: Hand, stage: Stage):
    running(hand, mpijob(policy={"ttlSecondsAfterFinished": 1}))
    stage.end("m-launcher", 0)
    eventually(lambda: hand.job(MPI, "m") is None, 20)
    eventually(lambda: not secrets(hand) and not hand.pods() and not hand.core("services"), 30)


def test_a_launcher_that_fails_is_restarted_in_place_as_often_as_a_batch_job_would_be(hand: Hand, stage: Stage):
    running(hand, mpijob())
    assert hand.pod("m-launcher")["spec"]["restartPolicy"] == "OnFailure"
    stage.restart_in_place("m-launcher", 5)
    always(lambda: hand.state(MPI, "m") == "Running")
    stage.restart_in_place("m-launcher", 6)
    eventually(lambda: hand.state(MPI, "m") == "Failed", 20)
    assert "backoff limit" in hand.conditions(MPI, "m")["Failed"]["message"]
    eventually(lambda: names(hand.pods()) == ["m-worker-0", "m-worker-1"], 20)


def test_at_rest_nothing_is_written_and_other_kinds_run_as_ever(plane: ControlPlane, hand: Hand, stage: Stage):
    running(hand, mpijob())
    running(Hand(plane.kubeconfig, hand.namespace), job("TFJob", "tf", Worker=1))

    time.sleep(1)
    before = everything(hand)
    always(lambda: everything(hand) == before, 2)


def test_somebody_elses_service_of_that_name_is_told_of(hand: Hand, stage: Stage):
    hand.make("services", {"metadata": {"name": "m"}, "spec": {"ports": [{"port": 80}]}})
    hand.create(mpijob())
    assert "service m" in eventually(lambda: hand.conditions(MPI, "m").get("Blocked"), 20)["message"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"mpiImplementation": "LAM"}, "mpiImplementation"),
        ({"launcherCreationPolicy": "Later"}, "launcherCreationPolicy"),
        ({"runPolicy": {"managedBy": "kubeflow.org/training-operator"}}, "managedBy"),
        ({"Worker": {"replicas": 0}}, "must be greater than or equal to 1"),
        ({"Launcher": {"replicas": 2}}, "must be 1"),
        ({"Launcher": {"restartPolicy": "Always"}}, "restartPolicy"),
    ],
)
def test_what_cannot_be_is_refused(hand: Hand, change: dict, told: str):
    found, ((key, value),) = mpijob(), change.items()
    replicas = found["spec"]["mpiReplicaSpecs"]
    if key in replicas:
        replicas[key].update(value)
    else:
        found["spec"][key] = value
    with pytest.raises(Refused, match=told):
        hand.create(found)
    with pytest.raises(Refused, match="DNS-1035"):
        hand.create(mpijob("1m"))


def test_the_operator_may_make_keys_and_not_read_any(plane: ControlPlane, hand: Hand, stage: Stage):
    running(hand, mpijob())
    assert (found := used_rights(plane.audit_log, ACCOUNT)).shows(Right("", "secrets", "create"))
    assert found.refused == frozenset()

    def may(verb: str, *resource: str) -> bool:
        return kubectl(plane, hand, "auth", "can-i", verb, *resource, f"--as={ACCOUNT}").stdout.strip() == "yes"

    assert [verb for verb in ("create", "get", "list", "watch", "patch") if may(verb, "secrets")] == ["create"]
    assert not any(may("create", *what) for what in (("pods", "--subresource=exec"), ("roles",), ("serviceaccounts",)))
    (deployment,) = hand.call("GET", "/apis/apps/v1/namespaces/trainshed-system/deployments")["items"]
    assert "--mpi-version=v2beta1" in deployment["spec"]["template"]["spec"]["containers"][0]["args"]


def test_a_crd_with_both_would_be_refused(plane: ControlPlane, hand: Hand):
    """Why one of them has to go: what is stored in the one version nobody can turn into the other."""
    done = kubectl(plane, hand, "apply", "-f", str(CRDS / "kubeflow.org_mpijobs.yaml"))
    assert done.returncode != 0
    assert "storedVersions" in done.stderr
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/mpijobs.kubeflow.org"
    assert [version["name"] for version in hand.call("PATCH", path, {}, MERGE)["spec"]["versions"]] == ["v2beta1"]
