"""The objects of an MPIJob besides its workers: launcher, ConfigMap and RBAC (TO-106 to TO-112)."""

from __future__ import annotations

import pytest

from support import FakeKubelet, UserClient
from support.jobs import job, pod_spec
from support.pods import container
from support.user_client import eventually

from .created_objects import RBAC, created_pods, list_by_name, owners, pods, services, variables
from .row import differs, same

pytestmark = pytest.mark.usefixtures("operator")

MPI = "MPIJob"
ALL = ("m-launcher", "m-worker-0", "m-worker-1")


def run(**spec: object) -> dict:
    """An MPIJob `m` of a launcher and two workers of four slots."""
    wanted = job(MPI, "m", Launcher=1, Worker=2)
    wanted["spec"] |= {"slotsPerWorker": 4} | spec
    return wanted


def launching(wanted: dict, **fields: object) -> dict:
    """The same with something changed in the launcher's container."""
    pod_spec(wanted, "Launcher")["containers"][0].update(fields)
    return wanted


def data(user: UserClient) -> dict[str, str]:
    """Return the data of the job's ConfigMap, once it exists."""
    return eventually(lambda: list_by_name(user, "configmaps").get("m-config"))["data"]


@differs("TO-106", "D74", "v1's objects, the launcher with its workers, and a Role of its own pods only")
def test_a_launcher_its_configuration_and_its_rights(user: UserClient):
    created_pods(user, run(), *ALL)
    eventually(lambda: len(_owned(user)["roles"]["rules"]) == 3)  # the workers are named once their pods exist
    made = _owned(user)
    for found in made.values():
        assert found["metadata"]["ownerReferences"] == owners(user, MPI, "m")
        assert found["metadata"]["labels"]["app"] == "m"
    assert made["configmaps"]["metadata"]["name"] == "m-config"
    assert {found["metadata"]["name"] for kind, found in made.items() if kind != "configmaps"} == {"m-launcher"}
    assert made["configmaps"]["data"]["hostfile"] == "m-worker-0 slots=4\nm-worker-1 slots=4\n"
    assert made["roles"]["rules"] == [
        {"apiGroups": [""], "resources": [resource], "verbs": verbs, "resourceNames": named}
        for resource, verbs, named in (
            ("configmaps", ["get"], ["m-config"]),
            ("pods", ["get", "list", "watch"], ["m-worker-0", "m-worker-1"]),  # v1: all pods of the namespace
            ("pods/exec", ["create"], ["m-worker-0", "m-worker-1"]),
        )
    ]
    assert made["rolebindings"]["roleRef"] == {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "Role",
        "name": "m-launcher",
    }
    subject = {"kind": "ServiceAccount", "name": "m-launcher", "namespace": user.namespace}
    assert made["rolebindings"]["subjects"] == [subject]
    with FakeKubelet(user):
        launcher = pods(user, *ALL)["m-launcher"]
    assert launcher["spec"]["serviceAccountName"] == "m-launcher"
    assert launcher["metadata"]["ownerReferences"] == owners(user, MPI, "m")
    assert services(user) == {}


@same("TO-107", "a launcher with a GPU, by whatever name, is the first host, and NVIDIA_* stay away")
@pytest.mark.usefixtures("kubelet")
@pytest.mark.parametrize(
    ("resource", "computes"),
    [("nvidia.com/gpu", True), ("example.org/big-gpus", True), ("vendor-domain/resourcetype", False)],
)
def test_a_launcher_with_a_gpu_is_a_host(user: UserClient, resource: str, computes: bool):
    made = created_pods(user, launching(run(), resources={"limits": {resource: "1"}}), *ALL)
    assert (data(user)["hostfile"].splitlines()[0] == "m-launcher slots=4") is computes
    hidden = {name for name, _ in variables(made["m-launcher"]) if name.startswith("NVIDIA_")}
    assert hidden == (set() if computes else {"NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"})


