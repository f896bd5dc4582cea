"""Receives reports of the progress of trainings as Kubeflow Trainer does (KEP-2779): who may report, and what."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, Protocol

import msgspec
import orjson
from aiohttp import web

from trainshed.api.coerce import without_none
from trainshed.api.job import Job, JobKey, ProgressSource
from trainshed.api.trainer_status import TrainerStatus
from trainshed.api.training import parse_report
from trainshed.plan.messages import progress_reports as messages
from trainshed.plan.messages.progress_reports import PASSING, ReportRefusal
from trainshed.plan.reporting_pods import GROUP, audience

from .cache import Cache
from .events import EventRecorder
from .progress_tokens import BadToken, Rates, Sender, TooManyReviews

#: Trainer's limit of a body, the seconds in which it has to arrive, and the reports of a job: a second, and at once.
MAX_BYTES, READ_SECONDS, OF_JOB = 65_536, 8.0, (1.0, 5)
PATH = f"/apis/{GROUP}/namespaces/{{namespace:[a-z0-9-]{{1,63}}}}/trainjobs/{{name:[a-z0-9.-]{{1,253}}}}/status"
#: The HTTP code of each reason, and its name in Kubernetes.
CODES = {
    ReportRefusal.BAD_TOKEN: (403, "Forbidden"),
    ReportRefusal.OTHER_JOB: (403, "Forbidden"),
    ReportRefusal.NOT_ASKED_FOR: (403, "Forbidden"),
    ReportRefusal.UNKNOWN_JOB: (404, "NotFound"),
    ReportRefusal.TOO_LARGE: (413, "RequestEntityTooLarge"),
    ReportRefusal.MALFORMED: (422, "Invalid"),
    ReportRefusal.TOO_OFTEN: (429, "TooManyRequests"),
    ReportRefusal.BUSY: (429, "TooManyRequests"),
    ReportRefusal.NO_LEADER: (503, "ServiceUnavailable"),
}

#: What `trainerStatus` has; the time is not read.
KNOWN_KEYS = ("progressPercentage", "estimatedRemainingSeconds", "metrics", "lastUpdatedTime")

log = logging.getLogger(__name__)


class _Metric(msgspec.Struct):
    name: str
    value: str


class _Report(msgspec.Struct):
    """What Trainer accepts; longer names and values are accepted as well, and cut."""

    progressPercentage: Annotated[int, msgspec.Meta(ge=0, le=100)] | None = None  # noqa: N815 - Trainer's name
    estimatedRemainingSeconds: Annotated[int, msgspec.Meta(ge=0)] | None = None  # noqa: N815 - as above
    metrics: Annotated[list[_Metric], msgspec.Meta(max_length=256)] | None = None


class _Body(msgspec.Struct):
    trainerStatus: _Report | None = None  # noqa: N815 - Trainer's name


class ReportRefused(Exception):
    """A report is refused; the message is for the client, and for the owner of the job if it is known."""

    def __init__(self, reason: ReportRefusal, message: str, jobs: Iterable[Job] = ()) -> None:
        super().__init__(message)
        self.reason, self.jobs = reason, tuple(jobs)


class ReportingJobs(Protocol):
    """The jobs that the operator knows, of all namespaces."""

    def job_of_pod(self, namespace: str, name: str, uid: str) -> Job | None:
        """Return the job that a pod belongs to, None if one of both is not known."""

    def of_name(self, namespace: str, name: str) -> tuple[Job, ...]:
        """Return the jobs of a name, which may be of several kinds."""

    def report(self, key: JobKey, uid: str, status: TrainerStatus, pod: tuple[str, str]) -> None:
        """Take a report."""


class KnownJobs:
    """Implements `ReportingJobs` by the caches of namespaces, by their names; that of all has an empty one."""

    def __init__(self, caches: Mapping[str, Cache]) -> None:
        self._caches = caches

    def job_of_pod(self, namespace: str, name: str, uid: str) -> Job | None:
        """Return the job that a pod belongs to, None if one of both is not known."""
        cache = self._cache(namespace)
        return cache.job_of_pod(namespace, name, uid) if cache else None

    def of_name(self, namespace: str, name: str) -> tuple[Job, ...]:
        """Return the jobs of a name."""
        cache = self._cache(namespace)
        return cache.jobs_of_name(namespace, name) if cache else ()

    def report(self, key: JobKey, uid: str, status: TrainerStatus, pod: tuple[str, str]) -> None:
        """Take a report."""
        if cache := self._cache(key.namespace):
            cache.training.report(key, uid, status, pod)

    def trust(self, authorities: str) -> None:
        """Give the pods of jobs that report here the CAs of the certificate."""
        for cache in self._caches.values():
            cache.trust(authorities)

    def _cache(self, namespace: str) -> Cache | None:
        return self._caches.get(namespace) or self._caches.get("")


class Senders(Protocol):
    """Knows which pod a token belongs to."""

    async def sender(self, token: str, audience: str, address: str) -> Sender:
        """Return the pod of a token that an address has sent; raises `BadToken` or `TooManyReviews`."""
        ...


class ReportReceiver:
    """Receives reports in the replica that leads; `count` is called with what becomes of each one, in all replicas.

    `rates` are the reports of a job that are taken: a second, and at once.
    """

    def __init__(
        self,
        jobs: ReportingJobs,
        reviews: Senders,
        recorder: EventRecorder,
        count: Callable[[str], None],
        rates: tuple[float, int] = OF_JOB,
    ) -> None:
        self._jobs = jobs
        self._reviews = reviews
        self._recorder = recorder
        self.count = count
        self._rates = Rates(*rates)

    async def receive(self, request: web.Request, address: str, now: Callable[[], datetime]) -> web.Response:
        """Return the answer to a report that came from this address."""
        try:
            content, unknown = await self._received(request, address, now)
        except ReportRefused as refused:
            self.refuse(refused, address)
            return answer(refused)
        self.count(messages.UNKNOWN_KEYS if unknown else messages.ACCEPTED)
        return web.Response(body=content, content_type="application/json")

    def refuse(self, refused: ReportRefused, address: str) -> None:
        """Count a refusal, and say it once to the owner of the job."""
        self.count(str(refused.reason))
        if refused.reason in PASSING:
            return
        for job in refused.jobs:
            self._recorder.record(job, messages.report_refused(refused.reason, str(refused), address))

    async def _received(self, request: web.Request, address: str, now: Callable[[], datetime]) -> tuple[bytes, bool]:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        sender = await self._sender(request, namespace, name, address)
        job = self._job(sender, namespace, name)
        if not self._rates.take(job.uid):
            raise ReportRefused(ReportRefusal.TOO_OFTEN, messages.TOO_OFTEN, (job,))
        try:
            content = await body_of(request)
            found = _parsed(content)
        except ReportRefused as refused:
            raise ReportRefused(refused.reason, str(refused), (job,)) from None
        status = parse_report(found, now()) if found else None
        if status is not None:
            self._jobs.report(job.key, job.uid, status, (sender.name, sender.uid))
        unknown = _unknown_keys(content)
        if unknown:
            self._recorder.record(job, messages.unknown_keys(unknown, sender.name))
        return content, bool(unknown)

    async def _sender(self, request: web.Request, namespace: str, name: str, address: str) -> Sender:
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        try:
            # The token of a pod is for the path of its own job: no other path is reviewed with success.
            found = await self._reviews.sender(
                token.strip() if kind.lower() == "bearer" else "", audience(namespace, name), address
            )
        except TooManyReviews as busy:
            raise ReportRefused(ReportRefusal.BUSY, str(busy)) from None
        except BadToken as bad:
            asking = (job for job in self._jobs.of_name(namespace, name) if job.progress is ProgressSource.ENDPOINT)
            raise ReportRefused(ReportRefusal.BAD_TOKEN, str(bad), asking) from None
        return found

    def _job(self, sender: Sender, namespace: str, name: str) -> Job:
        """Return the job of the pod, if it has this name: jobs of several kinds may have it."""
        job = self._jobs.job_of_pod(sender.namespace, sender.name, sender.uid)
        if job is None and not self._jobs.of_name(namespace, name):
            raise ReportRefused(ReportRefusal.UNKNOWN_JOB, messages.NO_SUCH_JOB)
        if job is None or (job.namespace, job.name) != (namespace, name):
            raise ReportRefused(ReportRefusal.OTHER_JOB, messages.another_job(sender.name, name), (job,) if job else ())
        if job.progress is not ProgressSource.ENDPOINT:
            raise ReportRefused(ReportRefusal.NOT_ASKED_FOR, messages.NOT_ASKED_FOR, (job,))
        return job


async def body_of(request: web.Request) -> bytes:
    """Return the body of a request; one that is too large is not read to its end."""
    if (request.content_length or 0) > MAX_BYTES:
        raise ReportRefused(ReportRefusal.TOO_LARGE, messages.too_large(MAX_BYTES))
    try:
        async with asyncio.timeout(READ_SECONDS):
            return await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise ReportRefused(ReportRefusal.TOO_LARGE, messages.too_large(MAX_BYTES)) from None
    except TimeoutError:
        raise ReportRefused(ReportRefusal.MALFORMED, messages.TOO_SLOW) from None


def answer(refused: ReportRefused) -> web.Response:
    """Return a refusal as Kubernetes' `Status`."""
    code, reason = CODES[refused.reason]
    status: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"{refused.reason}: {refused}",
        "reason": reason,
        "code": code,
    }
    return web.Response(status=code, body=orjson.dumps(status), content_type="application/json")


def _unknown_keys(content: bytes) -> list[str]:
    """Return the keys of a report that Trainer does not know, and ignores: they may be misspelt."""
    try:
        body = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
        found = msgspec.json.decode(body.get("trainerStatus", b"null"), type=dict[str, msgspec.Raw] | None)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return []  # a key that is no text
    return [*(key for key in body if key != "trainerStatus"), *(key for key in found or () if key not in KNOWN_KEYS)]


def _parsed(content: bytes) -> dict[str, Any]:
    """Return what a body has in `trainerStatus`, empty if that is nothing."""
    try:
        found = msgspec.json.decode(content, type=_Body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ReportRefused(ReportRefusal.MALFORMED, f"the report is not as Trainer's: {error}") from None
    values: dict[str, Any] = msgspec.to_builtins(found.trainerStatus) if found.trainerStatus else {}
    return without_none(values)
