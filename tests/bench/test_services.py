"""Writes of the whole control plane for a job of 100 pods with a Service for each replica, and with one for the job."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any, Self

import pytest

from support.audit_log import WRITES, entries
from support.fake_kubelet import NODE, FakeKubelet
from support.jobs import tfjob
from support.measured import USER, Measured
from support.results import keep
from support.user_client import AsyncClient, UserClient, eventually

PODS = 100
#: The file for the figures, or empty.
KEPT = os.environ.get("TRAINSHED_FIGURES", "")
#: The operator and the controllers of Kubernetes that follow Services and pods.
WRITERS = {
    USER: "operator",
    "system:serviceaccount:kube-system:endpointslice-controller": "endpointslice-controller",
    "system:serviceaccount:kube-system:endpoint-controller": "endpoint-controller",
    "system:serviceaccount:kube-system:generic-garbage-collector": "garbage collector",
}
#: With one Service the control plane makes at most this share of the writes that v1's Services cost.
PART = 0.6


class AddressedKubelet(FakeKubelet):
    """Pods get an IP address when they run; they run one after the other, `apart` seconds."""

    def __init__(self, user: UserClient, apart: float) -> None:
        self._began, self._apart, self._free = time.monotonic(), apart, count()
        self._turns: dict[str, int] = {}
        super().__init__(user, self._turn)

    def status(self, pod: dict, *, ready: bool = True) -> dict:
        """A pod that runs has an address of its own."""
        address = f"10.9.0.{self._turns[pod['metadata']['name']] + 1}"
        return super().status(pod, ready=ready) | {"podIP": address, "podIPs": [{"ip": address}]}

    def _turn(self, name: str) -> str:
        if name not in self._turns:
            self._turns[name] = next(self._free)
        return "Running" if time.monotonic() >= self._began + self._turns[name] * self._apart else ""


class SliceWatch:
    """Counts the bytes that one watch of EndpointSlices receives, such as that of a DNS server."""

    def __init__(self, plane: Any, namespace: str) -> None:
        self.received = 0
        self._kubeconfig: Path = plane.kubeconfig
        self._path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
        self._over = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._count()), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(10)

    async def _count(self) -> None:
        reader = asyncio.create_task(self._read())
        while not self._over.is_set():
            await asyncio.sleep(0.1)
        reader.cancel()

    async def _read(self) -> None:
        async with AsyncClient(self._kubeconfig) as api:
            async for line in api.lines(self._path, {"watch": "true"}):
                self.received += len(line)


def written(plane: Any, namespace: str) -> Counter[tuple[str, str]]:
    """Return the writes so far in a namespace, by writer and object; without those of users and kubelets."""
    found: Counter[tuple[str, str]] = Counter()
    for entry in entries(plane.audit_log):
        target, writer = entry.get("objectRef") or {}, WRITERS.get(entry["user"]["username"])
        if not writer or entry["verb"] not in WRITES or target.get("namespace") != namespace:
            continue
        resource = "/".join(part for part in (target["resource"], target.get("subresource")) if part)
        found[writer, f"{entry['verb']} {resource}"] += 1
    return found


def life(plane: Any, user: UserClient, form: str, apart: float) -> tuple[dict[str, Any], dict[str, int]]:
    """The figures of a job that runs, succeeds and is cleaned up; and the writes until all pods run, by writer."""
    job = tfjob("n", Chief=1, Worker=PODS - 1, policy={"cleanPodPolicy": "All"})
    job["metadata"]["annotations"] = {"trainshed.dev/services": form}
    with SliceWatch(plane, user.namespace) as watch, AddressedKubelet(user, apart) as kubelet:
        user.create(job)
        eventually(lambda: len(published(user)) == PODS, 120, every=0.5)
        hosts = {endpoint.get("hostname", endpoint["targetRef"]["name"]) for endpoint in published(user)}
        assert hosts == {pod["metadata"]["name"] for pod in user.pods()}
        assert all(("hostname" in endpoint) == (form == "Job") for endpoint in published(user))
        time.sleep(3)
        begun, received = written(plane, user.namespace), watch.received
        names = {service["metadata"]["name"] for service in user.core("services")}
        assert names == ({"n"} if form == "Job" else {pod["metadata"]["name"] for pod in user.pods()})
        kubelet.end("n-chief-0", 0)
        eventually(lambda: not user.pods() and not user.core("services"), 120, every=0.5)
        time.sleep(3)
    whole = written(plane, user.namespace)
    for (writer, what), number in sorted(whole.items()):
        print(f"  {form} {writer}: {what}: {begun[writer, what]} until all run, {number} in all")
    figures = {"until_all_run": begun.total(), "whole_life": whole.total(), "kib_watched": round(received / 1024)}
    return figures, dict(by_writer(begun))


def published(user: UserClient) -> list[dict[str, Any]]:
    """The endpoints in all EndpointSlices; DNS publishes one with a host name as `<host name>.<Service>`."""
    slices = user.call("GET", f"/apis/discovery.k8s.io/v1/namespaces/{user.namespace}/endpointslices")["items"]
    return [endpoint for found in slices for endpoint in found["endpoints"] or ()]


def by_writer(found: Counter[tuple[str, str]]) -> Counter[str]:
    """The sums by writer."""
    sums: Counter[str] = Counter()
    for (writer, _), number in found.items():
        sums[writer] += number
    return sums


@pytest.mark.parametrize(
    "apart", [0.0, pytest.param(0.1, marks=pytest.mark.long)], ids=["at-once", "one-after-the-other"]
)
@pytest.mark.usefixtures("measured")
def test_one_service_for_a_job_saves_the_control_plane_writes(plane: Any, user: UserClient, apart: float) -> None:
    ready = [{"type": "Ready", "status": "True"}]
    if not any(node["metadata"]["name"] == NODE for node in user.call("GET", "/api/v1/nodes")["items"]):
        user.call("POST", "/api/v1/nodes", {"metadata": {"name": NODE}, "status": {"conditions": ready}})
    print()
    figures: dict[str, Any] = {"pods": PODS, "seconds_between_pods": apart}
    for form in ("Replica", "Job"):
        there = UserClient.somewhere(plane.kubeconfig)
        figures[form], figures[f"{form}_by_writer"] = life(plane, there, form, apart)
    print(*(f"{name}: {value}" for name, value in figures.items()), sep="\n")
    if KEPT:
        keep(Path(KEPT).with_stem(f"services-{apart}"), "make bench", figures)
    assert figures["Job"]["until_all_run"] <= PART * figures["Replica"]["until_all_run"]
    assert figures["Job"]["whole_life"] <= PART * figures["Replica"]["whole_life"]


def test_a_job_of_four_with_one_service_costs_its_objects_and_a_few_more(user: UserClient, measured: Measured) -> None:
    job = tfjob("four", Chief=1, Worker=3)
    job["metadata"]["annotations"] = {"trainshed.dev/services": "Job"}
    with FakeKubelet(user) as kubelet:
        user.create(job)
        eventually(lambda: user.state("TFJob", "four") == "Running", 30)
        kubelet.end("four-chief-0", 0)
        eventually(lambda: user.state("TFJob", "four") == "Succeeded", 30)
    time.sleep(2)
    found = measured.requests(user.namespace)
    writes = {what: number for what, number in found.items() if what.split()[0] in WRITES}
    print(f"\n{sum(writes.values())} writes: {writes}")
    assert (writes["create pods"], writes["create services"]) == (4, 1)
    events = sum(number for what, number in writes.items() if "events" in what)
    assert sum(writes.values()) - events <= 4 + 1 + 3
    assert events <= 6
