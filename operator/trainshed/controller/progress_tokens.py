"""Which pod a token belongs to: TokenReviews, the answers of which are kept for minutes, and how many are asked for."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from typing import Any, Generic, TypeVar

import msgspec

from trainshed.api.coerce import as_mapping, as_sequence
from trainshed.api.job import Document
from trainshed.client import ApiError
from trainshed.client.lists import DOCUMENTS
from trainshed.client.transport import Path, RestClient

AUTHENTICATION = "/apis/authentication.k8s.io/v1"
#: Seconds for which an answer counts. A pod that is gone is unknown before: the cache of pods says so.
VALID, INVALID = 300.0, 30.0
#: The most answers of each sort, and the longest token: those of service accounts have one to two thousand characters.
MAX_ANSWERS, LONGEST_TOKEN = 10_000, 8_000
#: The reviews of one address and of all: a second, at once; and those in flight.
OF_ADDRESS, OF_ALL, IN_FLIGHT = (1.0, 10), (10.0, 50), 8
#: The most keys of a limit; the oldest is forgotten.
MAX_KEYS = 10_000
PREFIX = "authentication.kubernetes.io/pod-"

T = TypeVar("T")


class Sender(msgspec.Struct, frozen=True):
    """The pod that a token is bound to."""

    namespace: str
    name: str
    uid: str


class BadToken(Exception):
    """The token is not valid, not for this audience, or not bound to a pod; the message says it in words."""


class TooManyReviews(Exception):
    """Too many unknown tokens are sent, or the API server does not answer; nothing is known about this one."""


class Rates:
    """A token bucket for each key: `burst` at once, then `rate` a second."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate, self._burst = rate, burst
        self._left: OrderedDict[object, tuple[float, float]] = OrderedDict()

    def take(self, key: object = None) -> bool:
        """Take a token of a key; return whether there was one."""
        now = asyncio.get_running_loop().time()
        at, left = self._left.pop(key, (now, self._burst))
        left = min(self._burst, left + (now - at) * self._rate)
        self._left[key] = now, left - 1 if left >= 1 else left
        if len(self._left) > MAX_KEYS:
            self._left.popitem(last=False)
        return left >= 1


class _Answers(Generic[T]):
    """Values that are kept for some time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._kept: OrderedDict[bytes, tuple[float, T]] = OrderedDict()

    def get(self, key: bytes) -> T | None:
        until, value = self._kept.get(key, (0.0, None))
        return value if asyncio.get_running_loop().time() < until else None

    def keep(self, key: bytes, value: T) -> None:
        self._kept.pop(key, None)
        self._kept[key] = asyncio.get_running_loop().time() + self._seconds, value
        if len(self._kept) > MAX_ANSWERS:
            self._kept.popitem(last=False)


class TokenReviews:
    """Asks the API server whose tokens are; a token itself is not kept, only its digest."""

    def __init__(self, rest: RestClient) -> None:
        self._rest = rest
        # Apart from each other, so that a flood of bad tokens takes no good one's place.
        self._senders: _Answers[Sender] = _Answers(VALID)
        self._refused: _Answers[str] = _Answers(INVALID)
        self._of_address, self._of_all = Rates(*OF_ADDRESS), Rates(*OF_ALL)
        self._asked: dict[bytes, asyncio.Task[Document]] = {}

    async def sender(self, token: str, audience: str, address: str) -> Sender:
        """Return the pod of a token that an address has sent; raises `BadToken` or `TooManyReviews`."""
        if not token or len(token) > LONGEST_TOKEN:
            raise BadToken("there is no token" if not token else "the token is too long")
        key = hashlib.sha256(f"{audience}\n{token}".encode()).digest()
        if (known := self._senders.get(key)) is not None:
            return known
        if (why := self._refused.get(key)) is not None:
            raise BadToken(why)
        answer = await self._review(key, token, audience, address)
        try:
            found = _sender(answer, audience)
        except BadToken as refused:
            self._refused.keep(key, str(refused))
            raise
        self._senders.keep(key, found)
        return found

    async def _review(self, key: bytes, token: str, audience: str, address: str) -> Document:
        """Return the API server's answer; of requests with one token that come at once, one asks."""
        task = self._asked.get(key)
        if task is None:
            if len(self._asked) >= IN_FLIGHT or not self._of_address.take(address) or not self._of_all.take():
                raise TooManyReviews("too many unknown tokens")
            task = self._asked[key] = asyncio.create_task(self._post(token, audience))
            task.add_done_callback(lambda _task: self._asked.pop(key, None))
        try:
            return await asyncio.shield(task)
        except ApiError as error:
            raise TooManyReviews(f"the API server does not review tokens: {error}") from error

    async def _post(self, token: str, audience: str) -> Document:
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [audience]},
        }
        return DOCUMENTS.answer(await self._rest.call("POST", Path(AUTHENTICATION, "tokenreviews"), body))


def _sender(answer: Document, audience: str) -> Sender:
    status = as_mapping(answer.get("status"))
    if status.get("authenticated") is not True:
        raise BadToken("the token is not valid, or not for this job")
    if audience not in as_sequence(status.get("audiences")):
        raise BadToken("the token is not for this job")
    user = as_mapping(status.get("user"))
    prefix, _, rest = str(user.get("username", "")).partition("serviceaccount:")
    namespace = rest.partition(":")[0]
    name, uid = (_first(user, f"{PREFIX}{part}") for part in ("name", "uid"))
    if prefix != "system:" or not (namespace and name and uid):
        raise BadToken("the token is not that of a pod")
    return Sender(namespace, name, uid)


def _first(user: Any, key: str) -> str:  # noqa: ANN401 - any JSON value
    found = as_sequence(as_mapping(user.get("extra")).get(key))
    return str(found[0]) if found else ""
