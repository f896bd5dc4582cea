"""A store that is full, restored from a backup or compacted; a stale API server; and CRDs that are deleted."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from support import FakeKubelet, Operator, Refused, UserClient
from support.audit_log import requests
from support.jobs import pytorchjob, tfjob
from support.kubectl import kubectl_file
from support.planes import CRDS
from support.pods import uids
from support.tcp_proxy import TcpProxy
from support.user_client import always, eventually
from testbed.control_plane import ControlPlane
from testbed.processes import Process
from testbed.releases import program

from .etcd import Etcd

pytestmark = pytest.mark.apiserver

TFJOBS = CRDS / "kubeflow.org_tfjobs.yaml"
Begin = Callable[..., Operator]


def runs(user: UserClient, name: str, within: float = 30) -> None:
    eventually(lambda: user.state("TFJob", name) == "Running", within)


@pytest.mark.fault("D4")
def test_a_full_etcd_costs_only_time(second_server: ControlPlane, second_user: UserClient, begin: Begin):
    etcd = Etcd(second_server)
    operator = begin()
    with FakeKubelet(second_user) as kubelet:
        second_user.create(tfjob("before", Worker=2))
        runs(second_user, "before")
        made = uids(second_user.pods())
        etcd.restart(f"--quota-backend-bytes={etcd.size + 4 * 2**20}")
        try:
            fill(second_user)
            with pytest.raises(Refused, match="space exceeded"):
                second_user.create(tfjob("never", Worker=1))
            second_user.delete("configmaps", "ballast-0")  # deletes go on
            time.sleep(3)
            assert operator.alive
            for number in range(1, len(second_user.core("configmaps"))):
                with contextlib.suppress(Refused):
                    second_user.delete("configmaps", f"ballast-{number}")
            etcd.make_room()
            kubelet.end("before-worker-0", 0)
            eventually(lambda: second_user.state("TFJob", "before") == "Succeeded", 30)
            second_user.create(tfjob("after", Worker=2))
            runs(second_user, "after")
            assert made.items() <= uids(second_user.pods()).items()
        finally:
            etcd.restart()


def fill(user: UserClient) -> None:
    """Put in as much as there is room for."""
    body = {"data": {"x": "y" * 500_000}}
    for number in range(100):
        try:
            eventually(lambda name=f"ballast-{number}": put(user, body | {"metadata": {"name": name}}), 20)
        except Refused as refused:
            assert "space exceeded" in str(refused), refused  # noqa: PT017 - any other refusal is an error in the test
            return
    raise AssertionError("there is room without end")


def put(user: UserClient, body: dict) -> bool:
    """Make a ConfigMap; no answer is asked for again, until etcd is there."""
    try:
        user.make("configmaps", body)
    except Refused as refused:
        if "space exceeded" in str(refused):
            raise
        return refused.code == 409
    return True


@pytest.mark.fault("C14", "D5")
def test_a_restored_backup_of_etcd_is_reconciled(
    second_server: ControlPlane, second_user: UserClient, begin: Begin, tmp_path: Path
):
    operator = begin()
    with FakeKubelet(second_user) as kubelet:
        second_user.create(tfjob("old", Worker=2))
        runs(second_user, "old")
        made = uids(second_user.pods())
        Etcd(second_server).copy(tmp_path / "yesterday")
        runs(second_user, "old")
        second_user.create(tfjob("lost", Worker=2))
        eventually(lambda: second_user.state("TFJob", "lost") == "Running", 30)
        kubelet.end("old-worker-0", 0)
        eventually(lambda: second_user.state("TFJob", "old") == "Succeeded", 20)
        Etcd(second_server).put_back(tmp_path / "yesterday")
        assert second_user.job("TFJob", "lost") is None
        always(lambda: uids(second_user.pods()) == made, 8)
        second_user.create(tfjob("new", Worker=2))
        runs(second_user, "new")
        second_user.create(tfjob("lost", Worker=1))
        runs(second_user, "lost")
        kubelet.end("old-worker-0", 0)
        eventually(lambda: second_user.state("TFJob", "old") == "Succeeded", 20)
        assert made.items() <= uids(second_user.pods()).items()
    assert operator.complaints() == []


@pytest.mark.fault("D7")
def test_an_etcd_that_is_compacted_all_the_time_hides_nothing(
    second_server: ControlPlane, second_user: UserClient, begin: Begin
):
    begin()
    over, etcd = threading.Event(), Etcd(second_server)

    def compact() -> None:
        while not over.wait(0.3):
            with contextlib.suppress(AssertionError):  # nothing new since the last time
                etcd.compact()

    thread = threading.Thread(target=compact)
    thread.start()
    try:
        with FakeKubelet(second_user) as kubelet:
            for number in range(10):
                second_user.create(tfjob(f"a{number}", Worker=2))
            for number in range(10):
                runs(second_user, f"a{number}")
                kubelet.end(f"a{number}-worker-0", 0)
            eventually(lambda: all(second_user.state("TFJob", f"a{number}") == "Succeeded" for number in range(10)), 20)
            assert len(kubelet.created) == 20
    finally:
        over.set()
        thread.join()


@pytest.mark.fault("D6")
def test_a_stale_api_server_undoes_nothing(
    second_server: ControlPlane, second_user: UserClient, begin: Begin, tmp_path: Path
):
    """A second API server is cut off from etcd and serves the operator stale data; later it catches up."""
    with (
        TcpProxy.start(urlsplit(second_server.etcd_url).port) as store,
        TcpProxy.start(urlsplit(second_server.url).port) as line,
        FakeKubelet(second_user) as kubelet,
    ):
        second = behind(second_server, store)
        try:
            begin(kubeconfig=line.kubeconfig(second_server.kubeconfig_for("trainshed", ("system:masters",)), tmp_path))
            second_user.create(tfjob("again", Worker=2))
            runs(second_user, "again")
            store.frozen = True
            second_user.delete_job("TFJob", "again")
            eventually(lambda: not second_user.pods())
            second_user.create(tfjob("again", Worker=2))
            runs(second_user, "again")
            made = uids(second_user.pods())
            line.target = second
            line.cut()
            always(lambda: uids(second_user.pods()) == made, 5)
            store.frozen = False
            second_user.create(tfjob("more", Worker=2))
            runs(second_user, "more", 40)
            assert made.items() <= uids(second_user.pods()).items()
            assert len(kubelet.created) == 6
        finally:
            store.frozen = False
            Process("second", second_server.folder).stop()


def behind(plane: ControlPlane, store: TcpProxy) -> int:
    """Start another API server on the same store by that line; its port."""
    flags = [
        flag for flag in plane._apiserver_flags() if not flag.startswith(("--etcd-servers", "--secure-port", "--audit"))
    ]
    other = ControlPlane(plane.folder / "second-port")
    other.folder.mkdir(exist_ok=True)
    own = [f"--etcd-servers=http://127.0.0.1:{store.port}", f"--secure-port={urlsplit(other.url).port}"]
    process = Process("second", plane.folder)
    process.start([program("kube-apiserver"), *flags, *own], tied=True)
    other.authority = plane.authority
    process.wait(lambda: other._answers("/readyz"), 60)
    return urlsplit(other.url).port


@pytest.mark.fault("D9")
def test_a_crd_may_be_deleted_and_created_again(second_server: ControlPlane, second_user: UserClient, begin: Begin):
    operator = begin()
    with FakeKubelet(second_user):
        second_user.create(tfjob("goes", Worker=2))
        second_user.create(pytorchjob("stays", Master=1))
        runs(second_user, "goes")
        kubectl_file(second_server, "delete", TFJOBS)
        eventually(lambda: [pod["metadata"]["name"] for pod in second_user.pods()] == ["stays-master-0"], 60)
        second_user.create(pytorchjob("new", Master=1))
        eventually(
            lambda: second_user.state("PyTorchJob", "new") == second_user.state("PyTorchJob", "stays") == "Running"
        )
        kubectl_file(second_server, "apply", TFJOBS)
        eventually(lambda: second_user.serves(second_user.path("TFJob", "")), 30)
        second_user.create(tfjob("goes", Worker=2))
        runs(second_user, "goes")
    assert operator.alive
    assert operator.complaints() == []


@pytest.mark.fault("D9")
def test_a_missing_field_of_the_schema_is_tolerated_and_a_new_one_kept(
    second_server: ControlPlane, second_user: UserClient, begin: Begin, tmp_path: Path
):
    definition = yaml.safe_load(TFJOBS.read_text())
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    schema["spec"]["properties"]["future"] = {"type": "string"}
    del schema["status"]["properties"]["restarts"]
    (tmp_path / "crd.yaml").write_text(yaml.safe_dump(definition))
    kubectl_file(second_server, "replace", tmp_path / "crd.yaml")
    try:
        operator = begin()
        wanted = tfjob("odd", restart="ExitCode", Worker=2)
        wanted["spec"]["future"] = "theirs"
        eventually(lambda: try_create(second_user, wanted)["spec"].get("future") == "theirs", 20)
        with FakeKubelet(second_user) as kubelet:
            runs(second_user, "odd")
            kubelet.end("odd-worker-1", 137)
            eventually(
                lambda: kubelet.created.count("odd-worker-1") == 2 and second_user.state("TFJob", "odd") == "Running",
                20,
            )
            assert second_user.job("TFJob", "odd")["spec"]["future"] == "theirs"
            assert "restarts" not in second_user.job("TFJob", "odd")["status"]
            before = writes(second_server, second_user)
            time.sleep(2)
            assert writes(second_server, second_user) - before <= 2
        assert "restarts are not counted" in operator.log.read_text()
    finally:
        kubectl_file(second_server, "replace", TFJOBS)


def writes(plane: ControlPlane, second_user: UserClient) -> int:
    """Return the number of writes of the operator in this namespace, besides Events, which are written later."""
    found = requests(plane, "trainshed", second_user.namespace)
    return sum(request.writes and not request.what.endswith(" events") for request in found)


def try_create(user: UserClient, wanted: dict) -> dict:
    """The job, made once the server's schema has the new field."""
    found = user.job("TFJob", wanted["metadata"]["name"])
    if found and "future" not in found["spec"]:
        user.delete_job("TFJob", wanted["metadata"]["name"])
        eventually(lambda: user.job("TFJob", wanted["metadata"]["name"]) is None)
        found = None
    return found or user.create(wanted)
