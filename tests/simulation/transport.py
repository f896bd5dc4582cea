"""The transport of an operator in the simulation: to the server and back, through whatever weather there is."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from trainshed.client.transport import REQUEST_TIMEOUT, Answer, Request, Stream, TransportError

from .answers import Refusal
from .faults import Fate, Weather
from .feed import Feed
from .loop import VirtualLoop
from .moments import Handle
from .server import Server


class Flight:
    """A request on its way: `arrive` carries it out, and sends the answer on its way back."""

    def __init__(self, line: Line, request: Request, fate: Fate) -> None:
        self.request = request
        self.fate = fate
        self.timer: Handle | None = None
        self.answer: asyncio.Future[Answer] = line.loop.create_future()
        self._line = line

    def arrive(self) -> None:
        """The server has it."""
        line, fate = self._line, self.fate
        line.flights.pop(self, None)
        answer = fate.instead or line.ask(self.request, fate.behind)
        answer = fate.lost or answer
        if fate.cut is not None:
            answer = replace(answer, content=answer.content[: fate.cut])
        if fate.after is not None:
            line.later(fate.after, self._return, answer)

    def give_up(self) -> None:
        """The client has waited long enough."""
        if not self.answer.done():
            self.answer.set_exception(TransportError("TimeoutError: "))

    def _return(self, answer: Answer) -> None:
        if self.answer.done():
            return
        if answer.status == 0:
            self.answer.set_exception(TransportError("ClientOSError: Connection reset by peer"))
        else:
            self.answer.set_result(answer)


class Line:
    """The connection of the process `name`, which the server knows as `actor`; once `cut`, nothing passes any more."""

    def __init__(self, loop: VirtualLoop, server: Server, weather: Weather, name: str, actor: str) -> None:
        self.loop = loop
        self.name = name
        self.flights: dict[Flight, None] = {}
        self.feeds: dict[Feed, None] = {}
        self.weather = weather
        self.server = server
        self.cut = False
        self._actor = actor
        self._world = contextvars.copy_context()

    async def exchange(self, request: Request) -> Answer:
        """One request, once; raises `Broken`."""
        if self.cut:
            await self.loop.create_future()
        fate = self.weather.exchange(self.name, request)
        flight = Flight(self, request, fate)
        if fate.before == 0:
            flight.arrive()
        else:
            self.flights[flight] = None
            if fate.before is not None:
                flight.timer = self.later(fate.before, flight.arrive)
        if fate.before is None or fate.after is None or fate.before + fate.after > REQUEST_TIMEOUT:
            self.later(REQUEST_TIMEOUT, flight.give_up)
        return await flight.answer

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        """One watch; raises `Broken`, also between pieces."""
        if self.cut:
            await self.loop.create_future()
        fate = self.weather.exchange(self.name, request)
        for seconds in (fate.before, fate.after):
            await asyncio.sleep(REQUEST_TIMEOUT if seconds is None else seconds)
        if fate.before is None or fate.after is None:
            raise TransportError("TimeoutError: ")
        refusal = fate.instead or fate.lost
        if refusal is not None and refusal.status == 0:
            raise TransportError("ClientOSError: Connection reset by peer")
        if refusal is not None:
            yield refusal, _nothing()
            return
        feed = Feed(self, request.path, request.query)
        try:
            feed.open()
        except Refusal as refused:
            yield Answer(refused.code, refused.content), _nothing()
            return
        self.feeds[feed] = None
        try:
            yield Answer(200), feed.pieces()
        finally:
            self.feeds.pop(feed, None)
            feed.close()

    async def close(self) -> None:
        """Nothing to let go of."""

    def ask(self, request: Request, behind: int | None) -> Answer:
        """What the server says."""
        return self.server.answer(self._actor, request, behind)

    def later(self, seconds: float, call: Callable[..., None], *words: object) -> Handle:
        """Do it in so many seconds; it is the network that does, whatever becomes of the process."""
        return self.loop.call_later(seconds, call, *words, context=self._world)

    def fall(self, arrives: Callable[[Request], bool]) -> None:
        """The process is no more: of what is on its way to the server, that arrives which `arrives` says."""
        self.cut = True
        for flight in tuple(self.flights):
            if flight.timer is not None:
                flight.timer.cancel()
            if arrives(flight.request):
                flight.arrive()
        self.flights.clear()
        for feed in tuple(self.feeds):
            feed.close()
        self.feeds.clear()


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield
