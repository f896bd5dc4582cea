"""A cache has informers for every kind of object in it, in its namespace only."""

from __future__ import annotations

from functools import partial

from trainshed.api.framework import JobDefaults
from trainshed.client.informer import Informer
from trainshed.client.lists import DOCUMENTS
from trainshed.client.transport import Answer, Path, Request, RestClient
from trainshed.controller.cache import Cache
from trainshed.controller.namespaces import make_informers
from trainshed.controller.store import CachedJob, JobHandler, Store
from trainshed.frameworks import FRAMEWORKS
from trainshed.frameworks.tensorflow import TENSORFLOW


def handler(view: Cache) -> JobHandler:
    return JobHandler(view.jobs["TFJob"], partial(view.record, framework=TENSORFLOW))


class Noted:
    """A transport that sends nothing and records the requests."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    async def exchange(self, request: Request) -> Answer:
        self.paths.append(request.path)
        return Answer(200, b'{"metadata": {"resourceVersion": "1"}, "items": []}')


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


def test_job_documents_are_parsed_into_the_store():
    view = Cache((TENSORFLOW,), JobDefaults(), lambda _key: None)
    store: Store[CachedJob] = view.jobs["TFJob"]
    documents = handler(view)

    def a_document(version: str) -> dict:
        return {"metadata": {"namespace": "ml", "name": "mnist", "uid": "u", "resourceVersion": version}, "spec": {}}

    documents.replaced([a_document("1")], "2")
    assert [record.job.name for record in store.items.values()] == ["mnist"]
    documents.changed(a_document("3"))
    assert [record.version for record in store.items.values()] == ["3"]
    documents.removed(a_document("4"))
    assert store.items == {}


def test_the_event_of_an_own_write_is_not_decoded_again():
    parsed: list[str] = []
    view = Cache((TENSORFLOW,), JobDefaults(), lambda _key: None)
    store: Store[CachedJob] = view.jobs["TFJob"]

    def record(document: dict) -> CachedJob:
        parsed.append(document["metadata"]["resourceVersion"])
        return view.record(document, TENSORFLOW)

    informer = Informer(RestClient(Noted()), Path("", "tfjobs"), DOCUMENTS, JobHandler(store, record))
    for version in ("3", "3", "4"):
        informer._handle(
            b'{"type": "MODIFIED", "object": {"metadata": {"namespace": "ml", "name": "mnist", "uid": "u",'
            b' "resourceVersion": "%s"}, "spec": {}}}' % version.encode()
        )
    assert parsed == ["3", "4"]
    assert store.latest == "4"
