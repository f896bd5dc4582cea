"""What keeps a view informed: a list and a watch for each kind of object that it is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from trainshed.api.framework import Framework
from trainshed.api.job import Document
from trainshed.cluster.gateway import CORE
from trainshed.cluster.informer import Audience, Informer
from trainshed.cluster.lists import DOCUMENTS, PODS, SERVICES, dependents
from trainshed.cluster.objects import JOB_NAME
from trainshed.cluster.wire import Path, Wire

from .store import Store
from .view import Record, View


class Documents:
    """Reads the documents of jobs into a store of records."""

    def __init__(self, store: Store[Record], record: Callable[[Document], Record]) -> None:
        self._store = store
        self._record = record

    def replaced(self, items: list[Document], version: str) -> None:
        """These are all jobs of a kind."""
        self._store.replaced([self._record(item) for item in items], version)

    def changed(self, item: Document) -> None:
        """A job is new or different."""
        self._store.changed(self._record(item))

    def removed(self, item: Document) -> None:
        """A job is gone."""
        self._store.removed(self._record(item))

    def reached(self, version: str) -> None:
        """All that has happened to jobs of the kind until `version` is known."""
        self._store.reached(version)

    def count(self) -> int:
        """How many jobs of the kind are known."""
        return self._store.count()


def informers(wire: Wire, view: View, frameworks: Iterable[Framework], namespace: str) -> Iterator[Informer[Any]]:
    """One for each kind of job, for pods, Services and all other objects of jobs; no namespace means all of them."""
    for framework in frameworks:
        yield _jobs(wire, view, framework, namespace)
    yield Informer(wire, Path(CORE, "pods", namespace), PODS, view.pods.store, JOB_NAME)
    yield Informer(wire, Path(CORE, "services", namespace), SERVICES, view.services.store, JOB_NAME)
    for found, children in view.dependents.items():
        path = Path(found.prefix, found.plural, namespace)
        yield Informer(wire, path, dependents(found), children.store, JOB_NAME)


def _jobs(wire: Wire, view: View, framework: Framework, namespace: str) -> Informer[Document]:
    path = Path(framework.prefix, framework.plural, namespace)
    audience: Audience[Document] = Documents(view.jobs[framework.kind], lambda found: view.record(found, framework))
    return Informer(wire, path, DOCUMENTS, audience)
