"""Jobs that are as large as users can make them cost the operator little memory and time."""

from __future__ import annotations

import asyncio
import gc
import json
import tracemalloc
from typing import Any

import pytest

from support.builders import T0
from support.replace import replace
from trainshed.api import parse
from trainshed.api.framework import JobDefaults
from trainshed.api.job import JobKey
from trainshed.client.client import ApiClient
from trainshed.client.flow_control import TokenBucket
from trainshed.client.informer import Informer
from trainshed.client.transport import Answer, Request, RestClient
from trainshed.controller.cache import Cache
from trainshed.controller.events import EventRecorder
from trainshed.controller.namespaces import make_informers
from trainshed.controller.reconciler import Reconciler
from trainshed.controller.store import CachedJob
from trainshed.frameworks.tensorflow import TENSORFLOW
from trainshed.local.tasks import LocalObserver

#: The spec of a pod in about 100 KB of JSON, parsed up to twenty times as much; MANY is the number of its parts.
MANY = 8000
CONTAINER = {"name": "tensorflow", "image": "x"}
TEMPLATES: dict[str, dict[str, Any]] = {
    "empty lists": {"spec": {"containers": [CONTAINER], "x": [[]] * MANY * 6}},
    "variables": {"spec": {"containers": [CONTAINER | {"env": [{"name": f"A{n}"} for n in range(MANY)]}]}},
    "labels": {"metadata": {"labels": {f"a{n}": "" for n in range(MANY)}}, "spec": {"containers": [CONTAINER]}},
    "a text": {"spec": {"containers": [CONTAINER | {"args": ["a" * MANY * 10]}]}},
}


def a_job(template: dict, name: str = "mnist", version: str = "1", uid: str = "", **metadata: object) -> dict:
    meta = {"namespace": "ml", "name": name, "uid": uid or f"uid-of-{name}", "resourceVersion": version}
    spec = {"tfReplicaSpecs": {"Worker": {"replicas": 200, "template": template}}}
    return {"metadata": meta | {"generation": 1} | metadata, "spec": spec}


def encoded(document: dict) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


class Server:
    """Answers reads and writes of the status, and no write of pods or Services."""

    def __init__(self) -> None:
        self.jobs: dict[str, dict] = {}
        self.waiting = 0

    async def exchange(self, request: Request) -> Answer:
        name = request.path.removesuffix("/status").rpartition("/")[2]
        if name in self.jobs:
            if request.body:
                metadata = self.jobs[name]["metadata"] | {"resourceVersion": "1000"}
                self.jobs[name] |= {"metadata": metadata, "status": json.loads(request.body)["status"]}
            return Answer(200, encoded(self.jobs[name]))
        self.waiting += 1
        await asyncio.Event().wait()
        raise AssertionError

    async def close(self) -> None:
        pass


def an_informer(server: Server) -> tuple[Cache, RestClient, Informer[CachedJob]]:
    cache, rest = Cache((TENSORFLOW,), JobDefaults(), lambda _key: None), RestClient(server)
    return cache, rest, next(make_informers(rest, cache, (TENSORFLOW,), "ml"))


def hear(informer: Informer[CachedJob], document: dict, what: str = "MODIFIED") -> None:
    informer._handle(encoded({"type": what, "object": document}))


@pytest.mark.slow
@pytest.mark.parametrize("template", TEMPLATES)
async def test_of_large_jobs_whose_writes_wait_little_more_is_kept_than_their_json(template):
    """As where an admission webhook does not answer."""
    server, jobs = Server(), 4
    server.jobs = {f"j{n}": a_job(TEMPLATES[template], f"j{n}", str(n + 1)) for n in range(jobs)}
    size = len(encoded(server.jobs["j0"]))
    tracemalloc.start()
    try:
        cache, rest, informer = an_informer(server)
        for document in server.jobs.values():
            hear(informer, document, "ADDED")
        client = ApiClient(rest, TokenBucket())
        reconciler = Reconciler(client, cache, EventRecorder(client, lambda: None, lambda: T0), LocalObserver())
        keys = [JobKey("ml", "TFJob", name) for name in server.jobs]
        tasks = [asyncio.create_task(reconciler.reconcile(key, T0)) for key in keys]
        async with asyncio.timeout(60):
            while server.waiting < jobs:
                await asyncio.sleep(0.01)
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    one_parsed, plans = 20 * size, 200 * 4_000 * jobs  # the templates that were read last; the Services of 200 replicas
    assert kept < one_parsed + plans + 4 * size * jobs


