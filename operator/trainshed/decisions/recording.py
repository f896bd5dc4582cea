"""Decisions as lines of JSON: of the first what the planner saw as a whole, of those after it what differs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from trainshed.api.actions import Plan, Snapshot
from trainshed.api.coerce import as_mapping, as_sequence, parse_integer, parse_text
from trainshed.api.job import Document
from trainshed.api.objects import Dependent, Pod, Service
from trainshed.api.status import Status

from .documents import changes, digest, document, framework_of, plan_document, redacted, snapshot_of

#: The name of the file in the folder of a run.
FILE = "decisions.jsonl"
#: The form of the lines; a reader refuses a later one.
FORM = 1
#: The fields of a snapshot whose items have uids, and those that change one by one.
KEYED, NESTED = ("pods", "services", "dependents", "unwatched"), ("job", "status", "job_defaults", "signs")
#: The most bytes of a line that is read, and of a file of lines.
MOST_LINE, MOST_READ = 16 << 20, 256 << 20


class Decision(msgspec.Struct, frozen=True):
    """One decision: the number `n` of it, when it was made, by which rule, what the planner `saw`, and its plan.

    `saw` is None if the job is too large for what may be kept, or if this version cannot read it: `unread` says why.
    `missed` decisions before it were not kept; `version` is Trainshed's, and `after_restart` says that the operator
    started before it, so that some of the last half minute before may be missing.
    """

    n: int
    time: datetime
    rule: str
    saw: Snapshot | None
    plan: Document
    version: str = ""
    unread: str = ""
    missed: int = 0
    after_restart: bool = False


def worth_keeping(snapshot: Snapshot, plan: Plan, rule: str) -> bool:
    """Return whether a decision does anything, or is by another rule than the one before it.

    A new report of the training alone is not worth it: it comes every minute, for weeks.
    """
    if rule != plan.rule or plan.actions or any(not event.key for event in plan.events):
        return True
    known = snapshot.status
    return replace(plan.status, trainer=known.trainer, time_spent=known.time_spent) != known


class Encoder:
    """Makes the lines of one job in turn: `n` of them so far, the last about a decision by `rule`.

    `version` is Trainshed's.
    """

    def __init__(self, version: str) -> None:
        self._version = version
        self._before: Snapshot | None = None
        self.n = 0
        self.rule = ""

    def line(
        self, snapshot: Snapshot, plan: Plan, *, whole: bool = False, missed: int = 0, after_restart: bool = False
    ) -> bytes:
        """Return the line of a decision, with the end of the line; `whole` if it must not need those before it."""
        clean = redacted(snapshot)
        before = None if whole else self._before
        self.n += 1
        head: dict[str, Any] = self._start(snapshot, plan)
        head |= {"missed": missed} if missed else {}
        if before is None:
            head["of"] = self._head(clean, after_restart=after_restart)
        head["saw"] = _whole(clean) if before is None else _difference(before, clean)
        head["plan"] = plan_document(snapshot.status, plan)
        self._before = clean
        self.rule = plan.rule
        return as_line(head)

    def line_without(self, snapshot: Snapshot, plan: Plan, *, missed: int = 0, after_restart: bool = False) -> bytes:
        """Return the line of a decision with a digest of what the planner saw, for a job that is too large."""
        clean = redacted(snapshot)
        self.n, self._before = self.n + 1, None
        head = self._start(snapshot, plan) | {"of": self._head(clean, after_restart=after_restart)}
        head |= {"missed": missed} if missed else {}
        self.rule = plan.rule
        summary = {"digest": digest(_whole(clean)), "pods": len(snapshot.pods)}
        return as_line({**head, "digest": summary, "plan": plan_document(snapshot.status, plan)})

    def _start(self, snapshot: Snapshot, plan: Plan) -> dict[str, Any]:
        return {"uid": snapshot.job.uid, "n": self.n, "time": document(snapshot.now), "rule": plan.rule}

    def _head(self, snapshot: Snapshot, *, after_restart: bool) -> dict[str, Any]:
        job = snapshot.job
        names = {"namespace": job.namespace, "name": job.name, "uid": job.uid}
        own = {"form": FORM, "version": self._version, "apiVersion": job.api_version, "kind": job.kind, **names}
        return own | ({"after_restart": True} if after_restart else {})


def as_line(found: Document) -> bytes:
    """Return a line with its end."""
    # Not orjson: names that others give may have halves of characters, which only this writes and reads again.
    return json.dumps(found, separators=(",", ":")).encode() + b"\n"


def _whole(snapshot: Snapshot) -> dict[str, Any]:
    found: dict[str, Any] = document(replace(snapshot, framework=None))
    del found["framework"]
    return found


def _difference(before: Snapshot, after: Snapshot) -> dict[str, Any]:
    """Return what differs: of objects with uids those that are new, changed or gone, of others the fields."""
    found: dict[str, Any] = {}
    for field in Snapshot.__struct_fields__:
        old, new = getattr(before, field), getattr(after, field)
        if field == "framework" or old is new or old == new:
            continue
        if field in KEYED:
            found[field] = _items(old, new)
        else:
            found[field] = changes(old, new) if field in NESTED else document(new)
    return found


Item = Pod | Service | Dependent


def _items(old: tuple[Item, ...], new: tuple[Item, ...]) -> dict[str, Any]:
    known, now = {one.uid: one for one in old}, {one.uid: one for one in new}
    if len(known) < len(old) or len(now) < len(new):
        return {"all": [document(one) for one in new]}
    changed = {uid: changes(known[uid], one) for uid, one in now.items() if uid in known and known[uid] != one}
    added = {uid: document(one) for uid, one in now.items() if uid not in known}
    found = {"gone": [uid for uid in known if uid not in now], "set": changed | added}
    if [*(uid for uid in known if uid in now), *added] != [*now]:
        found["order"] = [*now]
    return {key: value for key, value in found.items() if value}


def _applied(known: list[Document], patch: Document) -> list[Document]:
    if "all" in patch:
        return list(as_sequence(patch["all"]))
    found = {parse_text(one.get("uid")): one for one in known}
    for uid in as_sequence(patch.get("gone")):
        found.pop(str(uid), None)
    for uid, values in as_mapping(patch.get("set")).items():
        found[uid] = {**found.get(uid, {}), **as_mapping(values)}
    order = as_sequence(patch.get("order"))
    return [found[str(uid)] for uid in order if str(uid) in found] if order else list(found.values())


class LineReader:
    """Reads the lines of one job in turn.

    Anyone may have written them, and the last one may be torn: what cannot be read is left out, and what needs it has
    no snapshot. A snapshot of another version that this one cannot read is None.
    """

    def __init__(self) -> None:
        self._state: dict[str, Any] | None = None
        self._head: Document = {}

    @property
    def names(self) -> tuple[str, str, str]:
        """The kind, namespace and name of the job, each empty if it is not known."""
        kind, namespace, name = (parse_text(self._head.get(part)) for part in ("kind", "namespace", "name"))
        return kind, namespace, name

    def skim(self, line: bytes, *, leave: bool = False) -> tuple[Document, datetime] | None:
        """Take a line as one that the next ones need; return what it has, None if it is none.

        With `leave` it and those that need it have no snapshot.
        """
        found = parsed(line)
        time = _time(found.get("time"))
        if time is None:
            self._state = None
            return None
        if "of" in found:
            self._head = as_mapping(found["of"])
            self._state = {} if "saw" in found else None
        if leave:
            self._state = None
        if self._state is not None:
            self._state = _next(self._state, as_mapping(found.get("saw")))
        return found, time

    def read(self, line: bytes, *, unread: str = "") -> Decision | None:
        """Return the decision of a line, None if it is none; `unread` is why its snapshot is not to be read."""
        taken = self.skim(line, leave=bool(unread))
        if taken is None:
            return None
        found, time = taken
        saw, unread = (None, unread) if unread else _snapshot(self._state, self._head, found)
        return Decision(
            n=parse_integer(found.get("n")),
            time=time,
            rule=parse_text(found.get("rule")),
            saw=saw,
            plan=as_mapping(found.get("plan")),
            version=parse_text(self._head.get("version")),
            unread=unread,
            missed=parse_integer(found.get("missed")),
            after_restart="of" in found and self._head.get("after_restart") is True,
        )


def decode(lines: Iterable[bytes]) -> list[Decision]:
    """Return the decisions of lines of one job, in their order."""
    reader = LineReader()
    return [found for line in lines if (found := reader.read(line))]


class Recording(msgspec.Struct, frozen=True):
    """The decisions that are kept of a job, the oldest first."""

    kind: str
    namespace: str
    name: str
    decisions: list[Decision]


def recordings(lines: Iterable[bytes]) -> list[Recording]:
    """Return the decisions of lines of any jobs, by job, in the order of their first lines."""
    readers: dict[str, LineReader] = {}
    found: dict[str, Recording] = {}
    for line in lines:
        uid = parse_text(parsed(line).get("uid"))
        reader = readers.setdefault(uid, LineReader())
        if decision := reader.read(line):
            known = found.setdefault(uid, Recording(*reader.names, []))
            known.decisions.append(decision)
    return list(found.values())


def last_of_job(lines: Iterable[bytes], uid: str, most: int) -> list[Decision]:
    """Return the last decisions about one job, of lines of any jobs; those before them are skimmed only."""
    own = [line for line in lines if parsed(line).get("uid") == uid]
    reader, first = LineReader(), max(0, len(own) - most)
    for line in own[:first]:
        reader.skim(line)
    return [found for line in own[first:] if (found := reader.read(line))]


def _next(state: dict[str, Any], patch: Document) -> dict[str, Any]:
    if not state:
        return dict(patch)
    found = dict(state)
    for field, value in patch.items():
        if field in KEYED:
            found[field] = _applied([as_mapping(one) for one in as_sequence(state.get(field))], as_mapping(value))
        elif field in NESTED:
            found[field] = {**as_mapping(state.get(field)), **as_mapping(value)}
        else:
            found[field] = value
    return found


def _snapshot(state: Mapping[str, Any] | None, head: Document, found: Document) -> tuple[Snapshot | None, str]:
    """Return the snapshot, or why there is none."""
    if state is None:
        large = as_mapping(found.get("digest"))
        return None, "the job is too large" if large else "a line before it is missing"
    if head.get("form") != FORM:
        return None, "a later version has written it"
    try:
        return snapshot_of(state, framework_of(head.get("apiVersion"), head.get("kind"))), ""
    except ValueError as error:
        return None, str(error)


def parsed(line: bytes) -> Document:
    """Return what a line has, nothing if it is none or too long."""
    if len(line) > MOST_LINE:
        return {}
    try:
        return as_mapping(json.loads(line))
    except (ValueError, RecursionError):
        return {}


def _time(found: object) -> datetime | None:
    try:
        time = datetime.fromisoformat(parse_text(found))
    except ValueError:
        return None
    return time if time.tzinfo else None


def status_after(decision: Decision) -> Status | None:
    """Return the status that a decision has stored; None if it is not known."""
    if decision.saw is None:
        return None
    known = {**document(decision.saw.status), **as_mapping(decision.plan.get("status"))}
    try:
        return msgspec.convert(known, Status)
    except msgspec.ValidationError:
        return None
