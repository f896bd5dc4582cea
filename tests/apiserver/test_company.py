"""The operator in company: with kopf, which may fall over, and with a second operator, which waits for its turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bed.control_plane import ControlPlane
from rig import Operator, Proxy
from rig.hand import Hand, Refused, eventually
from rig.jobs import tfjob
from rig.planes import ready_control_plane
from rig.stage import Stage

NOWHERE = "/apis/nothing.there/v1/things"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/trainshed"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane that no other operator looks after."""
    with ready_control_plane(tmp_path_factory.mktemp("company")) as plane:
        yield plane


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[..., Operator]]:
    """Starts operators, each with a folder of its own, and leaves none behind."""
    begun: list[Operator] = []

    def begin(kubeconfig: Path, name: str, *flags: str) -> Operator:
        folder = tmp_path / name
        folder.mkdir()
        begun.append(Operator(kubeconfig, folder, *flags))
        return begun[-1].start()

    yield begin
    for operator in begun:
        if operator.alive:
            operator.kill()


def a_hand(plane: ControlPlane, namespace: str) -> Hand:
    hand = Hand(plane.kubeconfig, namespace)
    hand.make_namespace()
    return hand


def runs(hand: Hand, name: str, within: float = 20) -> None:
    """A new job runs in time."""
    hand.create(tfjob(name, Worker=2))
    eventually(lambda: hand.state("TFJob", name) == "Running", within)


def test_kopf_may_fall_over_as_often_as_it_likes(plane: ControlPlane, tmp_path: Path, begin):
    hand = a_hand(plane, "shell")
    with Proxy(hand) as proxy, Stage(hand):
        forward = proxy.forward

        def unkind(verb: str, path: str, body: bytes | None, headers: dict[str, str]):
            if "watch=" in path and "kopf" in headers.get("User-Agent", ""):
                return forward(verb, NOWHERE, body, headers)
            return forward(verb, path, body, headers)

        proxy.forward = unkind
        operator = begin(proxy.kubeconfig(tmp_path), "shell", "--no-leader-elect", "--namespace=shell")
        for number in range(25):
            runs(hand, f"job-{number}")
            time.sleep(0.5)
        log = operator.log.read_text()
        assert log.count("WARNING kopf has fallen over") >= 2, log[-2000:]
        assert operator.alive
        began = time.monotonic()
        assert operator.stop() == 0
        assert time.monotonic() - began < 8
        assert operator.complaints() == []


def test_the_second_operator_takes_over_when_the_first_one_dies_and_at_once_when_it_ends(plane: ControlPlane, begin):
    hand = a_hand(plane, "lead")

    def holder() -> str | None:
        try:
            return hand.call("GET", LEASE.format("lead"))["spec"].get("holderIdentity", "")
        except Refused:
            return None

    def start(name: str) -> Operator:
        flags = ("--namespace=lead", "--lease-namespace=lead", f"--lease-identity={name}")
        return begin(plane.kubeconfig, name, *flags)

    with Stage(hand):
        first = start("first")
        eventually(lambda: holder() == "first")
        second = start("second")
        runs(hand, "one")
        assert "TFJob lead/" not in second.log.read_text(), "it waits for its turn, though it knows everything"
        first.kill()
        began = time.monotonic()
        runs(hand, "two", within=25)
        assert time.monotonic() - began <= 20
        third = start("third")
        assert second.stop() == 0
        began = time.monotonic()
        runs(hand, "three", within=10)
        assert time.monotonic() - began <= 5
        assert holder() == "third"
        assert third.stop() == 0
        assert holder() == ""
        assert second.complaints() == third.complaints() == []