#: The job itself is another one: a test that reads this instead of what is cached fails.
OTHER = {"spec": {"containers": [CONTAINER | {"name": "other"}]}}


@pytest.mark.parametrize(
    "changed", [{"annotations": {"a": "b"}}, {"labels": {"a": "b"}}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}, {}]
)
def test_a_spec_of_a_known_generation_is_not_read_again(changed):
    cache, _, informer = an_informer(Server())
    hear(informer, a_job(TEMPLATES["variables"]))
    hear(informer, a_job(OTHER, version="2", **changed))
    (record,) = cache.jobs["TFJob"].items.values()
    whole = parse.job(a_job(TEMPLATES["variables"], version="2", **changed), TENSORFLOW, JobDefaults())
    assert record.job == whole


@pytest.mark.parametrize(
    ("known", "changed"),
    [
        ({}, {"generation": 2}),
        ({"generation": 3}, {"generation": 2}),
        ({"generation": 0}, {"generation": 0}),
        ({"generation": None}, {"generation": None}),
        ({"version": "9", "uid": "a"}, {"uid": "b"}),
        ({"version": "9"}, {"version": "8"}),
    ],
    ids=["newer", "set back", "not counted", "absent", "another job", "restored from a backup"],
)
def test_a_spec_is_read_where_a_generation_does_not_show_that_it_is_the_known_one(known, changed):
    cache, _, informer = an_informer(Server())
    hear(informer, a_job(TEMPLATES["variables"], **known))
    document = a_job(OTHER, **{"version": "10"} | changed)
    assert cache.record(document, TENSORFLOW).job == parse.job(document, TENSORFLOW, JobDefaults())


def test_what_the_api_server_keeps_of_the_writers_of_a_job_is_not_decoded():
    """It may be as large as the job itself."""
    cache, _, informer = an_informer(Server())
    fields = b'{"managedFields":[{"\xff":1}],'
    hear_raw = encoded({"type": "ADDED", "object": a_job(OTHER)}).replace(b'"metadata":{', b'"metadata":' + fields, 1)
    informer._handle(hear_raw)
    assert len(cache.jobs["TFJob"].items) == 1


@pytest.mark.parametrize("labels", [{}, {"a": "b"}, *({"kueue.x-k8s.io/queue-name": queue} for queue in ("", "q"))])
def test_of_the_labels_of_a_job_only_those_of_its_queue_are_read(labels):
    cache, _, informer = an_informer(Server())
    others = {f"a{n}": "kueue.x-k8s.io" for n in range(MANY)}
    hear(informer, a_job(OTHER, labels=others | labels))
    (record,) = cache.jobs["TFJob"].items.values()
    assert record.job.queued is any("queue" in key for key in labels)
    hear(informer, a_job(OTHER, labels=labels, version="2"))
    assert cache.jobs["TFJob"].items[record.uid].job == replace(record.job, version="2")


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_snapshot_has_the_templates_of_a_large_job(template):
    cache, _, informer = an_informer(Server())
    document = a_job(TEMPLATES[template])
    hear(informer, document)
    hear(informer, {**document, "metadata": document["metadata"] | {"resourceVersion": "2"}})
    snapshot = cache.snapshot(JobKey("ml", "TFJob", "mnist"), T0)
    assert snapshot is not None
    assert snapshot.job == replace(parse.job(document, TENSORFLOW, JobDefaults()), version="2")
    (group,) = snapshot.job.groups
    assert group.template == TEMPLATES[template]
    assert not isinstance(group.template, dict)
