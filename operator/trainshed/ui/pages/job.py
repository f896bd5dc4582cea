"""The page of one job: what has become of it and why, what to do, and what it did when."""

from __future__ import annotations

from datetime import datetime

from htpy import Element, div, dl, fragment, h2, p, section, span
from msgspec.structs import replace

from trainshed.api.coerce import as_mapping, parse_text
from trainshed.api.foreign_text import one_line
from trainshed.api.status import ConditionType
from trainshed.ui import job_history
from trainshed.ui.drawings import curves, patterns, time_bar, timeline
from trainshed.ui.job_history import History
from trainshed.ui.model import STALLED, JobFile, PageFrame
from trainshed.ui.seen_facts import facts_of, lives_of
from trainshed.views import rows as view_rows
from trainshed.views.chapter import Story

from . import actions, decisions_page, job_head, job_tables, layout
from .job_head import NOTHING, Query
from .story_chapter import chapter

#: The chapter that is shown first, those that say why a job does not run, and the one that is shown last.
ADVICE, FAILURE, ASKED, REPLICAS = "What to do", "Failure", "Asked for", "Replicas"
DEADLINE = "Deadline"
CAUSES = (FAILURE, "Blocked", "Stalled", DEADLINE, "Queue")


def page(file: JobFile, frame: PageFrame, query: Query = NOTHING) -> Element:
    """Return the page of a job; with `replicas=all` in the query its timeline has all of them."""
    content = fragment[
        patterns.sheet(),
        live(file, frame.now, query),
        actions.forms(file, frame),
        job_tables.commands(file, frame),
        decisions_page.hint(file, frame),
    ]
    return job_head.document(file, frame, "", content)


def live(file: JobFile, now: datetime, query: Query = NOTHING) -> Element:
    """Return the part of the page that changes with the job."""
    until, whole = file.deleted or now, query.get("replicas") == "all"
    lives = lives_of(file.pods)
    facts = facts_of(file, until, lives)
    found = job_history.history(facts, lives) if facts else None
    return div("#live.job")[
        job_head.banner(file, now),
        _state(file),
        _story(file, file.story, _why(file)) if file.story else None,
        _timeline(file, found, whole=whole) if found else None,
        _time(file, until),
        _training(file),
        job_tables.conditions(file),
        job_tables.events(file, now),
    ]


def _state(file: JobFile) -> Element:
    ready = one_line(parse_text(as_mapping(file.document.get("status")).get("ready")), 40)
    return div(".headline", role="status", aria_live="polite")[
        span(".job-state")[layout.state(file.state), " ", file.warns and layout.warning()],
        span(".ready")[f"{ready} ready"] if ready and not file.status.over else None,
        p[file.story.headline if file.story else view_rows.in_one_sentence(file.document)],
        p(".why")[why] if (why := _why(file)) else None,
    ]


def _why(file: JobFile) -> str:
    """Return why a job is as it is, unless the story says so in the words that follow."""
    chapters = file.story.chapters if file.story else ()
    is_quiet = file.deleted or file.status.true(ConditionType.SUSPENDED)
    why = "" if is_quiet else one_line(view_rows.cause(file.status, file.document))
    lines = [line for one in chapters if one.title in CAUSES for line in one.lines]
    failure, said = file.status.failure, why.removeprefix(f"{file.state}: ")
    is_failure = failure is not None and why == one_line(failure.message)
    is_shown = is_failure and any(one.title == FAILURE for one in chapters)
    return "" if is_shown or any(said in line for line in lines) else why


def _without(line: str, why: str) -> str:
    """Return a line about replicas without its end, if the sentence above the story says that already."""
    parts = line.split(": ")
    ends = (number for number in range(1, len(parts)) if ": ".join(parts[number:]) in why)
    return ": ".join(parts[: next(ends, len(parts))])


def _is_urgent(file: JobFile) -> bool:
    """Return whether a job needs attention, as far as its state shows."""
    return file.state not in view_rows.SETTLED or bool(view_rows.why(file.status, file.document))


def _story(file: JobFile, story: Story, why: str) -> Element:
    """Return the story; of a job that needs attention the cause and what to do come first."""
    state, urgent = file.state, _is_urgent(file)
    causes = [one for one in story.chapters if urgent and one.title in CAUSES]
    if state in (*view_rows.SETTLED, STALLED) and any(one.title != FAILURE for one in causes):
        causes = [one for one in causes if one.title != FAILURE]  # it was before, and runs again
    advice = [one for one in story.chapters if urgent and one.title == ADVICE]
    others = [one for one in story.chapters if one not in causes and one not in advice]
    colour = "waiting" if any(one.title == DEADLINE for one in causes) else layout.colour_of(state)
    others.sort(key=lambda one: one.title == ASKED)
    others = [
        replace(one, lines=tuple(_without(line, why) for line in one.lines)) if one.title == REPLICAS else one
        for one in others
    ]
    return section(".story", aria_label="What happened")[
        dl(class_=f"causes {colour}")[map(chapter, causes)] if causes else None,
        (div(".advice")[h2[one.title], (p[line] for line in one.lines)] for one in advice),
        dl[map(chapter, others)],
    ]


def _timeline(file: JobFile, found: History, *, whole: bool) -> Element:
    link = "" if whole else f"{file.address.path}?replicas=all"
    return section(".timeline-section", aria_labelledby="timeline-title")[
        h2("#timeline-title")["Timeline ", span(".unit")["UTC"]],
        timeline.draw(found, link),
        timeline.legend(found),
        timeline.meanings(found),
        timeline.times(found),
    ]


def _time(file: JobFile, now: datetime) -> Element | None:
    drawing = time_bar.draw(file.status, now)
    return section(aria_labelledby="time-title")[h2("#time-title")["Where the time went"], drawing] if drawing else None


def _training(file: JobFile) -> Element | None:
    found, report = curves.curves(file.samples), file.status.trainer
    if not found and report is None:
        return None
    return section(".training", aria_labelledby="training-title")[
        h2("#training-title")["Training"],
        job_tables.progress(file.status),
        div(".curves")[(curves.draw(one) for one in found)] if found else None,
        curves.values(file.samples) if file.samples else None,
    ]
