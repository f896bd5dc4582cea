"""Faults at writes: the operator is killed before or after one, or gets another answer than the server's."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field

from support.api_request import Answer, Request, refusal
from support.fault_proxy import LOST, Forward

#: Seconds between an answer and the kill: the operator has just read it.
A_MOMENT = 0.003

Kill = Callable[[], None]
WriteFault = Callable[[Request, Forward, Kill], Awaitable[Answer]]


async def killed_before(_request: Request, _forward: Forward, kill: Kill) -> Answer:
    """The operator is killed, and the server does not get the request."""
    kill()
    return LOST


async def killed_after_commit(_request: Request, forward: Forward, kill: Kill) -> Answer:
    """The server has carried it out, and the operator is killed before the answer."""
    await forward()
    kill()
    return LOST


async def killed_after_answer(_request: Request, forward: Forward, kill: Kill) -> Answer:
    """The operator is killed right after the answer."""
    answer = await forward()
    asyncio.get_running_loop().call_later(A_MOMENT, kill)
    return answer


async def conflict(request: Request, _forward: Forward, _kill: Kill) -> Answer:
    """409: the object exists already, or has changed."""
    return refusal(409, "AlreadyExists" if request.verb == "POST" else "Conflict")


async def throttled(_request: Request, _forward: Forward, _kill: Kill) -> Answer:
    """429 with Retry-After: 1."""
    return refusal(429, "TooManyRequests", Retry_After="1")


async def broken(_request: Request, _forward: Forward, _kill: Kill) -> Answer:
    """500, and the request was not carried out."""
    return refusal(500, "InternalError")


async def timed_out(_request: Request, forward: Forward, _kill: Kill) -> Answer:
    """504, though the request was carried out."""
    await forward()
    return refusal(504, "Timeout")


async def torn(_request: Request, forward: Forward, _kill: Kill) -> Answer:
    """The request was carried out, and the connection breaks in the middle of the answer."""
    answer = await forward()
    return Answer(answer.status, answer.body, cut=len(answer.body) // 2)


async def denied(_request: Request, _forward: Forward, _kill: Kill) -> Answer:
    """403, once."""
    return refusal(403, "Forbidden", "the rights are being changed")


CRASHES: dict[str, WriteFault] = {
    "killed-before": killed_before,
    "killed-after-commit": killed_after_commit,
    "killed-after-answer": killed_after_answer,
}
ANSWERS: dict[str, WriteFault] = {
    "409": conflict,
    "429": throttled,
    "500": broken,
    "504-after-commit": timed_out,
    "reset-after-commit": torn,
    "403": denied,
}
WRITE_FAULTS = CRASHES | ANSWERS


#: A write by its name, and its number among the writes of that name, from 1.
Numbered = tuple[str, int]


def numbered(writes: Iterable[str]) -> Iterator[Numbered]:
    """Each write with its number among those of the same name."""
    seen: Counter[str] = Counter()
    for write in writes:
        seen[write] += 1
        yield write, seen[write]


@dataclass
class FaultAtWrites:
    """Injects a fault at each of the `wanted` writes; `struck` is the time of the last, `at` are their names."""

    fault: WriteFault
    wanted: Collection[Numbered]
    kill: Kill
    struck: float = 0.0
    at: list[str] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)

    @property
    def strikes(self) -> int:
        """The number of injected faults."""
        return len(self.at)

    async def __call__(self, request: Request, forward: Forward) -> Answer:
        """The answer to a write."""
        name = str(request)
        self.seen[name] += 1
        if (name, self.seen[name]) not in self.wanted:
            return await forward()
        self.struck = request.at
        self.at.append(name)
        return await self.fault(request, forward, self.kill)
