"""Messages of `trainshed get --watch --notify`, by apprise: each change of state once, with the story of `explain`.

What is a change, and of which restarts nothing is sent, is decided as for the operator's webhooks. A change is noted
before its message is sent, so that no watch that begins again, and no service that does not answer, repeats one.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import click
from apprise import Apprise, AppriseAsset, NotifyFormat

from trainshed.api import status_codec
from trainshed.api.coerce import parse_text
from trainshed.api.job import Document, JobKey
from trainshed.api.status import ConditionType
from trainshed.client import ApiError
from trainshed.client.job_reader import JobReader, NoSuchJob
from trainshed.config import NOTIFY_STATES
from trainshed.job_facts import read_story
from trainshed.notify.message import compose
from trainshed.notify.news import News, Notified, current, due
from trainshed.process import Clock
from trainshed.views import rows
from trainshed.views.chapter import Story

from .connection import warn

#: The most messages that wait, and the seconds that services have for one.
MOST_WAITING, PATIENCE = 1000, 30
#: Their messages may have a URL, which has secrets.
LOGGERS = ("apprise", "requests", "urllib3")


@dataclass(frozen=True, slots=True)
class WatchMessage:
    """What a watch has seen of a job: its state and since when, and what is sent if its story cannot be read."""

    key: JobKey
    uid: str
    news: News | None
    sentence: str


def notice(job: Document) -> WatchMessage:
    """Return what matters of a job."""
    key = JobKey(rows.namespace_of(job), parse_text(job.get("kind")), rows.name_of(job))
    uid = parse_text(rows.metadata(job).get("uid"))
    return WatchMessage(key, uid, current(status_codec.parse_status(job)), rows.in_one_sentence(job))


class Messenger:
    """Sends what is new of jobs to services; raises `click.BadParameter` for a URL of none, which it does not quote."""

    def __init__(self, reader: JobReader, urls: Sequence[str]) -> None:
        for name in LOGGERS:
            logging.getLogger(name).propagate = False
            logging.getLogger(name).addHandler(logging.NullHandler())
        asset = AppriseAsset(app_id="Trainshed", app_desc="Trainshed", http_redirects=False)
        self._services = dict[str, Apprise]()
        for number, url in enumerate(urls, 1):
            service = Apprise(asset=asset)
            if not service.add(url):
                raise click.BadParameter(f"URL {number} is of no service that apprise knows", param_hint="--notify")
            self._services[f"service {number} ({url.partition('://')[0]})"] = service
        self._reader, self._now = reader, Clock().now
        self._notified = dict[str, Notified]()
        self._later = dict[str, asyncio.TimerHandle]()
        self._waiting = asyncio.Queue[tuple[WatchMessage, News]](MOST_WAITING)

    def begin(self, notices: Iterable[WatchMessage]) -> None:
        """Take the states of jobs as known, when the watch begins."""
        for item in notices:
            if item.news:
                self._note(item.uid, item.news)

    def take(self, item: WatchMessage) -> None:
        """Send what is new of a job, in its turn, or later if it is still so then."""
        if handle := self._later.pop(item.uid, None):
            handle.cancel()
        if item.news is None:
            return
        now = max(self._now(), item.news.since)  # the clock of the operator may be before this one
        when = due(item.news, self._notified.get(item.uid), now, NOTIFY_STATES)
        if when is None:
            return
        if when > now:
            seconds = (when - now).total_seconds()
            self._later[item.uid] = asyncio.get_running_loop().call_later(seconds, self.take, item)
            return
        self._note(item.uid, item.news)
        try:
            self._waiting.put_nowait((item, item.news))
        except asyncio.QueueFull:
            warn(f"Not sent: {item.sentence}: too many messages wait")

    @asynccontextmanager
    async def sending(self) -> AsyncIterator[None]:
        """Send messages meanwhile."""
        async with asyncio.TaskGroup() as tasks:  # an error ends the watch, which would be silent about it
            task = tasks.create_task(self._send_all())
            try:
                yield
            finally:
                task.cancel()
                for handle in self._later.values():
                    handle.cancel()

    def _note(self, uid: str, news: News) -> None:
        before = self._notified.get(uid)
        restart = before.restart if before else None
        if news.state == ConditionType.RESTARTING:
            restart = self._now()
        self._notified[uid] = Notified(news.state, news.since, "", restart)

    async def _send_all(self) -> None:
        while True:
            item, news = await self._waiting.get()
            story = await self._story(item)
            message = compose(secrets.token_hex(8), news.state, (item.key, item.uid), story, (self._now(), ""))
            results = await asyncio.gather(*(self._send(one, message.title, message.text) for one in self._services))
            for name, taken in zip(self._services, results, strict=True):
                if not taken:
                    warn(f"Not sent, or not taken by {name}: {message.title}")

    async def _send(self, service: str, title: str, text: str) -> bool:
        sent = self._services[service].async_notify(
            title=title, body=text, body_format=NotifyFormat.TEXT, timeout=PATIENCE
        )
        return bool(await sent)

    async def _story(self, item: WatchMessage) -> Story:
        """Return the story of a job, one sentence if it cannot be read any more."""
        try:
            document, kind = await self._reader.find(item.key.namespace, f"{item.key.kind.lower()}/{item.key.name}")
            if rows.metadata(document).get("uid") == item.uid:
                return await read_story(self._reader, document, kind)
        except (ApiError, NoSuchJob):
            pass
        return Story(item.sentence, ())
