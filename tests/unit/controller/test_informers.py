"""A cache has informers for every kind of object in it, in its namespace only."""

from __future__ import annotations

import json

from trainshed.api.framework import Framework, JobDefaults
from trainshed.client.informer import Informer
from trainshed.client.transport import Answer, Request, RestClient
from trainshed.controller.cache import Cache
from trainshed.controller.namespaces import make_informers
from trainshed.controller.store import CachedJob
from trainshed.frameworks import FRAMEWORKS
from trainshed.frameworks.tensorflow import TENSORFLOW


class Noted:
    """A transport that sends nothing and records the requests."""

    def __init__(self, items: tuple[dict, ...] = ()) -> None:
        self.paths: list[str] = []
        self._content = json.dumps({"metadata": {"resourceVersion": "1"}, "items": items}).encode()

    async def exchange(self, request: Request) -> Answer:
        self.paths.append(request.path)
        return Answer(200, self._content)


async def test_every_kind_is_listed_in_the_namespace_only():
    carrier = Noted()
    view = Cache(FRAMEWORKS, JobDefaults(), lambda _key: None)
    found = tuple(make_informers(RestClient(carrier), view, FRAMEWORKS, "ml"))
    for informer in found:
        await informer._list()
    assert all("/namespaces/ml/" in path for path in carrier.paths)
    plurals = [path.rpartition("/")[2] for path in carrier.paths]
    assert plurals == [informer.plural for informer in found]
    assert {"tfjobs", "mpijobs", "pods", "services", "configmaps"} <= set(plurals)
    assert len(set(plurals)) == len(plurals)
    assert found[0].what == "tfjobs in namespace ml"


async def test_without_a_namespace_the_whole_cluster_is_listed():
    carrier = Noted()
    for informer in make_informers(
        RestClient(carrier), Cache(FRAMEWORKS, JobDefaults(), lambda _key: None), FRAMEWORKS, ""
    ):
        await informer._list()
    assert carrier.paths
    assert not any("namespaces" in path for path in carrier.paths)


def an_event(kind: str, version: str) -> bytes:
    metadata = {"namespace": "ml", "name": "mnist", "uid": "u", "resourceVersion": version}
    return json.dumps({"type": kind, "object": {"metadata": metadata, "spec": {}}}).encode()


def job_informer(*items: dict) -> tuple[Cache, Informer[CachedJob]]:
    view = Cache((TENSORFLOW,), JobDefaults(), lambda _key: None)
    return view, next(make_informers(RestClient(Noted(items)), view, (TENSORFLOW,), "ml"))


def test_jobs_are_parsed_into_the_store():
    view, informer = job_informer()
    seen = []
    for event in (an_event("ADDED", "1"), an_event("MODIFIED", "3"), an_event("DELETED", "4")):
        informer._handle(event)
        seen.append([(record.job.name, record.version) for record in view.jobs["TFJob"].items.values()])
    assert seen == [[("mnist", "1")], [("mnist", "3")], []]


async def test_the_jobs_of_a_list_are_not_kept_as_documents_until_it_is_whole():
    view, informer = job_informer(json.loads(an_event("ADDED", "1"))["object"])
    items, _ = await informer._all()
    assert [type(item) for item in items] == [CachedJob]
    assert view.jobs["TFJob"].items == {}


def test_the_event_of_an_own_write_is_not_decoded_again(monkeypatch):
    view, informer = job_informer()
    parsed, record = [], view.record

    def recorded(document: dict, framework: Framework) -> CachedJob:
        parsed.append(document["metadata"]["resourceVersion"])
        return record(document, framework)

    monkeypatch.setattr(view, "record", recorded)
    for version in ("3", "3", "4"):
        informer._handle(an_event("MODIFIED", version))
    assert parsed == ["3", "4"]
    assert view.jobs["TFJob"].latest == "4"
