"""The cluster of a local run: the API server in memory, its garbage collector, and what users and kubelets do there."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from trainshed.api.framework import Framework
from trainshed.api.job import Document
from trainshed.memory.built_in import BUILT_IN, NAMESPACES, PODS, job_resource
from trainshed.memory.garbage_collector import GarbageCollector
from trainshed.memory.registry import DeleteOptions, object_key
from trainshed.memory.server import Server
from trainshed.memory.versioned_store import Commit

from .stored_objects import POD, Listener, Stored, as_created, is_deleted

#: How many changes of each kind a watch can be behind.
HISTORY = 500


class LocalCluster:
    """A server with these kinds of jobs; `listeners` are called soon after each change."""

    def __init__(self, now: Callable[[], datetime], frameworks: Iterable[Framework]) -> None:
        resources = BUILT_IN + tuple(job_resource(framework) for framework in frameworks)
        seed = random.getrandbits(48)
        self.server = Server(lambda: now().timestamp(), resources, seed=seed, history=HISTORY)
        self.server.store.listeners.append(self._on_commit)
        self.listeners: list[Listener] = []
        self._by_kind = {resource.kind: resource for resource in resources}
        self._collector = GarbageCollector(self.server)

    def apply(self, document: Document) -> Stored:
        """Create an object, or replace everything of an existing one except for its status; return it."""
        document = as_created(document)
        resource, namespace = self._by_kind[document["kind"]], document["metadata"]["namespace"]
        if self.server.store.get(NAMESPACES, namespace) is None:
            self.server.make_namespace(namespace)
        name = document["metadata"]["name"]
        known = self.find(document["kind"], namespace, name)
        if known is None:
            return self.server.registry.create(resource, namespace, document).document
        version = {"resourceVersion": known["metadata"]["resourceVersion"]}
        replaced = {**document, "metadata": {**document["metadata"], **version}}
        return self.server.registry.replace(resource, namespace, name, replaced).document

    def find(self, kind: str, namespace: str, name: str) -> Stored | None:
        """Return an object, None if there is none of this name."""
        found = self.server.store.get(self._by_kind[kind], object_key(namespace, name))
        return found.document if found else None

    def of(self, kind: str) -> Iterator[Stored]:
        """Iterate over the objects of a kind, the oldest first."""
        return (found.document for found in list(self.server.store.table(self._by_kind[kind]).values()))

    def set_pod_status(self, found: Document, status: Document, node: str = "") -> bool:
        """Replace the status of this very pod, and bind it to the node first; return False if it is gone."""
        current = self._current(found)
        if current is None:
            return False
        namespace, name = current["metadata"]["namespace"], current["metadata"]["name"]
        if node and not current["spec"].get("nodeName"):
            current = self.server.registry.bind(namespace, name, node).document
        self.server.registry.replace(PODS, namespace, name, {**current, "status": status}, "status")
        return True

    def confirm_deletion(self, found: Document) -> None:
        """Remove a pod whose containers have ended; one with finalizers stays until they are removed."""
        if current := self._current(found):
            metadata = current["metadata"]
            self.server.registry.delete(PODS, metadata["namespace"], metadata["name"], DeleteOptions(grace=0))

    def _current(self, found: Document) -> Stored | None:
        metadata = found["metadata"]
        current = self.find(POD, metadata["namespace"], metadata["name"])
        return current if current and current["metadata"]["uid"] == metadata["uid"] else None

    def _on_commit(self, commit: Commit) -> None:
        before = commit.before.document if commit.before else None
        after = None if commit.deleted else commit.after.document
        loop = asyncio.get_running_loop()
        for listener in self.listeners:
            loop.call_soon(listener, commit.resource.kind, before, after)
        if self.server.store.dependents(commit.after.uid) and (commit.deleted or is_deleted(commit.after.document)):
            loop.call_soon(self._collector.run)
