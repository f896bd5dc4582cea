"""A desk that takes Events in, as an API server would, and a recorder at work before it."""

from __future__ import annotations

import asyncio

from hasty import now
from make import a_job
from trainshed.api.actions import Note
from trainshed.cluster import Conflict, Denied, Missing
from trainshed.loop.recorder import GATHER, Recorder

JOB = a_job(worker=2)


class Desk:
    """Takes Events in, as an API server would."""

    def __init__(self) -> None:
        self.events: dict[str, dict] = {}
        self.updates: list[dict] = []
        self.refuses = False
        self.slow = 0.0

    async def create_event(self, namespace: str, body: dict) -> None:
        await asyncio.sleep(self.slow)
        if self.refuses:
            raise Denied("no events here")
        assert body["metadata"]["namespace"] == namespace
        if body["metadata"]["name"] in self.events:
            raise Conflict(body["metadata"]["name"])
        self.events[body["metadata"]["name"]] = dict(body)

    async def update_event(self, _namespace: str, name: str, patch: dict) -> None:
        if name not in self.events:
            raise Missing(name)
        self.updates.append(patch)
        self.events[name].update(patch)

    def messages(self) -> list[str]:
        """What the Events say."""
        return [event["message"] for event in self.events.values()]


class Scene:
    """A recorder at work."""

    def __init__(self, desk: Desk | None = None) -> None:
        self.desk, self.losses = desk or Desk(), 0
        self.recorder = Recorder(self.desk, self._lose, now)
        self.task = asyncio.create_task(self.recorder.run())

    def tell(self, *notes: Note, job=JOB) -> None:
        """Note this."""
        for note in notes:
            self.recorder.tell(job, note)

    async def settle(self) -> None:
        """Return once all is written."""
        await asyncio.sleep(2 * GATHER + 0.1)
        assert not self.task.done()

    def _lose(self) -> None:
        self.losses += 1
