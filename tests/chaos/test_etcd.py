"""The store goes wrong: full, from yesterday, compacted all the time; a server that is behind; our kinds taken away."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from support import Hand, Operator, Refused, Stage
from support.audit_log import requests
from support.jobs import pytorchjob, tfjob
from support.kubectl import kubectl_file
from support.planes import CRDS, served
from support.pods import uids
from support.tcp_proxy import TcpProxy
from support.user_client import always, eventually
from testbed.binaries import binary
from testbed.control_plane import ControlPlane
from testbed.processes import Process

from .etcd import Etcd

pytestmark = pytest.mark.apiserver

TFJOBS = CRDS / "kubeflow.org_tfjobs.yaml"
Begin = Callable[..., Operator]


def runs(hand: Hand, name: str, within: float = 30) -> None:
    eventually(lambda: hand.state("TFJob", name) == "Running", within)


def test_a_store_that_is_full_costs_nothing_but_time(frail: ControlPlane, yard: Hand, begin: Begin):
    etcd = Etcd(frail)
    operator = begin()
    with Stage(yard) as stage:
        yard.create(tfjob("before", Worker=2))
        runs(yard, "before")
        made = uids(yard.pods())
        etcd.restart(f"--quota-backend-bytes={etcd.size + 4 * 2**20}")
        try:
            fill(yard)
            with pytest.raises(Refused, match="space exceeded"):
                yard.create(tfjob("never", Worker=1))
            yard.delete("configmaps", "ballast-0")  # deletes go on
            time.sleep(3)
            assert operator.alive
            for number in range(1, len(yard.core("configmaps"))):
                with contextlib.suppress(Refused):
                    yard.delete("configmaps", f"ballast-{number}")
            etcd.make_room()
            stage.end("before-worker-0", 0)
            eventually(lambda: yard.state("TFJob", "before") == "Succeeded", 30)
            yard.create(tfjob("after", Worker=2))
            runs(yard, "after")
            assert made.items() <= uids(yard.pods()).items()
        finally:
            etcd.restart()


def fill(hand: Hand) -> None:
    """Put in as much as there is room for."""
    body = {"data": {"x": "y" * 500_000}}
    for number in range(100):
        try:
            eventually(lambda name=f"ballast-{number}": put(hand, body | {"metadata": {"name": name}}), 20)
        except Refused as refused:
            assert "space exceeded" in str(refused), refused  # noqa: PT017 - any other refusal is a mistake of ours
            return
    raise AssertionError("there is room without end")


def put(hand: Hand, body: dict) -> bool:
    """Make a ConfigMap; no answer is asked for again, until etcd is there."""
    try:
        hand.make("configmaps", body)
    except Refused as refused:
        if "space exceeded" in str(refused):
            raise
        return refused.code == 409
    return True


def test_a_store_from_yesterday_is_looked_at_anew(frail: ControlPlane, yard: Hand, begin: Begin, tmp_path: Path):
    operator = begin()
    with Stage(yard) as stage:
        yard.create(tfjob("old", Worker=2))
        runs(yard, "old")
        made = uids(yard.pods())
        Etcd(frail).copy(tmp_path / "yesterday")
        runs(yard, "old")
        yard.create(tfjob("lost", Worker=2))
        eventually(lambda: yard.state("TFJob", "lost") == "Running", 30)
        stage.end("old-worker-0", 0)
        eventually(lambda: yard.state("TFJob", "old") == "Succeeded", 20)
        Etcd(frail).put_back(tmp_path / "yesterday")
        assert yard.job("TFJob", "lost") is None
        always(lambda: uids(yard.pods()) == made, 8)
        yard.create(tfjob("new", Worker=2))
        runs(yard, "new")
        yard.create(tfjob("lost", Worker=1))
        runs(yard, "lost")
        stage.end("old-worker-0", 0)
        eventually(lambda: yard.state("TFJob", "old") == "Succeeded", 20)
        assert made.items() <= uids(yard.pods()).items()
    assert operator.complaints() == []


def test_a_store_that_is_compacted_all_the_time_hides_nothing(frail: ControlPlane, yard: Hand, begin: Begin):
    begin()
    over, etcd = threading.Event(), Etcd(frail)

    def compact() -> None:
        while not over.wait(0.3):
            with contextlib.suppress(AssertionError):  # nothing new since the last time
                etcd.compact()

    thread = threading.Thread(target=compact)
    thread.start()
    try:
        with Stage(yard) as stage:
            for number in range(10):
                yard.create(tfjob(f"a{number}", Worker=2))
            for number in range(10):
                runs(yard, f"a{number}")
                stage.end(f"a{number}-worker-0", 0)
            eventually(lambda: all(yard.state("TFJob", f"a{number}") == "Succeeded" for number in range(10)), 20)
            assert len(stage.created) == 20
    finally:
        over.set()
        thread.join()


def test_a_server_that_is_behind_undoes_nothing(frail: ControlPlane, yard: Hand, begin: Begin, tmp_path: Path):
    """The second API server's line to the store stands still; the operator is led to it, and the line goes on later."""
    with (
        TcpProxy.start(urlsplit(frail.etcd_url).port) as store,
        TcpProxy.start(urlsplit(frail.url).port) as line,
        Stage(yard) as stage,
    ):
        second = behind(frail, store)
        try:
            begin(kubeconfig=line.kubeconfig(frail.kubeconfig_for("trainshed", ("system:masters",)), tmp_path))
            yard.create(tfjob("again", Worker=2))
            runs(yard, "again")
            store.frozen = True
            yard.delete_job("TFJob", "again")
            eventually(lambda: not yard.pods())
            yard.create(tfjob("again", Worker=2))
            runs(yard, "again")
            made = uids(yard.pods())
            line.target = second
            line.cut()
            always(lambda: uids(yard.pods()) == made, 5)
            store.frozen = False
            yard.create(tfjob("more", Worker=2))
            runs(yard, "more", 40)
            assert made.items() <= uids(yard.pods()).items()
            assert len(stage.created) == 6
        finally:
            store.frozen = False
            Process("second", frail.folder).stop()


