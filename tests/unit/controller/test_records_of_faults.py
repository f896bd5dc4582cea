"""Whatever fails at a write of records, before it, after it or between, each job has one record in the end."""

from __future__ import annotations

import copy
import json
from contextlib import suppress
from random import Random

import pytest

from support.builders import T0, a_job, seen
from support.replace import replace
from trainshed.api.status import Condition, ConditionType, Status
from trainshed.client import ApiError, Conflict, NotLeader, TooManyRequests, Unavailable
from trainshed.controller.job_records import JobRecords


class FlakyMap:
    """A ConfigMap whose requests fail at random, before or after they are carried out, and which others change."""

    def __init__(self, random: Random) -> None:
        self.random, self.found = random, None
        self.version, self.wrong = 0, 0.5

    async def kubernetes_version(self) -> str:
        return "v1.36.1"

    async def read(self, _namespace: str, _name: str) -> dict | None:
        self._fail()
        return copy.deepcopy(self.found)

    async def create(self, _namespace: str, body: dict) -> None:
        self._fail()
        if self.found is not None:
            raise Conflict("it exists")
        self._store(copy.deepcopy(body))

    async def merge(self, _namespace: str, _name: str, patch: dict) -> None:
        self._fail()
        if self.random.random() < self.wrong / 2:
            self._store(self.found, answered=True)  # another writer
        if patch["metadata"]["resourceVersion"] != self.found["metadata"]["resourceVersion"]:
            raise Conflict("it has changed")
        data = self.found["data"] | patch["data"]
        self._store(self.found | {"data": {key: text for key, text in data.items() if text is not None}})

    def _store(self, body: dict, *, answered: bool = False) -> None:
        self.version += 1
        self.found = body | {"metadata": body["metadata"] | {"resourceVersion": str(self.version), "uid": "u"}}
        if not answered:
            self._fail()

    def _fail(self) -> None:
        if self.random.random() < self.wrong:
            raise self.random.choice((Unavailable("lost"), TooManyRequests("later"), NotLeader("another leads")))


@pytest.mark.parametrize("seed", range(40))
async def test_whatever_fails_each_job_has_one_record_in_the_end(seed: int):
    random = Random(seed)
    store = FlakyMap(random)
    jobs = [a_job(worker=1, name=f"job-{n}", created=T0, record=True) for n in range(8)]
    jobs = [replace(job, uid=f"uid-{n}") for n, job in enumerate(jobs)]
    done = Condition(ConditionType.SUCCEEDED, true=True, reason="r", message="m", updated=T0, changed=T0)
    status = Status(conditions=(done,), completion=T0)
    records = JobRecords(store, lambda _job, _event: None, lambda: T0)
    for _ in range(30):
        if random.random() < 0.4:
            records = JobRecords(store, lambda _job, _event: None, lambda: T0)  # a crash, or another leader
        for job in random.sample(jobs, 4):
            records.on_reconcile(seen(job, status=status))
        with suppress(ApiError):
            await records.flush()
    store.wrong = 0.0
    records = JobRecords(store, lambda _job, _event: None, lambda: T0)
    for job in jobs:
        records.on_reconcile(seen(job, status=status))
    await records.flush()
    names = [json.loads(text)["metadata"]["name"] for text in store.found["data"].values()]
    assert sorted(names) == [job.name for job in jobs]
