"""What is read of Kueue about a job, with few requests, and with what the caller may read."""

from __future__ import annotations

import asyncio
import json

import pytest

from trainshed.api.job import QUEUE_LABEL
from trainshed.client import ApiError, Forbidden, NotFound, Unavailable
from trainshed.client.job_reader import JobReader
from trainshed.client.kueue_reader import Queue, QueuePlace, read_queue


def a_workload(name: str, priority: int = 0, minute: int = 0, queue: str = "gpus", **conditions: str) -> dict:
    items = [{"type": kind, "status": value} for kind, value in conditions.items()]
    metadata = {"name": name, "uid": name, "creationTimestamp": f"2026-01-01T12:{minute:02}:00Z"}
    return {"metadata": metadata, "spec": {"queueName": queue, "priority": priority}, "status": {"conditions": items}}


OWN = a_workload("own", 5, 30)
BEFORE = [a_workload("older", 5, 10), a_workload("higher", 9, 40)]
OTHERS = [
    *(a_workload("newer", 5, 31), a_workload("lower", 0, 1), a_workload("elsewhere", 9, 1, queue="cpus")),
    *(a_workload("admitted", 9, 1, QuotaReserved="True"), a_workload("over", 9, 1, Finished="True")),
    a_workload("stopped", 9, 1) | {"spec": {"queueName": "gpus", "active": False}},
]
PENDING = [
    {"metadata": {"name": name}, "positionInLocalQueue": at, "positionInClusterQueue": at + 7}
    for at, name in enumerate(("higher", "own", "lower"))
]


class Kueue:
    """A cluster with Workloads; `pending` is what the visibility API says."""

    def __init__(self, own: list[dict] | ApiError, pending: list[dict] | ApiError, others: list[dict]) -> None:
        self.own, self.pending, self.others, self.requests = own, pending, others, 0

    async def call(self, verb: str, path: object, *_: object) -> bytes:
        assert verb == "GET"
        assert str(path).endswith("/namespaces/ml/localqueues/gpus/pendingworkloads")
        return self._answer(self.pending)

    async def read_page(self, path: object, query: dict, *_: object) -> bytes:
        assert str(path).endswith("/namespaces/ml/workloads")
        return self._answer(self.own if "labelSelector" in query else self.others)

    def _answer(self, found: list[dict] | ApiError) -> bytes:
        self.requests += 1
        if isinstance(found, ApiError):
            raise found
        return json.dumps({"metadata": {}, "items": found}).encode()


@pytest.mark.parametrize(
    ("own", "pending", "others", "queue", "requests"),
    [
        ([OWN], PENDING, [], Queue(OWN, QueuePlace(1, 3, 8)), 2),
        ([OWN], PENDING[:1], [], Queue(OWN), 2),
        ([OWN], NotFound("off"), [OWN, *BEFORE, *OTHERS], Queue(OWN, QueuePlace(2, 5)), 3),
        ([OWN], Forbidden("no"), Forbidden("no"), Queue(OWN), 3),
        ([OWN], Unavailable("down"), [OTHERS[0]], Queue(OWN), 3),
        ([OTHERS[3]], [], [], Queue(OTHERS[3]), 1),
        ([a_workload("own", queue="")], [], [], Queue(a_workload("own", queue="")), 1),
        ([], [], [], Queue(), 1),
        (Forbidden("no"), [], [], Queue(refused=True), 1),
        (NotFound("no Kueue"), [], [], None, 1),
    ],
)
def test_the_place_of_a_job_in_its_queue_is_read_as_far_as_it_is_known(own, pending, others, queue, requests):
    kueue = Kueue(own, pending, others)
    labels = {"kueue.x-k8s.io/queue-name": "gpus"}
    job = {"metadata": {"name": "mnist", "namespace": "ml", "uid": "u", "labels": labels}}
    assert asyncio.run(read_queue(JobReader(kueue), job)) == queue  # type: ignore[arg-type]
    assert kueue.requests == requests


@pytest.mark.parametrize("answer", [OTHERS[3], NotFound("none yet")])
def test_the_workload_of_a_group_of_pods_is_read_by_its_name(answer):
    class Groups(Kueue):
        async def call(self, verb: str, path: object, *_: object) -> bytes:
            assert (verb, str(path)) == ("GET", "/apis/kueue.x-k8s.io/v1beta1/namespaces/ml/workloads/mnist-u-3")
            self._answer(answer if isinstance(answer, ApiError) else [])
            return json.dumps(answer).encode()

    metadata = {"name": "mnist", "namespace": "ml", "uid": "u"}
    status, old = {"kueueWorkload": "mnist-u-3"}, [a_workload("of-the-job")]
    kueue, wanted = Groups(old, [], []), Queue() if isinstance(answer, ApiError) else Queue(answer)
    job = {"metadata": metadata | {"labels": {QUEUE_LABEL: "gpus"}}, "status": status}
    assert asyncio.run(read_queue(JobReader(kueue), job)) == wanted  # type: ignore[arg-type]
    assert kueue.requests == 2


@pytest.mark.parametrize("own", [[], Forbidden("no")])
def test_a_job_without_a_queue_is_not_said_to_wait_for_kueue(own):
    job = {"metadata": {"name": "mnist", "namespace": "ml", "uid": "u"}}
    assert asyncio.run(read_queue(JobReader(Kueue(own, [], [])), job)) is None  # type: ignore[arg-type]
