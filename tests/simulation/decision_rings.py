"""Checks the ConfigMaps in which the operator records decisions, against all that its processes have decided."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from http import HTTPStatus
from itertools import pairwise
from typing import Any
from unittest import mock

from msgspec.structs import replace

from support.audit import api_fields
from support.audit.change import DELETED, OPERATOR, USER, Change
from trainshed.api.actions import Plan, Snapshot
from trainshed.api.coerce import as_mapping
from trainshed.api.job import Document, JobKey
from trainshed.api.job_annotations import asks_for_decisions
from trainshed.client.http import REQUEST_TIMEOUT
from trainshed.client.transport import Request
from trainshed.controller import job_decisions
from trainshed.controller.manager import ALTOGETHER
from trainshed.controller.observer import Background
from trainshed.decisions import ring
from trainshed.decisions.again import differences
from trainshed.decisions.documents import document, plan_document, redacted
from trainshed.decisions.recording import Decision, worth_keeping

from .kept_decisions import KeptDecisions
from .transport import RequestOutcome

PREFIX = ring.name_of("")
#: Seconds that a request may take, until what is due is found; seconds after which an error is tried again, at most.
WRITE, LATEST = job_decisions.POLL_SECONDS + 1.0, job_decisions.RAREST.total_seconds()
#: Seconds after which an error is tried again at first, and for which a process is frozen at most.
FIRST, FROZEN = job_decisions.EVERY.total_seconds(), 60.0
#: In half of the runs writes come after these seconds, so that more of them meet the faults; in others as documented.
OFTEN = 3.0
#: Answers after which nothing more is recorded about a job, until another process leads.
FINAL = (403, 404, 422)
#: In some runs a ring has this part of its size, so that its oldest parts go.
SMALLER = 8


@dataclass(eq=False, slots=True)
class Heard:
    """A decision of a process that is to be recorded, heard at a time of the server."""

    term: Term
    at: float
    snapshot: Snapshot
    plan: Plan
    #: Its place among those of its term about the job.
    place: int

    @property
    def ends(self) -> bool:
        """Whether it ends the job."""
        return self.plan.status.over and not self.snapshot.status.over

    @property
    def key(self) -> tuple[object, ...]:
        """What a record of it has."""
        return self.snapshot.now, self.plan.rule, _text(plan_document(self.snapshot.status, self.plan))


@dataclass(eq=False, slots=True)
class Term:
    """A time for which a process leads, until `end`, which a `clean` one has reached by SIGTERM."""

    process: str
    began: float
    end: float | None = None
    clean: bool = False
    rules: dict[str, str] = field(default_factory=dict, repr=False)
    heard: defaultdict[str, list[Heard]] = field(default_factory=lambda: defaultdict(list), repr=False)


class Listener(Background):
    """Hears what a process decides about jobs that ask, and when it no longer leads."""

    def __init__(self, rings: DecisionRings, process: str, kept: KeptDecisions) -> None:
        self._rings, self._process, self._kept = rings, process, kept
        self._term = rings.begin(process)

    async def run(self) -> None:
        """Wait: the process ends if this does."""
        await asyncio.Event().wait()

    def on_decision(self, snapshot: Snapshot, plan: Plan) -> None:
        """Note a decision that is to be recorded."""
        self._kept.on_decision(snapshot, plan)
        uid, term = snapshot.job.uid, self._term
        if not snapshot.job.decisions:
            return
        first = plan.rule if snapshot.status.conditions else ""  # if nothing is done it is kept of new jobs alone
        before, term.rules[uid] = term.rules.get(uid, first), plan.rule
        if worth_keeping(snapshot, plan, before):
            term.heard[uid].append(Heard(term, self._rings.now(), snapshot, plan, len(term.heard[uid])))

    def forget(self, key: JobKey, now: object) -> None:
        """Note nothing: the ConfigMap goes with the job."""

    def step_down(self) -> None:
        """Begin another term, in which it may lead again."""
        self._term.end = self._rings.now()
        self._term = self._rings.begin(self._process)


class DecisionRings:
    """Follows the ConfigMaps and the requests for them; `problems` are what is wrong, `counts` what was seen."""

    def __init__(self, now: Callable[[], float], seed: int) -> None:
        self.now = now
        self.problems: list[str] = []
        self.counts: Counter[str] = Counter()
        #: By uid; None for those that are gone.
        self._jobs: dict[str, Document | None] = {}
        self._rings: dict[str, Document | None] = {}
        self._terms: list[Term] = []
        #: By process: times at which it was frozen. By uid: times of disturbed requests, with those until which another
        #: one may be waited for, the number of them in a row, and times of those refused for good.
        self._frozen: defaultdict[str, list[float]] = defaultdict(list)
        self._disturbed: defaultdict[str, list[list[float]]] = defaultdict(list)
        self._in_a_row: Counter[str] = Counter()
        self._conflicts: Counter[str] = Counter()
        #: Requests of which the operator does not know at once whether they were done.
        self._unsure: set[int] = set()
        self._refused: defaultdict[str, list[float]] = defaultdict(list)
        #: By uid: the times of the writes, and the last number; jobs whose ConfigMaps users have changed.
        self._written: defaultdict[str, list[float]] = defaultdict(list)
        self._last: dict[str, int] = {}
        self._spoiled: set[str] = set()
        self._asked: set[str] = set()
        self._others: set[str] = set()
        self._small = seed % 3 == 0
        self._every = OFTEN if seed % 2 else job_decisions.EVERY.total_seconds()

    @contextlib.contextmanager
    def settings(self) -> Iterator[None]:
        """Let some runs have small rings, and some more writes."""
        names = ("MOST_BYTES", "PART_BYTES", "PACKED_LINE")
        divisor = SMALLER if self._small else 1
        sizes = {name: getattr(ring, name) // divisor for name in names}
        every = timedelta(seconds=self._every)
        with mock.patch.multiple(ring, **sizes), mock.patch.object(job_decisions, "EVERY", every):
            yield

    def begin(self, process: str) -> Term:
        """Return a new term of a process."""
        self._terms.append(Term(process, self.now()))
        return self._terms[-1]

    def ended(self, process: str, *, clean: bool) -> None:
        """Note the end of a process; a clean one has stored what waited."""
        for term in self._terms:
            if term.process == process and term.end is None:
                term.end, term.clean = self.now(), clean

    def freezes(self, process: str) -> None:
        """Note that a process does nothing for a while."""
        self._frozen[process].append(self.now())

    # ----------------------------------------------------------------------------------------------------- as they come

    def on_exchange(self, request: Request, outcome: RequestOutcome) -> None:
        """Note a request for a ring that is lost, late, or answered with an error."""
        if outcome.before is None or outcome.after is None or outcome.instead or outcome.lost or outcome.after > 0.1:
            answer = outcome.instead or outcome.lost
            self._disturb(uid_of(request), answer.status if answer else 0)
            if not answer or answer.status != HTTPStatus.CONFLICT:
                self._unsure.add(id(request))
            if answer and answer.status in FINAL:
                self._refused[uid_of(request)].append(self.now())

    def _disturb(self, uid: str, status: int) -> None:
        """Note that what waits is written later, each time twice as late; after a few conflicts it is so at once."""
        self._conflicts[uid] += status == HTTPStatus.CONFLICT
        if status == HTTPStatus.CONFLICT and self._conflicts[uid] % job_decisions.MOST_CONFLICTS:
            return
        row = self._in_a_row[uid] = self._in_a_row[uid] + 1
        now = self.now()
        self._disturbed[uid].append([now, now + min(FIRST * 2 ** (row - 1), LATEST) + REQUEST_TIMEOUT + WRITE])
        self.counts["rings/disturbed requests"] += 1

    def _calm(self, uid: str) -> None:
        """Note that what waited is written."""
        self._in_a_row[uid] = self._conflicts[uid] = 0
        for times in self._disturbed[uid]:
            times[1] = min(times[1], self.now())

    def on_request(self, actor: str, request: Request, status: int) -> None:
        """Note a request of the operator for a ring, and how the server has answered."""
        uid = uid_of(request)
        if actor != OPERATOR or not uid:
            return
        self.counts["rings/requests"] += 1
        if status < 400 and request.verb != "GET" and id(request) not in self._unsure:
            self._calm(uid)
        if status >= 400 and not (request.verb == "GET" and status == 404):
            self._disturb(uid, status)
            if status in FINAL and request.verb != "PATCH":
                self._refused[uid].append(self.now())
        if uid in self._others:
            self.problems.append(f"{uid}: {request.verb} {request.path} for a job that does not ask")

    def on_change(self, change: Change) -> None:
        """Check a change of a ring; note which jobs ask for one."""
        found = change.object
        if change.plural in api_fields.JOBS:
            asks = asks_for_decisions(api_fields.meta(found))
            (self._asked if asks else self._others).add(api_fields.uid(found))
            self._jobs[api_fields.uid(found)] = change.after
        if not is_ring(found):
            return
        uid = found["metadata"]["name"].removeprefix(PREFIX)
        self._rings[uid] = change.after
        if change.verb == DELETED:
            self._last.pop(uid, None)  # with the job, of which a process may not have heard yet
            if change.actor == USER:
                self._spoiled.add(uid)
            return
        if change.actor != OPERATOR:
            self._spoiled.add(uid)
            return
        self._written[uid].append(self.now())
        self.problems += [f"{uid}: {text}" for text in self._faults(uid, found)]

    def _faults(self, uid: str, found: Document) -> Iterator[str]:
        size = sum(len(key) + len(text) for key, text in as_mapping(found.get("binaryData")).items())
        if size > ring.MOST_BYTES:
            yield f"the ring has {size} bytes"
        job = self._jobs[uid]
        owners = found["metadata"].get("ownerReferences")
        if job is not None and owners != [
            {**{key: job[key] for key in ("apiVersion", "kind")}, "name": job["metadata"]["name"], "uid": uid}
        ]:
            yield f"the owners of the ring are {owners}"
        last = ring.Ring(found).n
        if last <= self._last.get(uid, 0) and uid not in self._spoiled:
            yield f"the last decision was {self._last[uid]}, and is {last}"
        self._last[uid] = last

    # ------------------------------------------------------------------------------------------------------- at the end

    def wait(self, run_for: Callable[[float], None]) -> None:
        """Run until all that waits is stored."""
        if not any(self._jobs.get(uid) for uid in self._asked):
            return
        heard = -1
        while (count := self._heard()) > heard:  # what is decided meanwhile waits as well
            heard = count
            run_for(self._every + 2 * WRITE)
        known = 0
        while (disturbed := self.counts["rings/disturbed requests"]) > known:
            known = disturbed
            run_for(LATEST + REQUEST_TIMEOUT + WRITE)

    def _heard(self) -> int:
        return sum(len(of_job) for term in self._terms for of_job in term.heard.values())

    def check(self) -> list[str]:
        """Return what is wrong once all that can be stored is stored."""
        for uid in sorted(self._asked):
            if self._jobs.get(uid):
                self.problems += [f"{uid}: {text}" for text in self._problems(uid)]
        return self.problems

    def _problems(self, uid: str) -> Iterator[str]:
        known = self._rings.get(uid) or {}
        stored = ring.decisions(known)
        self.counts["rings/jobs"] += 1
        self.counts["rings/decisions"] += len(stored)
        yield from (
            f"decision {one.decision.n} by {one.decision.rule} is otherwise, by {one.rule}: {one.parts}"
            for one in differences(stored)
        )
        heard = [one for term in self._terms for one in term.heard.get(uid, ())]
        found = list(_made(stored, heard))
        if strange := [one.n for one in stored if one.n not in {made.n for made, _ in found}]:
            yield f"decisions {strange} were not made"
            return
        yield from (text for one, by in found if (text := self._misread(one, by)))
        if uid in self._spoiled:
            return
        lines = sum(len(ring._unpacked(text).splitlines()) for text in ring._parts(known).values())
        if [one.n for one in stored] != list(range(self._last.get(uid, 0) - lines + 1, self._last.get(uid, 0) + 1)):
            yield f"{lines} lines have the decisions {[one.n for one in stored]}"
        yield from self._silent(found)
        yield from self._lost(uid, heard, found)
        yield from self._early(uid, heard)

    def _misread(self, one: Decision, by: Heard) -> str:
        if one.saw is None:
            excused = self._small and one.unread == "the job is too large"
            return "" if excused else f"decision {one.n} cannot be read: {one.unread}"
        seen, wanted = _seen(one.saw), _seen(by.snapshot)
        return "" if seen == wanted else f"decision {one.n} is about {seen}, not {wanted}"

    def _silent(self, found: list[tuple[Decision, Heard]]) -> Iterator[str]:
        """Yield the decisions before which others are lost without a word, and those that are out of order."""
        for (_, before), (one, by) in pairwise(found):
            between = by.place - before.place - 1
            if before.term is not by.term:
                # A process that still runs when the next one decides may store what it decided before that.
                if not one.after_restart or (by.term.end is not None and by.term.end < before.at):
                    yield f"decision {one.n} is of another process, and after_restart is {one.after_restart}"
            elif between != one.missed or one.after_restart:
                yield f"before decision {one.n} {between} are lost, and it says {one.missed}, {one.after_restart}"

    def _lost(self, uid: str, heard: list[Heard], found: list[tuple[Decision, Heard]]) -> Iterator[str]:
        """Yield the decisions that are lost, and which their processes had the time to store."""
        stored = {by for _, by in found}
        oldest = heard.index(found[0][1]) if found and found[0][0].n > 1 else 0  # those before it may have gone
        lost = [one for one in heard[oldest:] if one not in stored]
        without = [one for one in lost if not self._may_be_lost(uid, one)]
        self.counts["rings/lost by crashes"] += len(lost) - len(without)
        missed = sum(one.missed for one, _ in found)
        if len(without) > missed:
            one = without[-1]
            yield f"{len(without)} are lost, one by {one.plan.rule} at {one.at:.1f} in {one.term}; {missed} are named"

    def _may_be_lost(self, uid: str, one: Heard) -> bool:
        """Return whether the process of a decision could not store it."""
        end = one.term.end
        until = self.now() if end is None else end
        if any(one.term.began <= at <= until for at in self._refused[uid]):
            return True
        if end is None:
            return False
        frozen = [(at, at + FROZEN + self._every + WRITE) for at in self._frozen[one.term.process.partition("-")[0]]]
        if any(at <= end <= until for at, until in (*self._disturbed[uid], *frozen)):
            return True
        if one.term.clean:
            return False
        return end - one.at <= (WRITE if one.ends else self._every + WRITE)

    def _early(self, uid: str, heard: list[Heard]) -> Iterator[str]:
        """Yield writes that come too soon after another one."""
        ends = [one.at for one in heard if one.ends]
        # A process writes what waits before its end.
        ends += [term.end - (ALTOGETHER if term.clean else 0.0) for term in self._terms if term.end]
        disturbed = [at for at, _ in self._disturbed[uid]]
        for before, after in pairwise(self._written[uid]):
            excused = any(before - self._every - WRITE <= at <= after for at in (*ends, *disturbed))
            if after - before < self._every - job_decisions.POLL_SECONDS and not excused:
                yield f"it was written at {before:.1f} and again at {after:.1f}"


def is_ring(found: Document) -> bool:
    """Return whether an object is the ring of a job."""
    return str((found.get("metadata") or {}).get("name", "")).startswith(PREFIX)


def uid_of(request: Request) -> str:
    """Return the uid of the job whose ring is asked for, empty if it is another request."""
    if "/configmaps" not in request.path:
        return ""
    if PREFIX in request.path:
        return request.path.rpartition(PREFIX)[2].partition("?")[0]
    name = str((json.loads(request.body).get("metadata") or {}).get("name", "")) if request.body else ""
    return name.removeprefix(PREFIX) if name.startswith(PREFIX) else ""


def _made(stored: list[Decision], heard: list[Heard]) -> Iterator[tuple[Decision, Heard]]:
    """Yield the stored decisions that were made, each with the one that was heard."""
    known = defaultdict(list)
    for one in heard:
        known[one.key].append(one)
    found = [
        (decision, _taken(same, decision))
        for decision in reversed(stored)
        if (same := known.get((decision.time, decision.rule, _text(decision.plan))))
    ]
    yield from reversed(found)


def _taken(same: list[Heard], decision: Decision) -> Heard:
    """Take the one of a decision, of two leaders that decide the same about others; of two the first is lost first."""
    one = same[-1]
    if len(same) > 1 and decision.saw:
        seen = _seen(decision.saw)
        one = next((one for one in reversed(same) if _seen(one.snapshot) == seen), one)
    same.remove(one)
    return one


def _seen(snapshot: Snapshot) -> str:
    return _text(document(replace(redacted(snapshot), framework=None)))


def _text(found: Any) -> str:
    return json.dumps(found, sort_keys=True)
