"""What may happen to a write: the operator dies around it, or hears something else than that all went well."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field

from .proxy import LOST, Forward
from .request import Answer, Request, refusal

#: Seconds after an answer until the operator is dead: it has just read it.
A_MOMENT = 0.003

Kill = Callable[[], None]
Blow = Callable[[Request, Forward, Kill], Awaitable[Answer]]


async def killed_before(_request: Request, _forward: Forward, kill: Kill) -> Answer:
    """The operator dies, and the server never hears of it."""
    kill()
    return LOST


async def killed_after_commit(_request: Request, forward: Forward, kill: Kill) -> Answer:
    """The server has done it, and the operator dies before it knows."""
    await forward()
    kill()
    return LOST


async def killed_after_answer(_request: Request, forward: Forward, kill: Kill) -> Answer:
    """The operator knows, and dies before it can do much about it."""
    answer = await forward()
    asyncio.get_running_loop().call_later(A_MOMENT, kill)
    return answer


async def conflict(request: Request, _forward: Forward, _kill: Kill) -> Answer:
    """409: there is such an object already, or another version of it."""
    return refusal(409, "AlreadyExists" if request.verb == "POST" else "Conflict")


async def throttled(_request: Request, _forward: Forward, _kill: Kill) -> Answer:
    """429: come back in a second."""
    return refusal(429, "TooManyRequests", Retry_After="1")


async def broken(_request: Request, _forward: Forward, _kill: Kill) -> Answer:
    """500, and nothing was done."""
    return refusal(500, "InternalError")


async def timed_out(_request: Request, forward: Forward, _kill: Kill) -> Answer:
    """504, though it was done."""
    await forward()
    return refusal(504, "Timeout")


async def torn(_request: Request, forward: Forward, _kill: Kill) -> Answer:
    """It was done, and the connection breaks in the middle of the answer."""
    answer = await forward()
    return Answer(answer.status, answer.body, cut=len(answer.body) // 2)


async def denied(_request: Request, _forward: Forward, _kill: Kill) -> Answer:
    """403, this once."""
    return refusal(403, "Forbidden", "somebody is changing the rights just now")


#: The three ways to die at a write, and the six answers.
CRASHES: dict[str, Blow] = {
    "killed-before": killed_before,
    "killed-after-commit": killed_after_commit,
    "killed-after-answer": killed_after_answer,
}
ANSWERS: dict[str, Blow] = {
    "409": conflict,
    "429": throttled,
    "500": broken,
    "504-after-commit": timed_out,
    "reset-after-commit": torn,
    "403": denied,
}
BLOWS = CRASHES | ANSWERS


#: A write by its name, and the how-manieth of that name.
Named = tuple[str, int]


def named(writes: Iterable[str]) -> Iterator[Named]:
    """Each write with its place among those of the same name."""
    seen: Counter[str] = Counter()
    for write in writes:
        seen[write] += 1
        yield write, seen[write]


@dataclass
class At:
    """Deals a blow to each of the `wanted` writes; `struck` is when the last was dealt, and `at` which they were."""

    blow: Blow
    wanted: Collection[Named]
    kill: Kill
    struck: float = 0.0
    at: list[str] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)

    @property
    def strikes(self) -> int:
        """How many were dealt."""
        return len(self.at)

    async def __call__(self, request: Request, forward: Forward) -> Answer:
        """The answer to a write."""
        name = str(request)
        self.seen[name] += 1
        if (name, self.seen[name]) not in self.wanted:
            return await forward()
        self.struck = request.at
        self.at.append(name)
        return await self.blow(request, forward, self.kill)
