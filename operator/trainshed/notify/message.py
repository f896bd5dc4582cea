"""A message about a job, and its forms: plain JSON, and what Slack and Microsoft Teams accept.

Names and texts of jobs come from others. In Slack's form the characters that begin a mention or a link are escaped and
nothing is parsed; in that of Teams all text is in TextRuns, which have no markup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any
from urllib.parse import quote

import msgspec

from trainshed.api.coerce import format_time
from trainshed.api.foreign_text import one_line
from trainshed.api.job import JobKey
from trainshed.views.chapter import Chapter, Story

#: The most characters of a line, lines of a chapter, chapters, and bytes of all lines, for a reader with a phone. The
#: whole is below the limits of the receivers, 3,000 characters of a block of Slack and 28 KB of a card of Teams.
MOST_CHARACTERS, MOST_LINES, MOST_CHAPTERS, MOST_BYTES = 250, 8, 12, 10_000
#: The part of the story that says what the job was given: the reader knows it.
LEFT_OUT = ("Asked for",)


class Message(msgspec.Struct, frozen=True):
    """What is sent of a job: `id` is the same in all copies of a message, `url` is that of its page."""

    id: str
    time: datetime
    state: str
    job: JobKey
    uid: str
    headline: str
    chapters: tuple[Chapter, ...]
    url: str = ""

    @property
    def title(self) -> str:
        """The state and the job, in one line."""
        return f"{self.state}: {self.job.kind} {self.job.namespace}/{self.job.name}"

    @property
    def text(self) -> str:
        """The whole message as plain text."""
        parts = (f"{chapter.title}: {line}" for chapter in self.chapters for line in chapter.lines)
        return "\n".join((self.headline, *parts, *filter(None, (self.url,))))


def compose(
    identity: str, state: str, about: tuple[JobKey, str], story: Story, beside: tuple[datetime, str]
) -> Message:
    """Return a message about a job, with its key and uid, of bounded size; `beside` are its time and the base URL."""
    key, uid = about
    time, base = beside
    chapters = [chapter for chapter in story.chapters if chapter.title not in LEFT_OUT][:MOST_CHAPTERS]
    room = [MOST_BYTES]
    shown = [Chapter(item.title, tuple(_fitting(item.lines[:MOST_LINES], room))) for item in chapters]
    url = f"{base.rstrip('/')}{page(key)}" if base else ""
    return Message(
        identity, time, state, key, uid, _cut(story.headline), tuple(item for item in shown if item.lines), url
    )


def _fitting(lines: tuple[str, ...], room: list[int]) -> Iterator[str]:
    """Yield the lines, cut, while there is room for them, which they take."""
    for line in map(_cut, lines):
        room[0] -= len(line.encode())
        if room[0] < 0:
            return
        yield line


def page(key: JobKey) -> str:
    """Return the path of the page of a job, as `trainshed ui-server` serves it."""
    return "/jobs/" + "/".join(quote(part, safe="") for part in (key.namespace, key.kind, key.name))


def _cut(line: str) -> str:
    return one_line(line, MOST_CHARACTERS)


def _json(message: Message) -> dict[str, Any]:
    return {
        "id": message.id,
        "time": format_time(message.time),
        "state": message.state,
        "kind": message.job.kind,
        "namespace": message.job.namespace,
        "name": message.job.name,
        "uid": message.uid,
        "text": message.headline,
        "story": [{"title": chapter.title, "lines": list(chapter.lines)} for chapter in message.chapters],
        **({"url": message.url} if message.url else {}),
    }


def _slack(message: Message) -> dict[str, Any]:
    """Slack's incoming webhooks: text with three escaped characters; `verbatim` and `parse` find no mentions in it.

    https://docs.slack.dev/messaging/formatting-message-text
    """
    texts = [f"*{_escaped(message.headline)}*"]
    texts += [
        f"*{_escaped(chapter.title)}*\n" + "\n".join(map(_escaped, chapter.lines)) for chapter in message.chapters
    ]
    texts += [f"<{message.url}|The page of the job>"] if message.url else []
    sections = [{"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}} for text in texts]
    return {"text": _escaped(message.headline), "blocks": sections, "parse": "none", "link_names": False}


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _teams(message: Message) -> dict[str, Any]:
    """An adaptive card for the webhooks of Teams' workflows.

    https://learn.microsoft.com/en-us/microsoftteams/platform/webhooks-and-connectors/how-to/connectors-using
    """
    opens = [{"type": "Action.OpenUrl", "title": "The page of the job", "url": message.url}] if message.url else []
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": list(_rows(message)),
        "actions": opens,
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return {"type": "message", "attachments": [attachment]}


def _rows(message: Message) -> Iterator[dict[str, Any]]:
    yield _row(message.headline, weight="Bolder")
    for chapter in message.chapters:
        yield _row(chapter.title, weight="Bolder", isSubtle=True)
        yield from map(_row, chapter.lines)


def _row(text: str, **style: object) -> dict[str, Any]:
    return {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": text, **style}]}


#: The forms of a message by the `format` of a webhook.
FORMATS: dict[str, Callable[[Message], dict[str, Any]]] = {"json": _json, "slack": _slack, "teams": _teams}


def encoded(message: Message, form: str) -> bytes:
    """Return the body of the request for a webhook of this format."""
    return msgspec.json.encode(FORMATS[form](message))
