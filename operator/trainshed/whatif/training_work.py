"""How far the training of a virtual run has come: what is saved, what is lost, and what the pods' time was used for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from .assumptions import Assumptions, Use
from .subject import VirtualJob

ROUNDING = 1e-9


class TrainingWork:
    """The training; `end` is when it is done if nothing fails.

    It goes on while all replicas run, or enough workers of an elastic job: then at the pace of those that are there.
    Each checkpoint stops it for its cost. What it has done since the last one is lost when it stops.
    """

    def __init__(self, subject: VirtualJob, assumed: Assumptions) -> None:
        self._subject = subject
        self._assumed = assumed
        self._left = assumed.run_time
        self._begin: float | None = None
        self._earliest = 0.0
        self._accounted = self._noted = 0.0
        self._held = [0.0] * (len(subject.resources) + 1)
        self._pace = 1.0
        self.has_begun = False
        self.end = math.inf
        self.used = {use: [0.0] * (len(subject.resources) + 1) for use in Use}

    def trains(self, now: float) -> bool:
        """Return whether the training goes on."""
        return self._begin is not None and self._begin < now

    def delay_until(self, time: float) -> None:
        """Let the training not go on before this time."""
        if self._subject.minimum is not None:
            self._earliest = time

    def resume(self, now: float, trainers: Mapping[str, int]) -> None:
        """Let the training go on if enough replicas run."""
        if self._begin is not None:
            return
        pace = self._pace_of(trainers)
        if not pace:
            return
        self._pace, self._begin = pace, max(now, self._earliest)
        every = self._assumed.checkpoint_every
        saves = max(0, math.ceil(self._left / every) - 1)
        self.end = self._begin + self._left / pace + saves * self._assumed.checkpoint_cost

    def note(self, now: float, held: Sequence[float]) -> None:
        """Note that the pods have held so much until now: that is about to change."""
        for place, amount in enumerate(held):
            self._held[place] += amount * (now - self._noted)
        self._noted = now

    def stop(self, now: float) -> None:
        """Account for the time until now, which is noted, and fall back to the last checkpoint."""
        seconds = now - self._accounted
        held = [amount / seconds for amount in self._held] if seconds > 0 else self._held
        begin = now if self._begin is None else min(now, self._begin)
        self._spend(Use.RESTARTS if self.has_begun else Use.START, begin - self._accounted, held)
        if begin < now:
            self.has_begun = True
            self._account_training(now - begin, held, is_done=now >= self.end)
        self._accounted, self._begin, self.end = now, None, math.inf
        self._held = [0.0] * len(held)

    def _account_training(self, seconds: float, held: Sequence[float], *, is_done: bool) -> None:
        """Divide a time of training into what is kept, what is lost, and what the checkpoints took."""
        every, cost = self._assumed.checkpoint_every / self._pace, self._assumed.checkpoint_cost
        if is_done:
            kept, saving, lost = self._left / self._pace, seconds - self._left / self._pace, 0.0
            self._left = 0.0
        else:
            # A time that is a whole number of cycles but for its rounding is one.
            saves = 0 if math.isinf(every) else math.floor(seconds / (every + cost) + ROUNDING)
            kept = saves * every if saves else 0.0
            rest = max(0.0, seconds - kept - saves * cost)
            lost = min(rest, every)
            saving = saves * cost + rest - lost
            self._left = max(0.0, self._left - kept * self._pace)
        self._spend(Use.TRAINING, kept, held)
        self._spend(Use.CHECKPOINTS, saving, held)
        self._spend(Use.LOST_WORK, lost, held)

    def _spend(self, use: Use, seconds: float, held: Sequence[float]) -> None:
        if seconds > 0:
            amounts = self.used[use]
            for place, amount in enumerate(held):
                amounts[place] += seconds * amount

    def _pace_of(self, trainers: Mapping[str, int]) -> float:
        """Return the share of the full pace with which the replicas that run train, 0 if they cannot."""
        found = 1.0
        for group in self._subject.job.groups:
            running = trainers.get(group.role, 0)
            if running >= group.count:
                continue
            if self._subject.minimum is None or group.role != "Worker" or running < self._subject.minimum:
                return 0.0
            found = running / group.count
        return found
