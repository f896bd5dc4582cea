"""A gang scheduler in the simulation: it admits the PodGroups of jobs, and at times takes an admission back."""

from __future__ import annotations

from random import Random
from typing import Any

from support.audit.change import CREATED, Change

from .answers import Refusal
from .stage import Stage

Object = dict[str, Any]
GROUPS = "podgroups"
#: Seconds from one phase of a PodGroup to the next, and how many phases follow each other before it stays admitted.
FIRST, LAST, MOST = 0.05, 8.0, 5
#: Volcano's phases; in the last one a PodGroup stays.
PHASES, ADMITTED = ("Pending", "Inqueue", "Running", "Unknown"), "Running"


class GangScheduler:
    """Sets the phase of each new PodGroup some times; `random` draws when, and which."""

    def __init__(self, stage: Stage, random: Random) -> None:
        self._stage = stage
        self._random = random
        stage.server.changes.append(self._hear)

    def _hear(self, change: Change) -> None:
        if change.plural == GROUPS and change.verb == CREATED:
            self._later(change.object["metadata"]["uid"], self._random.randrange(MOST))

    def _later(self, uid: str, left: int) -> None:
        self._stage.later(FIRST + (LAST - FIRST) * self._random.random() ** 3, self._set, uid, left)

    def _set(self, uid: str, left: int) -> None:
        place = self._stage.server.storage.place(uid)
        found = self._stage.server.storage.get(*place) if place else None
        if place is None or found is None:
            return
        meta, version = found.document["metadata"], found.document["apiVersion"]
        # The PodGroup of scheduler-plugins has a status subresource, Volcano's has none.
        part = "/status" if place[0].status else ""
        path = f"/apis/{version}/namespaces/{meta['namespace']}/{GROUPS}/{meta['name']}{part}"
        phase = self._random.choice(PHASES) if left else ADMITTED
        try:
            self._stage.server.request("scheduler", "PATCH", path, body={"status": {"phase": phase}})
        except Refusal:
            return  # it is gone
        if left:
            self._later(uid, left - 1)
