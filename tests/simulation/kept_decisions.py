"""Keeps each decision of an operator in its stored form, reads it again, and plans again from what was read."""

from __future__ import annotations

import json
from collections import Counter

from trainshed.api.actions import Plan, Snapshot
from trainshed.controller.observer import Observer
from trainshed.decisions.again import differences
from trainshed.decisions.documents import plan_document
from trainshed.decisions.recording import Encoder, LineReader


class KeptDecisions(Observer):
    """Checks that keeping and replaying is the identity; `wrong` says where it is not, `counts` how often it was asked.

    Of the decisions of each job the first are checked, and then one in `every`: all are kept, because each is read by
    way of those before it.
    """

    FIRST = 3

    def __init__(self, every: int = 1) -> None:
        self._every = every
        self._jobs: dict[str, tuple[Encoder, LineReader]] = {}
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []

    def on_decision(self, snapshot: Snapshot, plan: Plan) -> None:
        """Keep a decision, read it, and plan again."""
        encoder, reader = self._jobs.setdefault(snapshot.job.uid, (Encoder("test"), LineReader()))
        line = encoder.line(snapshot, plan)
        self.counts["decisions/kept"] += 1
        self.counts["decisions/bytes"] += len(line)
        n = encoder.n
        if n > self.FIRST and n % self._every:
            reader.skim(line)
            return
        self.counts["decisions/planned again"] += 1
        found = reader.read(line)
        if found is None or found.saw is None:
            self.wrong.append(f"{snapshot.job.key}: decision {n} cannot be read: {found and found.unread}")
            return
        expected = json.loads(json.dumps(plan_document(snapshot.status, plan)))
        if (found.rule, found.plan, found.time) != (plan.rule, expected, snapshot.now):
            self.wrong.append(f"{snapshot.job.key}: decision {n} is kept as {found.plan}, not {expected}")
        self.wrong += [
            f"{snapshot.job.key}: decision {n} by {plan.rule} is otherwise, by {one.rule}: "
            + "; ".join(f"{part}: {found.plan.get(part)} != {one.plan.get(part)}" for part in one.parts)
            for one in differences([found])
        ]