@same("TO-108", "discover_hosts.sh lists no worker at first, and each worker once it runs")
def test_the_script_tells_who_runs(user: UserClient):
    user.create(run())
    assert data(user)["discover_hosts.sh"] == "#!/bin/sh"
    with FakeKubelet(user, script=lambda name: "Running" if name == "m-worker-0" else ""):
        eventually(lambda: data(user)["discover_hosts.sh"] == "#!/bin/sh\necho m-worker-0:4")


@same("TO-109", "mainContainer is the container that kubexec.sh enters")
def test_the_main_container_is_entered(user: UserClient):
    user.create(run(mainContainer="main"))
    assert " --container main " in data(user)["kubexec.sh"]


@same("TO-110", "a worker without a command sleeps for a year; one with a command keeps it")
@pytest.mark.parametrize(
    ("command", "expected"),
    [(None, (["sleep"], ["365d"])), (["/usr/sbin/sshd", "-De"], (["/usr/sbin/sshd", "-De"], None))],
)
def test_a_worker_sleeps(user: UserClient, command: list | None, expected: tuple):
    wanted = run()
    if command:
        pod_spec(wanted, "Worker")["containers"][0]["command"] = command
    found = created_pods(user, wanted, *ALL)
    for pod in (found["m-worker-0"], found["m-worker-1"]):
        assert (container(pod)["command"], container(pod).get("args")) == expected


@same("TO-111", "Intel MPI's launcher is set to kubexec.sh, as far as the template does not set it")
@pytest.mark.usefixtures("kubelet")
@pytest.mark.parametrize(
    "preset",
    [
        {},
        {"I_MPI_HYDRA_BOOTSTRAP": "RSH"},
        {"I_MPI_HYDRA_BOOTSTRAP_EXEC": "/script.sh"},
        {"I_MPI_HYDRA_BOOTSTRAP": "RSH", "I_MPI_HYDRA_BOOTSTRAP_EXEC": "/script.sh"},
    ],
    ids=lambda preset: "+".join(preset) or "none",
)
def test_intels_variables(user: UserClient, preset: dict):
    wanted = launching(run(), env=[{"name": name, "value": value} for name, value in preset.items()])
    found = [pair for pair in variables(created_pods(user, wanted, *ALL)["m-launcher"]) if pair[0].startswith("I_MPI_")]
    own = {"I_MPI_HYDRA_BOOTSTRAP": "rsh", "I_MPI_HYDRA_BOOTSTRAP_EXEC": "/etc/mpi/kubexec.sh"}
    assert sorted(found) == sorted((own | preset).items())


@differs("TO-112", "D74", "a service account that the launcher names is used, and gets no right to exec")
@pytest.mark.usefixtures("kubelet")
def test_a_launchers_own_account_is_used(user: UserClient):
    before = user.make("serviceaccounts", {"metadata": {"name": "launcher-sa"}})
    wanted = run()
    pod_spec(wanted, "Launcher")["serviceAccountName"] = "launcher-sa"
    launcher = created_pods(user, wanted, *ALL)["m-launcher"]
    assert launcher["spec"]["serviceAccountName"] == "launcher-sa"
    accounts = list_by_name(user, "serviceaccounts")
    assert set(accounts) == {"default", "launcher-sa"}
    assert accounts["launcher-sa"]["metadata"] == before["metadata"]
    assert list_by_name(user, "rolebindings", RBAC) == {}, "other pods may use the account, so it gets no right to exec"


def _owned(user: UserClient) -> dict[str, dict]:
    """The one object of each kind that is neither Kubernetes' own nor a pod."""
    kinds = {"serviceaccounts": "/api/v1", "configmaps": "/api/v1", "roles": RBAC, "rolebindings": RBAC}
    found = {}
    for plural, group in kinds.items():
        own = list_by_name(user, plural, group)
        (found[plural],) = (own[name] for name in own if name not in ("default", "kube-root-ca.crt"))
    return found
