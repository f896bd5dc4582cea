"""Connects informers to a cache: one list and watch for each kind of object in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from trainshed.api.framework import Framework
from trainshed.api.job import Document
from trainshed.api.objects import JOB_NAME_LABEL
from trainshed.client.client import CORE
from trainshed.client.informer import Informer, ResourceEventHandler
from trainshed.client.lists import DOCUMENTS, PODS, SERVICES, dependent_decoder
from trainshed.client.transport import Path, RestClient

from .store import Store
from .view import Record, View


class Documents:
    """Parses the documents of jobs and passes them to the store of one kind."""

    def __init__(self, store: Store[Record], record: Callable[[Document], Record]) -> None:
        self._store = store
        self._record = record

    def replaced(self, items: list[Document], version: str) -> None:
        """Handle a list of all jobs of the kind."""
        self._store.replaced([self._record(item) for item in items], version)

    def changed(self, item: Document) -> None:
        """Handle a new or changed job."""
        self._store.changed(self._record(item))

    def removed(self, item: Document) -> None:
        """Handle a deleted job."""
        self._store.removed(self._record(item))

    def reached(self, version: str) -> None:
        """Handle a bookmark: all changes until `version` have been delivered."""
        self._store.reached(version)

    def count(self) -> int:
        """Return the number of jobs in the store."""
        return self._store.count()


def informers(wire: RestClient, view: View, frameworks: Iterable[Framework], namespace: str) -> Iterator[Informer[Any]]:
    """Yield the informers of one namespace (empty: all): one per kind of job, then pods, Services and dependents."""
    for framework in frameworks:
        yield _jobs(wire, view, framework, namespace)
    yield Informer(wire, Path(CORE, "pods", namespace), PODS, view.pods.store, JOB_NAME_LABEL)
    yield Informer(wire, Path(CORE, "services", namespace), SERVICES, view.services.store, JOB_NAME_LABEL)
    for found, children in view.dependents.items():
        path = Path(found.prefix, found.plural, namespace)
        yield Informer(wire, path, dependent_decoder(found), children.store, JOB_NAME_LABEL)


def _jobs(wire: RestClient, view: View, framework: Framework, namespace: str) -> Informer[Document]:
    path = Path(framework.prefix, framework.plural, namespace)
    audience: ResourceEventHandler[Document] = Documents(
        view.jobs[framework.kind], lambda found: view.record(found, framework)
    )
    return Informer(wire, path, DOCUMENTS, audience)
