"""The changes in one namespace for the auditor, with their actors, in the order in which the server committed them."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import orjson

from support.audit.auditor import Auditor
from support.audit.change import COLLECTOR, CREATED, DELETED, KUBELET, MODIFIED, OPERATOR, USER, Change
from support.audit.final_state import Summary
from support.fault_proxy import Passed

from .history import Version

#: A duration, or a share of one, in a status.
DURATION = r"\"(?:\w+Seconds|availabilityPercentage|goodputPercentage)\": \d+"
#: Patterns of values that differ from run to run, and their replacements.
VOLATILE = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<uid>"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)"), "<time>"),
    (re.compile(r"kube-api-access-\w+"), "<token>"),
    (re.compile(r"198\.19\.\d+\.\d+"), "<address>"),
    (re.compile(r"\b\d+(\.\d+)? s\b"), "<seconds>"),
    (re.compile(r"\bafter (\d+[hms])+\b|\b(\d+[hms])+ after start\b"), "<duration>"),
    (re.compile(rf"{DURATION}, |(, )?{DURATION}"), ""),
    (re.compile(r"\"trainshed.dev/last-applied-hash\": \"\w+\""), "<digest>"),
)


class Evidence:
    """Everything that happened in one namespace: `passed` are the operator's writes, `user_versions` the user's."""

    def __init__(self, versions: Iterable[Version], passed: Collection[Passed], user_versions: Collection[str]) -> None:
        self._user_versions = user_versions
        self._written, self._deleted = _effects(passed)
        self._versions = [*versions]
        self._events = [*_events(passed)]

    def changes(self) -> list[Change]:
        """All changes, each with its actor."""
        found = [self._change(version) for version in self._versions] + self._events
        return sorted(found, key=lambda change: int(change.object["metadata"]["resourceVersion"]))

    def audit(self) -> Auditor:
        """An auditor that has seen all changes."""
        auditor = Auditor(skew=1.0, watched=("configmaps",))
        for change in self.changes():
            auditor.on_change(change)
        return auditor

    def _change(self, version: Version) -> Change:
        verb = DELETED if version.after is None else CREATED if version.before is None else MODIFIED
        change = Change(version.at, "", verb, version.plural, version.before, version.after)
        return Change(version.at, self._actor(change), verb, version.plural, version.before, version.after)

    def _actor(self, change: Change) -> str:
        meta = change.object["metadata"]
        if change.verb != DELETED:
            if meta["resourceVersion"] in self._written:
                return OPERATOR
            return USER if meta["resourceVersion"] in self._user_versions or change.plural != "pods" else KUBELET
        if change.requests_deletion and meta["uid"] in self._deleted:
            return OPERATOR
        return KUBELET if change.plural == "pods" and not change.requests_deletion else COLLECTOR


def _effects(passed: Collection[Passed]) -> tuple[set[str], set[str]]:
    """The versions that the operator has written, and the UIDs that it has deleted."""
    written: set[str] = set()
    deleted: set[str] = set()
    for one in passed:
        if not 200 <= one.stored < 300:
            continue
        found = orjson.loads(one.found)
        if one.request.verb == "DELETE":
            deleted.add((found.get("details") or found["metadata"]).get("uid", ""))
        if version := found.get("metadata", {}).get("resourceVersion"):
            written.add(version)
    return written, deleted


def _events(passed: Collection[Passed]) -> Iterator[Change]:
    """The Events, from the answers to the writes; they are not watched."""
    for one in passed:
        if one.request.plural == "events" and 200 <= one.stored < 300:
            found = orjson.loads(one.found)
            yield Change(one.at, OPERATOR, CREATED, "events", None, found)


def claimed(passed: Collection[Passed], until: float) -> frozenset[str]:
    """Return the states of which was stored, by requests that came until then, that a message is sent."""
    writes = [one for one in passed if 200 <= one.stored < 300 and one.request.at <= until]
    statuses = [orjson.loads(one.request.body)["status"] for one in writes if one.request.parts[3] == "status"]
    return frozenset(status["notified"]["state"] for status in statuses if "notified" in status)


def normalized(portrait: Summary, namespace: str, ignored: Collection[str] = ()) -> dict[str, str]:
    """Return a final state as texts, without fields that differ from run to run and without `ignored` status fields."""
    plain = partial(_plain, namespace=namespace)
    found_without = {name: _without(found, ignored) for name, found in portrait.items()}
    return {plain(name): plain(json.dumps(found, sort_keys=True)) for name, found in found_without.items()}


def _without(found: Any, ignored: Collection[str]) -> Any:
    if not isinstance(found, dict) or not ignored:
        return found
    return found | {"status": {key: value for key, value in found["status"].items() if key not in ignored}}


def _plain(text: str, namespace: str) -> str:
    text = text.replace(namespace, "<namespace>")
    for pattern, word in VOLATILE:
        text = pattern.sub(word, text)
    return text


def differences(reference: Mapping[str, str], found: Mapping[str, str]) -> Iterator[str]:
    """Return the differences between two states."""
    for name in sorted(reference.keys() | found.keys()):
        was, now = reference.get(name, "nothing"), found.get(name, "nothing")
        if was != now:
            at = next((i for i, (a, b) in enumerate(zip(was, now, strict=False)) if a != b), min(len(was), len(now)))
            yield f"{name}: …{was[max(0, at - 60) : at + 120]}… has become …{now[max(0, at - 60) : at + 120]}…"
