"""Jobs that the real MultiKueue sends to a second cluster, where another operator runs them."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from support.fake_kubelet import FakeKubelet, Times
from support.jobs import tfjob
from support.kueue import API, FRAMEWORKS, NAMESPACE, Kueue, Queues
from support.kueue_jobs import ROLES, KueueUser, pair, queued
from support.live_pods import LivePods
from support.operator import Operator
from support.planes import change_to_v2beta1
from support.user_client import UserClient, eventually

from .conftest import Bed, running_bed

#: Two control planes, each with Kueue and the operator, take a minute to start.
pytestmark = pytest.mark.long
VERSION, NAME = "kueue.x-k8s.io/v1beta2", "second"
#: MultiKueue connects to a cluster only if that has the CRDs of all kinds that are switched on.
FRAMEWORKS_SERVED = {"frameworks": [*FRAMEWORKS, "kubeflow.org/mpijob"]}
#: The webhook of Kueue 0.19.2 refuses its own copy of a JAXJob: prebuilt-workload-name "is not supported" there.
KINDS = [kind for kind in ROLES if kind != "JAXJob"]


@pytest.fixture(scope="module")
def operator_flags() -> tuple[str, ...]:
    """The MPIJobs that Kueue knows are v2beta1's."""
    return ("--mpi-version=v2beta1",)


@pytest.fixture(scope="module")
def second(operator_flags: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """The cluster that runs the jobs, with Kueue and an operator."""
    folder = tmp_path_factory.mktemp("second")
    with running_bed(folder) as bed:
        change_to_v2beta1(bed.plane)
        with Kueue.installed(bed.plane, bed.services, folder / "kueue"):
            operator = Operator(bed.kubeconfig, folder, "--no-leader-elect", *operator_flags).start()
            yield bed
            assert operator.stop() == 0
            assert operator.complaints() == []


@pytest.fixture(scope="module")
def kueue(bed: Bed, second: Bed) -> Iterator[Kueue]:
    """Kueue in the cluster of the users, which sends their jobs to the second one."""
    change_to_v2beta1(bed.plane)
    with Kueue.installed(bed.plane, bed.services, bed.folder / "kueue", integrations=FRAMEWORKS_SERVED) as kueue:
        content = base64.b64encode(self_contained(second.kubeconfig).encode()).decode()
        secret = {"metadata": {"name": NAME}, "data": {"kubeconfig": content}}
        kueue.admin.call("POST", f"/api/v1/namespaces/{NAMESPACE}/secrets", secret)
        source = {"kubeConfig": {"location": NAME, "locationType": "Secret"}}
        config = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": NAME}
        for kind, spec in (
            ("MultiKueueCluster", {"clusterSource": source}),
            ("MultiKueueConfig", {"clusters": [NAME]}),
            ("AdmissionCheck", {"controllerName": "kueue.x-k8s.io/multikueue", "parameters": config}),
        ):
            body = {"apiVersion": VERSION, "kind": kind, "metadata": {"name": NAME}, "spec": spec}
            kueue.admin.call("POST", f"{API}/{kind.lower()}s", body)
        eventually(lambda: _active(kueue.admin), 60)
        yield kueue


@pytest.fixture
def users(bed: Bed, second: Bed, kueue: Kueue, operator: Operator) -> tuple[UserClient, UserClient]:
    """A user in the same namespace of both clusters, with a quota for four pods in each."""
    user = KueueUser.somewhere(bed.kubeconfig)
    remote = KueueUser(second.kubeconfig, user.namespace)
    remote.make_namespace()
    Queues(remote, 4)
    Queues(user, 4, admissionChecksStrategy={"admissionChecks": [{"name": NAME}]})
    return user, remote


def self_contained(kubeconfig: Path) -> str:
    """The text of a kubeconfig with its certificates inside: MultiKueue accepts no paths."""
    config = yaml.safe_load(kubeconfig.read_text())
    for entry in (config["clusters"][0]["cluster"], config["users"][0]["user"]):
        for key in ("certificate-authority", "client-certificate", "client-key"):
            if key in entry:
                entry[f"{key}-data"] = base64.b64encode(Path(entry.pop(key)).read_bytes()).decode()
    return yaml.safe_dump(config)


def _active(admin: UserClient) -> bool:
    conditions = admin.call("GET", f"{API}/admissionchecks/{NAME}").get("status", {}).get("conditions", [])
    return any(each["type"] == "Active" and each["status"] == "True" for each in conditions)


def test_jobs_of_five_kinds_run_in_the_second_cluster_and_their_status_is_mirrored(users):
    user, remote = users
    bodies = [pair(kind, kind.lower()) for kind in KINDS]
    times = {"mpijob-worker-0": Times()}
    with LivePods(user) as local, FakeKubelet(remote, lambda name: times.get(name, Times(runs=4))) as nodes:
        for body in bodies:
            created = user.create(body)
            assert created["spec"]["runPolicy"]["managedBy"] == "kueue.x-k8s.io/multikueue"
        eventually(lambda: all(_is(user, "Succeeded", kind, kind.lower()) for kind in KINDS), 180)
        eventually(lambda: not any(remote.jobs(kind) for kind in KINDS), 30)
    assert local.created == []
    assert nodes.peak <= 4
    assert len(nodes.created) == 2 * len(KINDS)


def test_a_job_that_fails_in_the_second_cluster_says_why_in_the_first(users):
    user, remote = users
    with FakeKubelet(remote, lambda _: Times(runs=1, code=3)):
        user.create(queued(tfjob("fails", Worker=1)))
        message = eventually(lambda: user.conditions("TFJob", "fails").get("Failed", {}).get("message"), 60)
    assert "exited with code 3" in str(message)


def test_a_job_that_is_deleted_while_it_runs_leaves_nothing_in_the_second_cluster(users):
    user, remote = users
    with FakeKubelet(remote, lambda _: Times()):
        user.create(queued(tfjob("deleted", Worker=2)))
        eventually(lambda: _is(user, "Running", "TFJob", "deleted"), 60)
        user.delete_job("TFJob", "deleted")
        eventually(lambda: remote.jobs("TFJob") == [] and remote.pods() == [], 60)


def _is(user: UserClient, condition: str, kind: str, name: str) -> bool:
    """Return whether a condition of the mirrored status is true; MultiKueue does not copy the field `state`."""
    return user.conditions(kind, name).get(condition, {}).get("status") == "True"
