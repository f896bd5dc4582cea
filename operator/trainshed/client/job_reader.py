"""Reads jobs of all kinds, their pods and Events, with the rights of the user who asks.

The kinds are those that the cluster serves: it says so itself, and no module of a kind has to be imported for it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from itertools import islice
from typing import Generic, TypeVar

import msgspec

from trainshed.api.coerce import ELLIPSIS, as_mapping, as_sequence, parse_count, parse_text, replica_specs
from trainshed.api.job import KUEUE_PREFIX, Document
from trainshed.api.objects import JOB_NAME_LABEL, Pod

from . import ApiError, Forbidden, NotFound, Unavailable
from .lists import (
    DOCUMENTS,
    JSON_OBJECT,
    KEPT_BYTES,
    MOST_BYTES,
    PARTS,
    PODS,
    Decoder,
    JobParts,
    decode_items,
    held_devices,
    job_document,
    list_pages,
    run_policy,
)
from .transport import Path, RestClient

T = TypeVar("T")
CORE, GROUP, METRICS = "/api/v1", "kubeflow.org", "/apis/metrics.k8s.io/v1beta1"
#: The Workloads of Kueue, which have the uid of their job as a label (pkg/controller/constants of Kueue 0.19).
KUEUE, JOB_UID = f"/apis/{KUEUE_PREFIX}v1beta1", f"{KUEUE_PREFIX}job-uid"
#: The versions of the group that jobs have. Others of the group, such as Notebook, are no jobs: their names tell.
VERSIONS, SUFFIX = ("v1", "v2beta1"), "Job"
#: The characters of a time up to its seconds.
SECONDS = len("2026-01-01T12:00:00")
#: The words with which users mean pods.
POD_WORDS = ("pod", "pods", "po")
PODS_ARE_NOT_JOBS = (
    "trainshed get shows jobs, and trainshed explain JOB what their pods do; kubectl get pods shows pods"
)
ALL_JOBS = "trainshed get -A shows the jobs of all namespaces"
#: The job that was created last, in place of a name.
LATEST = "@latest"
#: The most Events that are read of one job and of its pods, and the bytes after which no more are read: any user who
#: may create Events can create these.
MOST_EVENTS, MOST_EVENT_BYTES = 5_000, 64 * 1024 * 1024
#: The most characters of the texts and of the message of an Event: the API server limits only those of newer clients,
#: to so many (ValidateEventCreate in k8s.io/kubernetes/pkg/apis/core/validation).
MOST_TEXT, MOST_MESSAGE = 256, 1024
#: The most containers that are read of a pod, and devices that are read of a container.
MOST_CONTAINERS, MOST_DEVICES = 256, 16
#: Reads what is needed of a job: of the job without its spec, and the function that decodes all of it.
Reading = Callable[[Document, Callable[[], Document]], T]


class JobKind(msgspec.Struct, frozen=True):
    """A kind of jobs that the cluster serves."""

    kind: str
    plural: str
    prefix: str

    def is_named(self, text: str) -> bool:
        """Return whether a word of the command line means this kind, as kubectl takes it."""
        name = text.lower().removesuffix(f".{GROUP}")
        return name in (self.plural, self.kind.lower())


class NoSuchJob(Exception):
    """There is no such job, or there are several; the message says what to do."""


class Found(msgspec.Struct, Generic[T], frozen=True):
    """What was read of jobs, and why those of some kinds could not be read."""

    jobs: list[T]
    refused: list[str]


class Jobs(msgspec.Struct, frozen=True):
    """The jobs that are meant: those of some kinds, in a namespace or in all, with the selectors of a query."""

    kinds: Sequence[JobKind]
    namespace: str
    query: Mapping[str, str]


class JobReader:
    """Reads over a client, `rest`; every method may raise an `ApiError`."""

    def __init__(self, rest: RestClient) -> None:
        self.rest = rest

    async def kinds(self) -> list[JobKind]:
        """Return the kinds of jobs that the cluster serves; raises `NoSuchJob` if there are none."""
        found = [kind for part in await asyncio.gather(*map(self._served, VERSIONS)) for kind in part]
        if not found:
            raise NoSuchJob(
                "the cluster has no kinds of jobs: the CRDs of Trainshed are not installed (trainshed crds prints them)"
            )
        return found

    async def _served(self, version: str) -> list[JobKind]:
        path = Path(f"/apis/{GROUP}", version)
        try:
            answer = DOCUMENTS.answer(await self.rest.call("GET", path))
        except NotFound:
            return []
        items = map(as_mapping, as_sequence(answer.get("resources")))
        named = [(parse_text(item.get("kind")), parse_text(item.get("name"))) for item in items]
        return [
            JobKind(kind, plural, str(path)) for kind, plural in named if kind.endswith(SUFFIX) and "/" not in plural
        ]

    async def jobs(self, wanted: Jobs, read: Reading[T]) -> Found[T]:
        """Return what `read` makes of each job; nothing else is kept. Raises `Forbidden` if no kind may be read."""
        answers = await asyncio.gather(*(self._of_kind(kind, wanted, read) for kind in wanted.kinds))
        refused = [answer for answer in answers if isinstance(answer, Forbidden)]
        if refused and len(refused) == len(answers):
            raise refused[0]
        jobs = [job for answer in answers if not isinstance(answer, Forbidden) for job in answer]
        return Found(jobs, [str(error) for error in refused])

    async def _of_kind(self, kind: JobKind, wanted: Jobs, read: Reading[T]) -> list[T] | Forbidden:
        path = Path(kind.prefix, kind.plural, wanted.namespace)
        try:
            jobs = await self.read_list(path, decoder(kind, read), wanted.query, most_bytes=MOST_BYTES)
            return [job for _, job in jobs]
        except Forbidden as error:
            return error

    async def names(self, words: Sequence[str]) -> list[str]:
        """Return the names of jobs that words mean, at least one; raises `NoSuchJob` if they are kinds only."""
        _, names = split(words, await self.kinds())
        if not names:
            raise NoSuchJob("name the jobs: trainshed get shows those that there are")
        return names

    async def find(self, namespace: str, text: str) -> tuple[Document, JobKind]:
        """Return the job that `text` names: `mnist`, `pytorchjob/mnist` or `@latest`; raises `NoSuchJob`."""
        word, slash, name = text.rpartition("/")
        if word.lower() in POD_WORDS:
            raise NoSuchJob(await self._of_pod(namespace, name) or f"there is no pod {name} in namespace {namespace}")
        kinds = await self.kinds()
        chosen = [kind for kind in kinds if not slash or kind.is_named(word)]
        if not chosen:
            raise NoSuchJob(f"there is no kind of jobs {word}; the cluster has {', '.join(k.kind for k in kinds)}")
        if name == LATEST:
            return await self._latest(namespace, chosen)
        answers = await asyncio.gather(*(self._job(kind, namespace, name) for kind in chosen))
        found = [answer for answer in answers if isinstance(answer, tuple)]
        refused = [answer for answer in answers if isinstance(answer, ApiError)]
        if not found and refused:
            raise refused[0]
        if not found:
            what = chosen[0].kind if slash else "job"
            hint = f"there is no {what} {name} in namespace {namespace}: {ALL_JOBS}"
            raise NoSuchJob(PODS_ARE_NOT_JOBS if name in POD_WORDS else await self._of_pod(namespace, name) or hint)
        if len(found) > 1:
            names = " or ".join(f"{kind.kind.lower()}/{name}" for _, kind in found)
            raise NoSuchJob(f"{name} is the name of several jobs: say {names}")
        return found[0]

    async def _of_pod(self, namespace: str, name: str) -> str:
        """Return what to say to who means a pod of this name; empty if no job has it, or it may not be read."""
        try:
            answer = DOCUMENTS.answer(await self.rest.call("GET", Path(CORE, "pods", namespace, name)))
        except ApiError:
            return ""
        labels = as_mapping(as_mapping(answer.get("metadata")).get("labels"))
        job = parse_text(labels.get(JOB_NAME_LABEL))
        if not job:
            return ""
        words = f"{job} -n {namespace}"
        return (
            f"{name} is a pod of job {job}: trainshed logs {words} --replica {name.removeprefix(f'{job}-')} prints its "
            f"output, and trainshed explain {words} says what it does"
        )

    async def job(self, kind: JobKind, namespace: str, name: str) -> Document | None:
        """Return a job, or None if it does not exist."""
        try:
            answer = await self.rest.call("GET", Path(kind.prefix, kind.plural, namespace, name))
        except NotFound:
            return None
        found = named(DOCUMENTS.answer(answer), kind)
        if not _is_identified(found):
            raise Unavailable(f"the API server has answered with what is no {kind.kind}")
        return found

    async def _job(self, kind: JobKind, namespace: str, name: str) -> tuple[Document, JobKind] | Forbidden | None:
        try:
            found = await self.job(kind, namespace, name)
        except Forbidden as error:
            return error
        return (found, kind) if found else None

    async def _latest(self, namespace: str, kinds: Sequence[JobKind]) -> tuple[Document, JobKind]:
        found = await self.jobs(Jobs(kinds, namespace, {}), lambda job, _: (_created(job), job["kind"], _name(job)))
        if not found.jobs:
            raise NoSuchJob(f"there is no job in namespace {namespace}")
        _, word, name = max(found.jobs)
        kind = next(kind for kind in kinds if kind.kind == word)
        if (newest := await self.job(kind, namespace, name)) is None:
            raise NoSuchJob(f"{word.lower()}/{name} was deleted meanwhile")
        return newest, kind

    async def pods(self, job: Document) -> tuple[Pod, ...]:
        """Return the pods of a job by name: those that it controls, not all with its label."""
        own = (pod for pod in await self._labelled(job, CORE, PODS) if pod.owner == job["metadata"]["uid"])
        return tuple(sorted(own, key=lambda pod: pod.name))

    async def pods_with_resources(self, job: Document) -> list[Document]:
        """Return the pods of a job, those that it controls, in any order: what they request, and where they are."""
        uid = job["metadata"]["uid"]
        return [pod for pod, owner in await self._labelled(job, CORE, POD_RESOURCES) if owner == uid]

    async def metrics(self, job: Document) -> list[Document]:
        """Return the use of pods with the job's label; raises `NotFound` and others without metrics-server."""
        return await self._labelled(job, METRICS, POD_METRICS)

    async def _labelled(self, job: Document, prefix: str, kind: Decoder[T]) -> list[T]:
        metadata = job["metadata"]
        label = {"labelSelector": f"{JOB_NAME_LABEL}={metadata['name']}"}
        return await self.read_list(Path(prefix, "pods", metadata["namespace"]), kind, label)

    async def events(self, job: Document, pods: Sequence[Pod] = ()) -> list[Document]:
        """Return the Events about a job, these pods, and pods of it that are gone, in any order: what a table shows.

        Of a pod that is gone its name is known, and that the Event is not older than the job.
        """
        found, path = await self.events_of_job(job), Path(CORE, "events", job["metadata"]["namespace"])
        present, known = {pod.name: pod.uid for pod in pods}, _pod_names(job)
        about = await self.read_list(path, JOB_EVENTS, {"fieldSelector": "involvedObject.kind=Pod"}, MOST_EVENTS)
        return found + [event for event in about if _is_of(event, job, present, known)]

    async def events_of_job(self, job: Document) -> list[Document]:
        """Return the Events about a job itself, in any order."""
        query = {"fieldSelector": f"involvedObject.uid={job['metadata']['uid']}"}
        return await self.read_list(Path(CORE, "events", job["metadata"]["namespace"]), JOB_EVENTS, query, MOST_EVENTS)

    async def events_of_pod(self, namespace: str, pod: str) -> list[Document]:
        """Return the Events about the pods that have or had this name, in any order."""
        query = {"fieldSelector": f"involvedObject.kind=Pod,involvedObject.name={pod}"}
        return await self.read_list(Path(CORE, "events", namespace), JOB_EVENTS, query, MOST_EVENTS)

    def log(self, namespace: str, pod: str, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """Yield the lines of the log of a container of a pod, with the options of the API in `query`."""
        return self.rest.log(Path(CORE, "pods", namespace, pod, "log"), query)

    async def workload(self, job: Document) -> Document | None:
        """Return the Workload that Kueue has made for a job; None without one, or if it may not be read."""
        path, label = Path(KUEUE, "workloads", job["metadata"]["namespace"]), f"{JOB_UID}={job['metadata']['uid']}"
        try:
            found = await self.read_list(path, DOCUMENTS, {"labelSelector": label})
        except (NotFound, Forbidden):
            return None
        return found[0] if found else None

    async def read_list(
        self, path: Path, kind: Decoder[T], query: Mapping[str, str], most: int = 0, *, most_bytes: int = KEPT_BYTES
    ) -> list[T]:
        """List the objects at a path, at most about `most` of them, and not without end, if it is not 0."""
        found: list[T] = []
        size = 0
        async for page in list_pages(self.rest, path, query, most_bytes=most_bytes):
            found += decode_items(kind, page, path.plural)
            size += sum(map(len, page.items))
            if most and (len(found) >= most or size >= MOST_EVENT_BYTES):
                break
        return found


def decoder(kind: JobKind, read: Reading[T]) -> Decoder[tuple[str, T]]:
    """Return the decoder of the jobs of a kind: their uid, and what is read of them. Nothing else of them is kept.

    Of the spec that is what tables say about it: until when the job may run, and which devices it holds after its end.
    """

    def convert(found: JobParts, content: msgspec.Raw | bytes) -> tuple[str, T]:
        job = named({**job_document(found), "spec": {**run_policy(found.spec), **held_devices(found)}}, kind)
        return parse_text(job["metadata"].get("uid")), read(job, lambda: named(DOCUMENTS.answer(content), kind))

    return Decoder(PARTS, convert)


def _pod_names(job: Document) -> re.Pattern[str]:
    """Return what the names of the pods of a job are like."""
    roles = [role.lower() for _, role, _ in replica_specs(job)]
    return re.compile(rf"{re.escape(_name(job))}-(?:{'|'.join(map(re.escape, roles))})(?:-[0-9]+)?")


def _is_of(event: Document, job: Document, present: Mapping[str, str], names: re.Pattern[str]) -> bool:
    about = event["involvedObject"]
    if about["uid"] in present.values():
        return True
    seen = max(event["lastTimestamp"], event["eventTime"], event["metadata"]["creationTimestamp"])
    return bool(names.fullmatch(about["name"])) and seen[:SECONDS] >= _created(job)[:SECONDS]


def _created(job: Document) -> str:
    return parse_text(job["metadata"].get("creationTimestamp"))


def _name(job: Document) -> str:
    return parse_text(job["metadata"].get("name"))


def job_event(event: Document) -> Document:
    """Return what is shown of an Event, each text cut to a length that a table can show."""
    about, series = as_mapping(event.get("involvedObject")), as_mapping(event.get("series"))
    metadata = as_mapping(event.get("metadata"))
    return {
        **{name: _cut(event.get(name)) for name in ("type", "reason", "lastTimestamp", "eventTime")},
        "count": parse_count(event.get("count")),
        "message": _cut(event.get("message"), MOST_MESSAGE),
        "metadata": {"creationTimestamp": _cut(metadata.get("creationTimestamp"))},
        "involvedObject": {name: _cut(about.get(name)) for name in ("kind", "name", "uid")},
        "series": {
            "count": parse_count(series.get("count")),
            "lastObservedTime": _cut(series.get("lastObservedTime")),
        },
    }


def _cut(value: object, most: int = MOST_TEXT) -> str:
    text = parse_text(value)
    return text if len(text) <= most else text[: most - len(ELLIPSIS)] + ELLIPSIS


JOB_EVENTS: Decoder[Document] = Decoder(JSON_OBJECT, lambda found, _: job_event(found))


def pod_resources(pod: Document) -> tuple[Document, str]:
    """Return what the containers of a pod request, its node and its phase, and the uid of its controller.

    The rest of a pod may be large, and so may its requests: any name is a resource.
    """
    spec = as_mapping(pod.get("spec"))
    containers = as_sequence(spec.get("containers"))[:MOST_CONTAINERS]
    resources = (as_mapping(as_mapping(item).get("resources")) for item in containers)
    parts = [{part: _amounts(found.get(part)) for part in ("limits", "requests")} for found in resources]
    kept = {
        "metadata": {"name": _cut(as_mapping(pod.get("metadata")).get("name"))},
        "spec": {"nodeName": _cut(spec.get("nodeName")), "containers": [{"resources": found} for found in parts]},
        "status": {"phase": _cut(as_mapping(pod.get("status")).get("phase"))},
    }
    return kept, _controller(pod)


def _pod_metrics(found: Document) -> Document:
    used = (as_mapping(item).get("usage") for item in as_sequence(found.get("containers"))[:MOST_CONTAINERS])
    name = _cut(as_mapping(found.get("metadata")).get("name"))
    return {"metadata": {"name": name}, "containers": [{"usage": _amounts(amounts)} for amounts in used]}


def _amounts(found: object) -> dict[str, str]:
    """Return amounts of resources: of CPU and memory, and then of devices, a limited number of them."""
    known = as_mapping(found)
    names = islice((name for name in known if "/" in name), MOST_DEVICES)
    return {name: _cut(known[name]) for name in ("cpu", "memory", *names) if name in known}


POD_RESOURCES: Decoder[tuple[Document, str]] = Decoder(JSON_OBJECT, lambda found, _: pod_resources(found))
POD_METRICS: Decoder[Document] = Decoder(JSON_OBJECT, lambda found, _: _pod_metrics(found))


def split(words: Sequence[str], served: Sequence[JobKind]) -> tuple[list[JobKind], list[str]]:
    """Return the kinds and the jobs that words name, in kubectl's way: `pytorchjob a b` are two jobs of one kind."""
    kinds = [kind for word in words for kind in served if kind.is_named(word)]
    names = [word for word in words if not any(kind.is_named(word) for kind in served)]
    return kinds, [f"{kind.plural}/{name}" for kind in kinds for name in names] or names


def _controller(document: Document) -> str:
    """Return the uid of the owner that controls an object; empty without one."""
    owners = map(as_mapping, as_sequence(as_mapping(document.get("metadata")).get("ownerReferences")))
    return next((parse_text(owner.get("uid")) for owner in owners if owner.get("controller")), "")


def _is_identified(job: Document) -> bool:
    metadata = as_mapping(job.get("metadata"))
    texts = (job["apiVersion"], job["kind"], *(metadata.get(key) for key in ("namespace", "name", "uid")))
    return all(isinstance(text, str) and text for text in texts)


def named(job: Document, kind: JobKind) -> Document:
    """Return the job with its kind, which items of lists may lack."""
    return {"apiVersion": kind.prefix.removeprefix("/apis/"), "kind": kind.kind, **job}
