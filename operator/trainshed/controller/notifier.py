"""Tells people about jobs that ask for it: each change at most once, whatever fails in between.

The fact that a message is sent is stored before it is sent: as `status.notified` of the job, with an identity that only
this message has and the resourceVersion as a precondition. What follows from a crash, by the place at which it happens:
before that write, the next leader finds what is not sent and sends it; after it the message is lost, unless it was sent
already. After a lost answer to the write the job is read again, and the identity says which process sends the message.
A request to a webhook is repeated only if the webhook has certainly not taken it.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec.structs import replace

from trainshed.api import status_codec
from trainshed.api.actions import Event, Snapshot
from trainshed.api.job import Document, Job, JobKey
from trainshed.api.status import Status
from trainshed.client import ApiError, Client, Conflict, Forbidden, NotFound, NotLeader, Unavailable
from trainshed.config import Config
from trainshed.notify import news as newsdesk
from trainshed.notify.addresses import networks
from trainshed.notify.message import Message, compose, encoded
from trainshed.notify.news import BAD, FAILED, FULL, SENT, UNKNOWN, UNSTORED, News
from trainshed.notify.sending import NotSent, WebhookCourier
from trainshed.notify.webhooks import BadWebhook, Webhook
from trainshed.plan.facts import Facts
from trainshed.plan.messages import job_events
from trainshed.process import job_fields
from trainshed.views import story

from .metrics import Metrics
from .observer import Background
from .workqueue import largest_share

#: How long news wait for what follows at once, and the interval at which the queue is checked, in seconds.
GATHERING, POLL_SECONDS = timedelta(seconds=2), 1.0
#: The most jobs with something to send, and the most requests to webhooks at a time.
MOST_WAITING, AT_A_TIME = 10_000, 16
#: The shortest time between two messages to a webhook in seconds: Slack takes one in a second.
PACE = 1.0
#: The most times that a job is read for a message at once, and the seconds between two; the time until it is tried
#: again after that, which doubles up to the second one; the seconds before each further try to send a message.
TRIES, AGAIN = 5, 1.0
LATER, RAREST = timedelta(seconds=5), timedelta(minutes=5)
DELAYS = (1.0, 5.0, 15.0)

log = logging.getLogger(__name__)


#: The news of a job that are sent, with its status and the job.
Claimed = tuple[News, Status, Document]


Now = Callable[[], datetime]


class Courier(Protocol):
    """Knows the webhooks, and sends messages to them."""

    def find(self, name: str, namespace: str) -> Webhook | None:
        """Return a webhook for jobs of a namespace, None if there is none; raises `BadWebhook`."""
        ...

    async def post(self, webhook: Webhook, body: bytes) -> None:
        """Send a message once; raises `NotSent`."""
        ...


class Desk(msgspec.Struct, frozen=True):
    """What is sent: the states, and the base URL of the page; and who hears of it: Events of jobs, and metrics."""

    states: tuple[str, ...]
    page: str
    tell: Callable[[Job, Event], None]
    count: Callable[[str], None]
    now: Now


class _Item:
    """A job with news. `own_news` is whether this process has stored that state: no other one has sent it before."""

    __slots__ = ("claimed", "delay", "due", "id", "news", "own_news", "snapshot", "term")

    def __init__(self, snapshot: Snapshot, news: News, due: datetime, term: int, *, own_news: bool) -> None:
        self.snapshot, self.news, self.due, self.term, self.own_news = snapshot, news, due, term, own_news
        self.id, self.delay = secrets.token_hex(8), LATER
        #: What was to be stored as sent last, which may have been.
        self.claimed: Claimed | None = None


class Notifier(Background):
    """Hears of reconciles; jobs that do not ask cost the reading of one field. `run` sends, without end."""

    def __init__(self, client: Client, courier: Courier, desk: Desk) -> None:
        self._client, self._courier, self._desk = client, courier, desk
        #: What each job that asks was last seen with: its uid, the webhook and the news.
        self._seen: dict[JobKey, tuple[str, str, News | None]] = {}
        self._waiting: dict[str, dict[str, _Item]] = {}
        self._in_namespace: Counter[str] = Counter()
        self._serving: dict[str, asyncio.Task[None]] = {}
        self._room = asyncio.Semaphore(AT_A_TIME)
        self._closed, self._term = False, 0

    def on_reconcile(self, snapshot: Snapshot) -> None:
        """Check a job that is reconciled: another process may have stored its state, and ended."""
        if snapshot.job.notify:
            self._saw(snapshot, own_news=False)

    def on_status_stored(self, snapshot: Snapshot, after: Status) -> None:
        """Check a job whose status has been stored."""
        if snapshot.job.notify:
            is_new = newsdesk.current(after) != newsdesk.current(snapshot.status)
            self._saw(replace(snapshot, status=after), own_news=is_new)

    def forget(self, key: JobKey, now: datetime) -> None:
        """Forget a deleted job, but for what there is to send of it."""
        del now
        self._seen.pop(key, None)

    def step_down(self) -> None:
        """Forget all that is not stored as sent yet: the next leader finds it."""
        self._term += 1
        self._seen.clear()
        self._waiting.clear()
        self._in_namespace.clear()

    def _saw(self, snapshot: Snapshot, *, own_news: bool) -> None:
        job, found = snapshot.job, newsdesk.current(snapshot.status)
        seen, now = (job.uid, job.notify, found), self._desk.now()
        if self._seen.get(job.key) == seen or job.policy.managed_elsewhere:
            return
        self._seen[job.key] = seen
        if found and newsdesk.due(found, None, now, self._desk.states):
            self._enqueue(job.notify, _Item(snapshot, found, now + GATHERING, self._term, own_news=own_news))

    def _enqueue(self, name: str, item: _Item) -> None:
        job = item.snapshot.job
        waiting = self._waiting.setdefault(name, {})
        if job.uid not in waiting:
            free = MOST_WAITING - self._in_namespace.total()
            if self._in_namespace[job.namespace] >= largest_share(free):
                self._desk.count(FULL)
                return
            self._in_namespace[job.namespace] += 1
        waiting[job.uid] = item

    def _put_off(self, name: str, item: _Item) -> None:
        """Try again later, unless there is newer news of the job."""
        item.due, item.delay = self._desk.now() + item.delay, min(2 * item.delay, RAREST)
        if item.snapshot.job.uid not in self._waiting.get(name, {}):
            self._enqueue(name, item)

    async def run(self) -> None:
        """Send what is due, without end; no webhook waits for another one."""
        async with asyncio.TaskGroup() as group:
            while True:
                await asyncio.sleep(POLL_SECONDS)
                for name in [name for name in self._waiting if name not in self._serving and self._due(name)]:
                    self._serving[name] = task = group.create_task(self._serve(name))
                    task.add_done_callback(partial(self._served, name))

    async def flush(self) -> None:
        """Send once what is due."""
        for name in list(self._waiting):
            await self._serve(name)

    async def finish(self, seconds: float) -> None:
        """Begin no further message, and wait for those under way."""
        self._closed = True
        if self._serving:
            await asyncio.wait(self._serving.values(), timeout=seconds)

    def _served(self, name: str, _task: asyncio.Task[None]) -> None:
        self._serving.pop(name, None)

    def _due(self, name: str) -> list[_Item]:
        now = self._desk.now()
        return sorted((item for item in self._waiting[name].values() if item.due <= now), key=lambda item: item.due)

    async def _serve(self, name: str) -> None:
        for item in self._due(name):
            uid = item.snapshot.job.uid
            waiting = self._waiting.get(name, {})
            if self._closed or waiting.get(uid) is not item:
                continue
            del waiting[uid]
            self._in_namespace -= Counter({item.snapshot.job.namespace: 1})
            try:
                await self._handle(name, item)
            except NotLeader:  # after the machine was asleep this process may lead on, and no client tells it so
                if item.term == self._term:
                    self._put_off(name, item)
                return
        if not self._waiting.get(name, True):
            del self._waiting[name]

    async def _handle(self, name: str, item: _Item) -> None:
        job = item.snapshot.job
        try:
            webhook = self._courier.find(name, job.namespace)
        except BadWebhook as error:
            self._give_up(job, BAD, job_events.webhook_refused(name, str(error)))
            return
        if webhook is None:
            self._give_up(job, UNKNOWN, job_events.webhook_unknown(name))
            return
        try:
            claimed = await self._claim(name, item)
        except NotLeader:
            raise
        except (ApiError, _Dropped) as error:
            if _may_pass(error, item.delay):
                log.debug("%s: cannot store for now that a message is sent: %s", job.key, error)
                self._put_off(name, item)
                return
            self._give_up(job, UNSTORED, job_events.webhook_refused(name, f"the status cannot be stored: {error}"))
            return
        if claimed:
            await self._send(name, webhook, item, claimed)

    async def _claim(self, name: str, item: _Item) -> Claimed | None:
        """Store that the news of a job are sent; return them if so, None if there is nothing to send, or not yet."""
        job, left = item.snapshot.job, TRIES
        while True:
            left -= 1
            try:
                return await self._claim_once(name, item)
            except (Conflict, Unavailable) as error:
                if not left:
                    raise
                log.debug("%s: cannot store yet that a message is sent: %s", job.key, error)
                if isinstance(error, Unavailable):
                    await asyncio.sleep(AGAIN)

    async def _claim_once(self, name: str, item: _Item) -> Claimed | None:
        job, framework = item.snapshot.job, item.snapshot.framework
        document = await self._client.read_job(framework, job.namespace, job.name)
        if document is None or document["metadata"].get("uid") != job.uid:
            return self._of_deleted(item)
        last, status = newsdesk.parse_notified(document), status_codec.parse_status(document)
        if last and last.id == item.id:
            return item.claimed
        found, now = newsdesk.current(status), self._desk.now()
        due = newsdesk.due(found, last, now, self._desk.states) if found else None
        if found is None or due is None:
            return None
        if due > now:
            item.due = due
            self._enqueue(name, item)
            return None
        item.claimed = found, status, document
        marks = {key: document["metadata"][key] for key in ("uid", "resourceVersion")}
        value = newsdesk.notified_document(found, item.id, last, now)
        patch = {"metadata": marks, "status": {newsdesk.FIELD: value}}
        try:
            stored = await self._client.store_status(framework, job.namespace, job.name, patch)
        except NotFound:
            return self._of_deleted(item)
        kept = newsdesk.parse_notified(stored)
        if kept is None or kept.id != item.id:
            raise _Dropped(f"the CRD or a webhook drops the field {newsdesk.FIELD}")
        return item.claimed

    def _of_deleted(self, item: _Item) -> Claimed | None:
        """Return the news of a job that was deleted before they were sent, if no other process can have sent them.

        Since this process led last another one may have sent them.
        """
        return (item.news, item.snapshot.status, {}) if item.own_news and item.term == self._term else None

    async def _send(self, name: str, webhook: Webhook, item: _Item, claimed: Claimed) -> None:
        job = item.snapshot.job
        body = encoded(self._message(item, claimed), webhook.format)
        for delay in (*DELAYS, None):
            began = asyncio.get_running_loop().time()
            try:
                async with self._room:
                    await self._courier.post(webhook, body)
            except NotSent as error:
                if not error.again or delay is None:
                    self._give_up(job, FAILED, job_events.webhook_refused(name, str(error)))
                    return
                await asyncio.sleep(max(delay, error.wait))
            else:
                self._desk.count(SENT)
                await asyncio.sleep(max(0.0, began + PACE - asyncio.get_running_loop().time()))
                return

    def _message(self, item: _Item, claimed: Claimed) -> Message:
        """Return the message with the story that `trainshed explain` tells."""
        found, status, document = claimed
        now, job = self._desk.now(), item.snapshot.job
        facts = Facts(replace(item.snapshot, status=status, now=now))
        job_story = story.tell(facts, document)
        return compose(item.id, found.state, (job.key, job.uid), job_story, (now, self._desk.page))

    def _give_up(self, job: Job, result: str, event: Event) -> None:
        self._desk.count(result)
        self._desk.tell(job, event)
        log.warning("%s: %s", job.key, event.message, extra=job_fields(job.key))


def _may_pass(error: Exception, delay: timedelta) -> bool:
    """Return whether to try again: rights that lack for minutes are no API server that has just begun."""
    return isinstance(error, (Conflict, Unavailable)) or (isinstance(error, Forbidden) and delay < RAREST)


def make_notifier(
    settings: Config, client: Client, tell: Callable[[Job, Event], None], metrics: Metrics, now: Now
) -> Notifier:
    """Return what tells the webhooks of these settings."""
    courier = WebhookCourier(Path(settings.notify_webhooks), networks(settings.notify_allow))
    return Notifier(
        client, courier, Desk(settings.notify_states, settings.notify_page, tell, metrics.count_notification, now)
    )


class _Dropped(Exception):
    """The API server has stored the status without what was sent."""
