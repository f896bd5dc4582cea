"""What the page knows: jobs and pods of a cluster as they change, what has gone since, and what was reported before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

import msgspec

from trainshed.api import status_codec
from trainshed.api.coerce import as_mapping, parse_text
from trainshed.api.job import Document
from trainshed.api.objects import JOB_NAME_LABEL
from trainshed.client import UNAUTHORIZED, ApiError, Forbidden, NotFound, Unavailable
from trainshed.client.informer import Informer
from trainshed.client.job_reader import CORE, JobKind, JobReader, NoSuchJob, decoder
from trainshed.client.job_watch import Change, Known
from trainshed.client.outage import PATIENCE
from trainshed.client.transport import Path
from trainshed.process import Clock
from trainshed.views import refusals

from .model import Address, JobFile, Notice, Sample, SeenPod, address_of
from .samples import sample_of, with_sample
from .seen_pods import SEEN_PODS, controller_uid

#: The most jobs that are kept after they were deleted, and pods of a job.
MOST_DELETED_JOBS, MOST_REMOVED_PODS = 100, 256
#: Seconds between two tries to find out which kinds the cluster serves, and between two checks for an outage.
AGAIN, POLL_SECONDS = 5.0, 1.0
NO_KINDS = "The cluster has no kinds of jobs: the CRDs of Trainshed are not installed (trainshed crds prints them)."
OUTAGE = "The API server does not answer, so that this is what was known before: {error}. Trying again."
#: The same before anything is known.
UNREACHED = "The API server does not answer: {error}. Trying again."
REJECTED = (
    "The API server rejects the credentials, so that this is what was known before: {error}. Log in to the cluster "
    "again, as for kubectl; this page goes on by itself then, or after a new start of trainshed ui."
)


class Listed(msgspec.Struct, frozen=True):
    """A job without its spec, and what decodes all of it."""

    document: Document
    whole: Callable[[], Document]


class _Entry:
    """What is known of one job."""

    __slots__ = ("deleted", "kind", "listed", "revision", "samples", "status")

    def __init__(self, listed: Listed, revision: int) -> None:
        self.listed, self.revision = listed, revision
        self.status = status_codec.parse_status(listed.document)
        self.samples: tuple[Sample, ...] = ()
        self.deleted: datetime | None = None

    @property
    def uid(self) -> str:
        return _uid(self.listed.document)


class Feed:
    """Follows the jobs of a namespace, or of all if it is empty, and their pods, with the rights of the reader.

    `revision` grows with each change, from that of a feed whose readers continue with this one; `changed` returns the
    jobs that have changed since one. What is gone stays known for as long as there is room for it.
    """

    def __init__(
        self, reader: JobReader, namespace: str, now: Callable[[], datetime] | None = None, revision: int = 0
    ) -> None:
        self.reader, self.namespace, self.now = reader, namespace, now or Clock().now
        self.revision = revision
        self.kinds: list[JobKind] = []
        self.synced = asyncio.Event()
        self.is_over = False
        self._entries: dict[Address, _Entry] = {}
        self._pods: dict[str, dict[str, SeenPod]] = {}
        self._addresses: dict[str, Address] = {}
        self._informers: list[Informer[tuple[str, Listed]] | Informer[tuple[str, Document]]] = []
        self._notices: tuple[Notice, ...] = ()
        self._refused: dict[str, str] = {}
        self._error: ApiError | None = None
        self._news = asyncio.Event()

    # ------------------------------------------------------------------------------------------------------- reading

    @property
    def size(self) -> int:
        """How many jobs and pods it knows."""
        return len(self._entries) + sum(map(len, self._pods.values()))

    def files(self) -> list[JobFile]:
        """Return all jobs, without what only their own pages need."""
        return [_file(entry) for entry in self._entries.values()]

    def changed(self, since: int) -> list[JobFile]:
        """Return the jobs that have changed after a revision, as `files` does."""
        return [_file(entry) for entry in self._entries.values() if entry.revision > since]

    def revision_of(self, address: Address) -> int:
        """Return the revision of the last change of a job or its pods; 0 if it is not known."""
        entry = self._entries.get(address)
        return entry.revision if entry else 0

    def file(self, address: Address) -> JobFile | None:
        """Return what is known of a job without a further request: all but Events and story."""
        entry = self._entries.get(address)
        if entry is None:
            return None
        pods = tuple(self._pods.get(entry.uid, {}).values())
        return msgspec.structs.replace(_file(entry), document=entry.listed.whole(), pods=pods)

    def pods(self) -> dict[Address, tuple[SeenPod, ...]]:
        """Return the pods of all jobs that are known."""
        return {
            address: tuple(self._pods.get(entry.uid, {}).values())
            for address, entry in self._entries.items()
            if not entry.deleted
        }

    def kind_of(self, document: Document) -> JobKind | None:
        """Return the kind of a job among those that the cluster serves."""
        prefix = f"/apis/{document.get('apiVersion')}"
        return next((one for one in self.kinds if (one.kind, one.prefix) == (document.get("kind"), prefix)), None)

    def notices(self) -> tuple[Notice, ...]:
        """Return what is to be said about all that is known: an outage, and what may not be read, once each."""
        return self._notices

    async def newer(self, revision: int) -> int:
        """Wait until something has changed after a revision; return the new one."""
        while self.revision <= revision:
            await self._news.wait()
        return self.revision

    def close(self) -> None:
        """End what waits for changes: nothing that was read counts any more."""
        self.is_over = True
        self._note()

    # ----------------------------------------------------------------------------------------------------- following

    async def run(self) -> None:
        """Follow the cluster without end; what goes wrong meanwhile is among the notices."""
        kinds = await self._served()
        self.kinds = kinds
        async with asyncio.TaskGroup() as tasks:
            for kind in kinds:
                path = Path(kind.prefix, kind.plural, self.namespace)
                self._follow(tasks, Informer(self.reader.rest, path, decoder(kind, Listed), Known({}, self._job)))
            path = Path(CORE, "pods", self.namespace)
            self._follow(tasks, Informer(self.reader.rest, path, SEEN_PODS, Known({}, self._pod), JOB_NAME_LABEL))
            tasks.create_task(self._note_outages())

    def _follow(
        self, tasks: asyncio.TaskGroup, informer: Informer[tuple[str, Listed]] | Informer[tuple[str, Document]]
    ) -> None:
        self._informers.append(informer)
        tasks.create_task(informer.run(lambda error: self._failed(informer.what, error)))

    async def _served(self) -> list[JobKind]:
        while True:
            try:
                kinds = await self.reader.kinds()
            except NoSuchJob:
                self._say((Notice("refused", NO_KINDS),))
            except ApiError as error:
                self._say((_outage(error, known=False),))
            else:
                self._say(())
                return kinds
            await asyncio.sleep(AGAIN)

    def _failed(self, what: str, error: ApiError) -> None:
        if isinstance(error, Forbidden):
            self._refused[what] = refusals.sentence(str(error), error.reason)
        elif not isinstance(error, NotFound):
            self._error = error

    async def _note_outages(self) -> None:
        """Note from time to time whether the API server answers, and when all was read first."""
        loop = asyncio.get_running_loop()
        while True:
            read = all(informer.synced.is_set() or informer.refused for informer in self._informers)
            if read and not self.synced.is_set():
                self.synced.set()
                self._note()
            now = loop.time()
            silent = [one for one in self._informers if not one.refused and one.failing(now) >= PATIENCE]
            self._refused = {one.what: self._refused.get(one.what, "") for one in self._informers if one.refused}
            refused = tuple(Notice("refused", f"Not shown: {text}") for text in dict.fromkeys(self._refused.values()))
            outage = (_outage(self._error, known=self.synced.is_set()),) if silent and self._error else ()
            self._say((*outage, *refused))
            await asyncio.sleep(POLL_SECONDS if self.synced.is_set() else POLL_SECONDS / 10)

    def _say(self, notices: Sequence[Notice]) -> None:
        if tuple(notices) != self._notices:
            self._notices = tuple(notices)
            self._note()

    def _note(self) -> int:
        """Note a change, and wake all that wait for one; return its revision."""
        self.revision += 1
        self._news.set()
        self._news = asyncio.Event()
        return self.revision

    def _job(self, change: Change[Listed]) -> None:
        listed = change.item
        address, uid = address_of(listed.document), _uid(listed.document)
        known = self._entries.get(address)
        if change.deleted:
            if known and known.uid == uid and not known.deleted:
                known.listed, known.deleted, known.revision = listed, self.now(), self._note()
                self._forget_some()
            return
        if known and known.uid == uid and not known.deleted and _version(known.listed) == _version(listed):
            return  # a second list after an outage, or the same job in another version of its kind
        entry = _Entry(listed, self._note())
        if known and known.uid == uid:
            entry.samples = known.samples
        elif known:
            self._drop(known.uid)
        entry.samples = with_sample(entry.samples, sample_of(entry.status))
        self._entries[address], self._addresses[uid] = entry, address

    def _pod(self, change: Change[Document]) -> None:
        pod = change.item
        job, uid = controller_uid(pod), _uid(pod)
        known = self._pods.setdefault(job, {})
        known[uid] = SeenPod(pod, self.now() if change.deleted else None)
        if change.deleted:
            gone = [one for one, seen in known.items() if seen.removed]
            for one in gone[: max(0, len(gone) - MOST_REMOVED_PODS)]:
                del known[one]
        if (address := self._addresses.get(job)) and not self._entries[address].deleted:
            self._entries[address].revision = self._note()
        elif change.deleted and address is None and all(seen.removed for seen in known.values()):
            del self._pods[job]

    def _forget_some(self) -> None:
        """Forget the jobs that were deleted first, if there are too many."""
        deleted = sorted(
            ((entry.deleted, address) for address, entry in self._entries.items() if entry.deleted),
            key=lambda found: found[0],
        )
        for _, address in deleted[: max(0, len(deleted) - MOST_DELETED_JOBS)]:
            self._drop(self._entries.pop(address).uid)

    def _drop(self, uid: str) -> None:
        self._pods.pop(uid, None)
        self._addresses.pop(uid, None)


def _file(entry: _Entry) -> JobFile:
    return JobFile(entry.listed.document, entry.status, samples=entry.samples, deleted=entry.deleted)


def _outage(error: ApiError, *, known: bool) -> Notice:
    is_rejected = isinstance(error, Unavailable) and error.reason == UNAUTHORIZED
    text = (REJECTED if is_rejected else OUTAGE if known else UNREACHED).format(error=error)
    return Notice("credentials" if is_rejected else "outage", text)


def _uid(document: Document) -> str:
    return parse_text(as_mapping(document.get("metadata")).get("uid"))


def _version(listed: Listed) -> str:
    return parse_text(as_mapping(listed.document.get("metadata")).get("resourceVersion"))


def of_namespace(files: Iterable[JobFile], namespace: str) -> list[JobFile]:
    """Return the jobs of a namespace; all if it is empty."""
    return [file for file in files if not namespace or file.address.namespace == namespace]
