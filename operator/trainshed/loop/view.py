"""What we know of jobs, pods and Services: fed by informers and the answers to our own writes, asked for snapshots."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, Protocol, TypeVar

from trainshed.api import read
from trainshed.api.framework import Framework
from trainshed.api.job import Document, Job
from trainshed.api.pod import Pod, Service
from trainshed.api.site import Site
from trainshed.api.snapshot import Snapshot, Trouble
from trainshed.api.status import Status


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """Which job."""

    namespace: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Record:
    """A job as it was read: its spec and its status at one version."""

    job: Job
    status: Status

    @property
    def uid(self) -> str:
        """The job's uid."""
        return self.job.uid

    @property
    def version(self) -> str:
        """The version at which it was read."""
        return self.job.version


class Item(Protocol):
    """Whatever has a uid and a version."""

    @property
    def uid(self) -> str:
        """Its uid."""

    @property
    def version(self) -> str:
        """Its version."""


T = TypeVar("T", bound=Item)
#: Told which items are different now, old or new; more often than needed does no harm.
Rumour = Callable[[Iterable[T]], None]


class Store(Generic[T]):
    """All objects of a kind by uid; an older version never takes the place of a newer one.

    Versions of one server ascend and may be compared as numbers (Kubernetes says so since 1.35).
    """

    def __init__(self, rumour: Rumour[T]) -> None:
        self.items: dict[str, T] = {}
        self._rumour = rumour
        self._latest = 0

    def replaced(self, items: list[T], version: str) -> None:
        """These are all there are, as of `version`; what we made since then stays."""
        before, self._latest = self.items, number(version)
        fresh = {item.uid: item for item in items}
        made_since = {uid: item for uid, item in before.items() if number(item.version) > self._latest}
        self.items = fresh | made_since
        gone = [item for uid, item in before.items() if uid not in self.items]
        self._rumour([*gone, *self.items.values()])

    def changed(self, item: T) -> None:
        """The watch says that this one is new or different."""
        self._latest = max(self._latest, number(item.version))
        self._put(item)

    def removed(self, item: T) -> None:
        """The watch says that this one is gone."""
        self._latest = max(self._latest, number(item.version))
        self.items.pop(item.uid, None)
        self._rumour((item,))

    def answered(self, item: T) -> None:
        """The answer to a write of ours. If the watch is past it and does not know it, it has come and gone already."""
        if item.uid in self.items or number(item.version) > self._latest:
            self._put(item)

    def forgotten(self, uid: str) -> None:
        """A write of ours found that this one is gone."""
        item = self.items.pop(uid, None)
        if item is not None:
            self._rumour((item,))

    def _put(self, item: T) -> None:
        known = self.items.get(item.uid)
        if known is None or number(item.version) >= number(known.version):
            self.items[item.uid] = item
            self._rumour((item,))


def number(version: str) -> int:
    """A resourceVersion as a number; 0 for what is none."""
    return int(version) if version.isdecimal() else 0


class Children(Generic[T]):
    """The objects of a kind by the uid of the job that owns them."""

    def __init__(self, wake: Callable[[T], None]) -> None:
        self.store: Store[T] = Store(self._heard)
        self._by_owner: defaultdict[str, dict[str, T]] = defaultdict(dict)
        self._wake = wake

    def of(self, owner: str) -> tuple[T, ...]:
        """The children of a job."""
        return tuple(self._by_owner[owner].values()) if owner in self._by_owner else ()

    def _heard(self, items: Iterable[T]) -> None:
        for item in items:
            owner: str = item.owner  # type: ignore[attr-defined]
            if item.uid in self.store.items:
                self._by_owner[owner][item.uid] = self.store.items[item.uid]
            elif owner in self._by_owner:
                self._by_owner[owner].pop(item.uid, None)
                if not self._by_owner[owner]:
                    del self._by_owner[owner]
            self._wake(item)


class View:
    """Everything that a look may look at. `wake` is told of each job that may have something new."""

    def __init__(self, frameworks: Iterable[Framework], site: Site, wake: Callable[[Key], None]) -> None:
        self._frameworks = {framework.kind: framework for framework in frameworks}
        self._site = site
        self._wake = wake
        self._keys: dict[str, Key] = {}
        self._current: dict[Key, str] = {}
        self._troubles: dict[Key, Trouble] = {}
        self.jobs = {kind: Store(self._heard_of_jobs) for kind in self._frameworks}
        self.pods: Children[Pod] = Children(self._heard_of_child)
        self.services: Children[Service] = Children(self._heard_of_child)

    def record(self, document: Document, framework: Framework) -> Record:
        """A job's document, read."""
        return Record(read.job(document, framework, self._site), read.status(document))

    def label(self, kind: str) -> str:
        """What the meters call a kind of job."""
        return self._frameworks[kind].label

    def snapshot(self, key: Key, now: datetime) -> Snapshot | None:
        """The job and what is its own, or None if there is no such job."""
        record = self.jobs[key.kind].items.get(self._current.get(key, ""))
        if record is None:
            return None
        return Snapshot(
            job=record.job,
            framework=self._frameworks[key.kind],
            site=self._site,
            status=record.status,
            pods=tuple(sorted(self.pods.of(record.uid), key=lambda pod: pod.name)),
            services=self.services.of(record.uid),
            now=now,
            trouble=self._troubles.get(key),
        )

    def stored(self, key: Key, document: Document) -> None:
        """A job as a write or an uncached read of ours has found it."""
        self.jobs[key.kind].answered(self.record(document, self._frameworks[key.kind]))

    def forget(self, key: Key) -> None:
        """There is no such job any more."""
        self.jobs[key.kind].forgotten(self._current.get(key, ""))

    def trouble(self, key: Key, trouble: Trouble | None) -> bool:
        """Remember why the server would not have what was asked of it; whether that is news."""
        news = self._troubles.get(key) != trouble
        self._troubles.pop(key, None)
        if trouble and key in self._current:
            self._troubles[key] = trouble
        return news

    def known(self) -> list[Key]:
        """All jobs that we know."""
        return list(self._current)

    def _heard_of_jobs(self, records: Iterable[Record]) -> None:
        for record in records:
            key = Key(record.job.namespace, record.job.kind, record.job.name)
            if record.uid in self.jobs[key.kind].items:
                self._keys[record.uid] = key
                self._current[key] = record.uid
            else:
                self._keys.pop(record.uid, None)
                if self._current.get(key) == record.uid:
                    del self._current[key]
                    self._troubles.pop(key, None)
            self._wake(key)

    def _heard_of_child(self, child: Pod | Service) -> None:
        key = self._keys.get(child.owner)
        if key:
            self._wake(key)
            return
        # Somebody else's, or left from a job that is gone: a namesake may be waiting for its name.
        for kind in self._frameworks:
            namesake = Key(child.namespace, kind, child.job)
            if namesake in self._current:
                self._wake(namesake)
