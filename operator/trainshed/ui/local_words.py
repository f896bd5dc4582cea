"""Stories of jobs on this machine: there are no commands for a cluster in them, but what takes their place here."""

from __future__ import annotations

import re

import msgspec

from trainshed.api.job import Document
from trainshed.views.advice import OVER
from trainshed.views.chapter import Story
from trainshed.views.rows import with_namespace

from .seen_facts import framework_of

#: What is said in place of commands about `{job}`, in this order. Where a log is not that of the container that trains,
#: `{other}` says how to see it.
WORDS = (
    (re.escape(OVER), "The run is over: start trainshed run again."),
    ("trainshed logs {job}( --container \\S+)? --previous", "the page Logs{other}, “run before the last restart”,"),
    ("trainshed logs {job}( --container \\S+)?", "the page Logs{other}"),
    (" has the rest, as long as the pod exists", " has the rest"),
    ("trainshed events {job} shows it as long as the API server keeps Events", "the table Events shows it"),
    ("trainshed events {job}", "the table Events"),
    ("Then trainshed restart {job} starts the job again", "Then Ctrl-C and trainshed run start the job again"),
    ("run trainshed restart {job}", "start trainshed run again"),
    (
        "Give it more time, which needs no restart: kubectl patch {job} \\S.*?'\\. Else see",
        "Raise activeDeadlineSeconds in its file for the next run, and see",
    ),
    ("trainshed stacks {job}", "the page Stacks"),
)
#: Words that begin a sentence.
BEGINNING = re.compile(r"(?:\A|(?<=[.!?] ))the (?=page|table)")


def local_story(story: Story, document: Document) -> Story:
    """Return the story of a job on this machine, without commands for a cluster."""
    job, framework = re.escape(with_namespace(document)), framework_of(document)
    own = framework.container.name if framework else ""
    rules = [(re.compile(words.replace("{job}", job)), text) for words, text in WORDS]
    chapters = (
        msgspec.structs.replace(one, lines=tuple(_said(line, rules, own) for line in one.lines))
        for one in story.chapters
    )
    return msgspec.structs.replace(story, chapters=tuple(chapters))


def _said(line: str, rules: list[tuple[re.Pattern[str], str]], own: str) -> str:
    for words, text in rules:

        def other(found: re.Match[str], text: str = text) -> str:
            name = (found[1] or "").rpartition(" ")[2] if found.re.groups else ""
            return text.replace("{other}", f" with ?container={name}" if name not in ("", own) else "")

        line = words.sub(other, line)
    return BEGINNING.sub("The ", line)