def behind(plane: ControlPlane, store: TcpProxy) -> int:
    """Start another API server on the same store by that line; its port."""
    flags = [
        flag for flag in plane._apiserver_flags() if not flag.startswith(("--etcd-servers", "--secure-port", "--audit"))
    ]
    other = ControlPlane(plane.folder / "second-port")
    other.folder.mkdir(exist_ok=True)
    own = [f"--etcd-servers=http://127.0.0.1:{store.port}", f"--secure-port={urlsplit(other.url).port}"]
    process = Process("second", plane.folder)
    process.start([binary("kube", "kube-apiserver"), *flags, *own], tied=True)
    other.authority = plane.authority
    process.wait(other._ready, 60)
    return urlsplit(other.url).port


def test_our_kind_may_be_taken_away_and_given_back(frail: ControlPlane, yard: Hand, begin: Begin):
    operator = begin()
    with Stage(yard):
        yard.create(tfjob("goes", Worker=2))
        yard.create(pytorchjob("stays", Master=1))
        runs(yard, "goes")
        kubectl_file(frail, "delete", TFJOBS)
        eventually(lambda: [pod["metadata"]["name"] for pod in yard.pods()] == ["stays-master-0"], 60)
        yard.create(pytorchjob("new", Master=1))
        eventually(lambda: yard.state("PyTorchJob", "new") == yard.state("PyTorchJob", "stays") == "Running")
        kubectl_file(frail, "apply", TFJOBS)
        eventually(lambda: served(yard, "TFJob"), 30)
        yard.create(tfjob("goes", Worker=2))
        runs(yard, "goes")
    assert operator.alive
    assert operator.complaints() == []


def test_a_field_less_is_borne_and_a_field_more_is_left_alone(
    frail: ControlPlane, yard: Hand, begin: Begin, tmp_path: Path
):
    definition = yaml.safe_load(TFJOBS.read_text())
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    schema["spec"]["properties"]["future"] = {"type": "string"}
    del schema["status"]["properties"]["restarts"]
    (tmp_path / "crd.yaml").write_text(yaml.safe_dump(definition))
    kubectl_file(frail, "replace", tmp_path / "crd.yaml")
    try:
        operator = begin()
        wanted = tfjob("odd", restart="ExitCode", Worker=2)
        wanted["spec"]["future"] = "theirs"
        eventually(lambda: try_create(yard, wanted)["spec"].get("future") == "theirs", 20)
        with Stage(yard) as stage:
            runs(yard, "odd")
            stage.end("odd-worker-1", 137)
            eventually(lambda: stage.created.count("odd-worker-1") == 2 and yard.state("TFJob", "odd") == "Running", 20)
            assert yard.job("TFJob", "odd")["spec"]["future"] == "theirs"
            assert "restarts" not in yard.job("TFJob", "odd")["status"]
            told = writes(frail, yard)
            time.sleep(2)
            assert writes(frail, yard) - told <= 2
        assert "restarts are not counted" in operator.log.read_text()
    finally:
        kubectl_file(frail, "replace", TFJOBS)


def writes(plane: ControlPlane, yard: Hand) -> int:
    """How often the operator has written in this namespace."""
    return sum(request.writes for request in requests(plane, "trainshed", yard.namespace))


def try_create(hand: Hand, wanted: dict) -> dict:
    """The job, made once the server's schema has the new field."""
    found = hand.job("TFJob", wanted["metadata"]["name"])
    if found and "future" not in found["spec"]:
        hand.delete_job("TFJob", wanted["metadata"]["name"])
        eventually(lambda: hand.job("TFJob", wanted["metadata"]["name"]) is None)
        found = None
    return found or hand.create(wanted)
