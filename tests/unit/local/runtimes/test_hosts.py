"""Replicas reach each other: by name in namespaces, on the loopback with ports of their own otherwise."""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
import sys
import time

import pytest

from support.builders import a_job
from trainshed.local.runtimes.hosts import Hosts, NoPort, Ports, loopback_text, on_loopback
from trainshed.local.runtimes.replaced_paths import with_paths


@pytest.fixture
def hosts() -> Hosts:
    found = Hosts()
    found.add_job(a_job(chief=1, worker=11))
    return found


@pytest.fixture
def ports():
    found = Ports()
    yield found
    found.close()


def test_each_replica_has_an_address_and_all_its_names(hosts):
    lines = hosts.text().splitlines()
    assert len(lines) == 2 + 12
    first = lines[2].split()
    assert first[0] == hosts.address("ml", "mnist-chief-0") == "198.18.0.2"
    for name in ("mnist-chief-0", "mnist-chief-0.ml.svc", "mnist-chief-0.mnist.ml.svc.cluster.local"):
        assert name in first


def test_an_address_stays_the_same_when_a_job_is_added_again(hosts):
    before = hosts.text()
    hosts.add_job(a_job(chief=1, worker=11))
    assert hosts.text() == before


def test_names_are_replaced_as_a_whole(hosts, ports):
    text = loopback_text(
        "mnist-worker-1.ml.svc:2222,mnist-worker-10:2222,my-mnist-worker-1,mnist-worker-1.example", hosts, ports
    )
    one, ten = ports.of("mnist-worker-1", 2222), ports.of("mnist-worker-10", 2222)
    assert one != ten
    assert text == f"127.0.0.1:{one},127.0.0.1:{ten},my-mnist-worker-1,mnist-worker-1.example"


def test_the_names_of_2000_replicas_are_replaced_in_a_fraction_of_a_second(ports, monkeypatch):
    hosts = Hosts()
    hosts.add_job(a_job(worker=2000))
    monkeypatch.setattr(ports, "of", lambda _pod, port: port)
    text = ",".join(f"mnist-worker-{index}.ml.svc:2222" for index in range(2000)) + ",a" + ".a-" * 100_000
    started = time.process_time()
    assert loopback_text(text, hosts, ports).startswith("127.0.0.1:2222," * 2000 + "a.a")
    assert time.process_time() - started < 0.2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tcp:mnist-chief-0", "tcp:127.0.0.1"),
        ("to mnist-chief-0. Then mnist-chief-0..x", "to 127.0.0.1. Then 127.0.0.1..x"),
        ("mnist-chief-0.-", "127.0.0.1.-"),
        ("mnist-chief-0- -mnist-chief-0 .mnist-chief-0 x_mnist-chief-0", ""),
        ("mnist-chief-0.X mnist-chief-0é MNIST-CHIEF-0 other:80", ""),
    ],
)
def test_only_whole_names_are_replaced(hosts, ports, text, expected):
    assert loopback_text(text, hosts, ports) == (expected or text)


@pytest.mark.parametrize("port", ["9" * 5000, "\u0665" * 4], ids=["very long", "of other digits"])
def test_a_text_that_is_no_port_stays_as_it_is(hosts, ports, port):
    name = "mnist-worker-1"
    env = {"A": f"{name}:{port}", "B": f"127.0.0.1:{port}", "MASTER_PORT": port, "MASTER_ADDR": name}
    expected = env | {"A": f"127.0.0.1:{port}", "MASTER_ADDR": "127.0.0.1"}
    assert on_loopback(env, hosts, ports, (name, [2222])) == expected


def test_the_environment_is_consistent(hosts, ports):
    cluster = {"cluster": {"worker": ["mnist-worker-0.ml.svc:2222", "mnist-worker-1.ml.svc:2222"]}}
    env = {
        "TF_CONFIG": json.dumps(cluster),
        "MASTER_ADDR": "mnist-worker-0",
        "MASTER_PORT": "2222",
        "DMLC_TRACKER_URI": "mnist-worker-0",
        "DMLC_TRACKER_PORT": "2222",
        "OWN_PORT": "2222",
        "OTHER_PORT": "8888",
        "PET_RDZV_ENDPOINT": "mnist-worker-0:29400",
        "PADDLE_MASTER": "127.0.0.1:2222",
        "DASHBOARD": "http://127.0.0.1:8080",
    }
    found = on_loopback(env, hosts, ports, ("mnist-worker-1", [2222]))
    first, own = ports.of("mnist-worker-0", 2222), ports.of("mnist-worker-1", 2222)
    assert json.loads(found["TF_CONFIG"])["cluster"]["worker"] == [f"127.0.0.1:{first}", f"127.0.0.1:{own}"]
    assert (found["MASTER_ADDR"], found["MASTER_PORT"]) == ("127.0.0.1", str(first))
    assert (found["DMLC_TRACKER_URI"], found["DMLC_TRACKER_PORT"]) == ("127.0.0.1", str(first))
    assert (found["OWN_PORT"], found["OTHER_PORT"]) == (str(own), "8888")
    assert found["PADDLE_MASTER"] == f"127.0.0.1:{own}", "the pod's address and its port, as others reach it"
    assert found["DASHBOARD"] == env["DASHBOARD"]
    assert found["PET_RDZV_ENDPOINT"] == f"127.0.0.1:{ports.of('mnist-worker-0', 29400)}"


def restrict(monkeypatch, first: int, count: int) -> None:
    monkeypatch.setattr("trainshed.local.runtimes.hosts.PORTS", range(first, first + count))


def test_a_port_in_use_is_not_taken(monkeypatch):
    with socket.create_server(("", 0)) as server:
        used = server.getsockname()[1]
        restrict(monkeypatch, used - 5, 10)
        found, taken = Ports(), []
        with contextlib.suppress(NoPort):
            while True:
                taken.append(found.of(str(len(taken)), 1))
        found.close()
        assert 0 < len(taken) < 10
        assert used not in taken


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_two_runs_never_have_the_same_port(monkeypatch, platform):
    """They share nothing but the machine."""
    monkeypatch.setattr(sys, "platform", platform)
    restrict(monkeypatch, 5000 + secrets.randbelow(150) * 100, 100)
    one, other = Ports(), Ports()
    taken = [found.of(str(number), 1) for number in range(40) for found in (one, other)]
    assert len(set(taken)) == 80
    one.close()
    third = Ports()
    assert len({third.of(str(number), 1) for number in range(40)} - set(taken[1::2])) == 40, "those of one are free"
    for ports in (other, third):
        ports.close()


def test_runs_begin_with_ports_that_are_not_those_of_the_one_before():
    runs = [Ports() for _ in range(5)]
    first = [run.of("a", 1) for run in runs]
    for run in runs:
        run.close()
    assert max(first) - min(first) > 50


def test_without_a_free_port_the_error_says_so(monkeypatch):
    with socket.create_server(("", 0)) as server:
        restrict(monkeypatch, server.getsockname()[1], 1)
        ports = Ports()
        with pytest.raises(NoPort, match="no free port"):
            ports.of("a", 1)


def test_paths_of_mounts_are_replaced():
    paths = {"/data": "/run/x/data", "/data/in": "/run/x/in"}
    assert with_paths("--from=/data/in/a --to=/data", paths) == "--from=/run/x/in/a --to=/run/x/data"
    assert with_paths("/database /my/data /data.txt", paths) == "/database /my/data /data.txt"
