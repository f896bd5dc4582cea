"""What the operator takes notice of: of orders that it cannot tell apart one is tried.

Nobody can tell:

- when a watch tells what the operator knows already from the answer to its own write;
- whether a watch tells something while a look is under way or after it: a look decides by what was known when it began.
  The exceptions are looks that list pods, and those that were refused something: they look at what is known once more;
- in which order the server carries out what one look has asked of it at the same time, unless the operator may die in
  between.

`docs/decisions/partial-order-reduction.md` has the reasons, `test_small.py` the proof for what is small enough.
"""

from __future__ import annotations

from typing import Any

import orjson

from simulation.feed import Feed
from simulation.machine import Machine
from simulation.moments import Handle
from simulation.server import Server
from simulation.transport import Flight
from support.audit.change import OPERATOR, Request
from trainshed.api.objects import is_older

from .words import sender, tail

#: Whoever is answered this may look at the job once more, within the same look.
REFUSALS = (403, 409, 422)


class Attention:
    """That of the operator of one machine, which looks after jobs of one kind."""

    def __init__(self, machine: Machine, server: Server, kind: str) -> None:
        self._machine = machine
        self._server = server
        self._kind = kind
        self._refused = False
        server.requests.append(self._hear)

    def knows(self, messages: list[Handle]) -> bool:
        """Whether these lines of a watch are no news, and nobody waits to have been told so much."""
        feed = sender(messages[0])
        if not isinstance(feed, Feed) or self.doubts():
            return False
        return all(self._is_known(feed, message) for message in messages)

    def doubts(self) -> bool:
        """Whether the operator will not decide before it has been told more of the pods."""
        if self._machine.operator is None:
            return False
        horizon, latest = self._cache._staleness, self._cache.pods.store.latest
        told = (last or before for before, last in horizon._written.values())
        return bool(horizon._doubtful) or any(is_older(latest, version) for version in told)

    def looks(self, messages: list[Handle]) -> bool:
        """Whether a look is under way that waits for answers, and for nothing else."""
        flights = [flight.request for message in messages if isinstance(flight := sender(message), Flight)]
        if not flights or not self.busy or self._refused or self._cache._troubles:
            return False
        return not any(self._matters(request.verb, request.path, request.body) for request in flights)

    def starts(self) -> bool:
        """Whether the operator has yet to list what there is, before which it looks at nothing."""
        return self._machine.operator is None or not all(one.synced.is_set() for one in self._operator._informers)

    @property
    def busy(self) -> bool:
        """Whether a look is under way."""
        return self._machine.operator is not None and bool(self._operator._worker._looks)

    @property
    def _operator(self) -> Any:
        return self._machine.operator

    @property
    def _cache(self) -> Any:
        return self._operator._caches.all[""].cache

    def _is_known(self, feed: Feed, message: Handle) -> bool:
        line = orjson.loads(message.args[0])
        meta = line["object"]["metadata"]
        store = self._cache.pods.store if tail(feed.path) == "pods" else self._cache.jobs[self._kind]
        known = store.items.get(meta.get("uid", ""))
        if line["type"] == "DELETED":
            return known is None
        return known is not None and known.version == meta["resourceVersion"]

    def _matters(self, verb: str, path: str, body: bytes | None) -> bool:
        """Whether the look may look again once this is answered."""
        if verb == "GET":
            return tail(path) == "pods"
        if verb != "POST":
            return False
        return self._server.object(f"{path}/{orjson.loads(body or b'')['metadata']['name']}") is not None

    def _hear(self, actor: str, request: Request) -> None:
        if actor == OPERATOR:
            self._refused = self.busy and (self._refused or request.status in REFUSALS)
