"""What NCCL's RAS says about the ranks of a job: its protocol, its answers, and whether they show a hang.

NCCL listens in each process that uses it (on `localhost:28028`, since 2.24) and knows how many collective operations
each rank of each communicator has begun. One process knows all that share communicators with it. Answers that can be
read, in JSON, are given since 2.28.7. The shapes are those of `src/ras/client_support.cc`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Annotated

import msgspec

from trainshed.api.signs import LateRank

PORT = 28028
#: The most bytes of an answer, and those of them for each pod of the job: a rank takes half a kilobyte in each of its
#: communicators.
MOST_BYTES, BYTES_OF_POD, LONGEST_LINE = 16 * 1024 * 1024, 512 * 1024, 1024
#: The most kinds of operations of a communicator: NCCL has about ten.
MOST_KINDS = 64
#: Seconds for which NCCL waits for the answers of other processes.
COLLECTION_SECONDS = 5
#: The fewest answers in which nothing has moved that show a hang, and the most ranks that are named.
FEWEST_POLLS, MOST_NAMED = 3, 8
FIRST_WITH_JSON = "2.28.7"
#: NCCL 2.28.9 forgets the comma between a number and the next key of a rank that is missing.
FORGOTTEN_COMMA = re.compile(rb'(?<=[0-9])(\s*\n\s*)(?=")')
#: The first line of an answer as text.
TEXT_VERSION = re.compile(r"NCCL version (\S{1,40})")
#: How an answer in JSON ends: no other line of it is a brace alone.
END = b"\n}\n"
#: The numbers of ranks, processes and devices, and how many operations a rank has begun: NCCL has no larger ones.
Number = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class RasError(Exception):
    """There is no answer that can be used; the message is one sentence."""


class TextOnly(RasError):
    """NCCL answers in text, which is for people and changes with each version."""

    def __init__(self, version: str) -> None:
        found = f"NCCL {version}" if version else "this NCCL"
        super().__init__(f"{found} answers in text only, which is not supported: JSON is since {FIRST_WITH_JSON}")


class Query:
    """The client's side of one query: send `opening`, then what `feed` returns, until `done` or the end of the stream.

    `feed` raises `RasError`. Of a job with `pods` an answer is as long as its ranks need, and not longer.
    """

    opening = b"CLIENT PROTOCOL 2\n"
    _ask = b"VERBOSE STATUS\n"

    def __init__(self, pods: int = 1) -> None:
        self._most = min(MOST_BYTES, BYTES_OF_POD * pods)
        self._expected = [
            (b"SERVER PROTOCOL ", f"TIMEOUT {COLLECTION_SECONDS}\n".encode()),
            (b"OK", b"SET FORMAT json\n"),
            (b"OK", self._ask),
        ]
        self._received = bytearray()
        self._is_text = False

    @property
    def done(self) -> bool:
        """Whether the answer is complete."""
        return not self._expected and self._received.endswith(END)

    def feed(self, data: bytes) -> bytes:
        """Take what has arrived; return what is to be sent, empty for nothing."""
        self._received += data
        if len(self._received) > (LONGEST_LINE if self._expected else self._most):
            raise RasError(f"the answer of NCCL's RAS has more than {len(self._received) - 1:,} bytes")
        if not self._expected or b"\n" not in self._received:
            return b""
        line, _, rest = bytes(self._received).partition(b"\n")
        (wanted, reply), *self._expected = self._expected
        self._received = bytearray(rest)
        if line.startswith(wanted):
            return reply
        if reply is self._ask and line.startswith(b"ERROR"):
            self._expected, self._is_text = [], True
            return b"STATUS\n"  # its first line names the version
        shown = line[:60].decode(errors="replace")
        raise RasError(f"what listens on port {PORT} is not NCCL's RAS: it answers {shown!r}")

    def answer(self, time: float) -> Poll:
        """Return the answer, once it is complete or the stream has ended; raises `RasError`."""
        if self._expected:
            raise RasError("NCCL's RAS has closed the connection before it answered")
        content = bytes(self._received)
        found = TEXT_VERSION.match(content[:LONGEST_LINE].decode(errors="replace"))
        if self._is_text or found:
            raise TextOnly(found[1] if found else "")
        return parse(content, time)


class RankState(StrEnum):
    """The state of a rank in a communicator, by NCCL's names."""

    INIT = "INIT"
    RUNNING = "RUNNING"
    FINALIZE = "FINALIZE"
    ABORT = "ABORT"


class _Status(msgspec.Struct, frozen=True):
    init_state: int = 0
    finalize_called: bool = False
    destroy_flag: bool = False
    abort_flag: bool = False


class RasRank(msgspec.Struct, frozen=True):
    """A rank of a communicator: its process, and how many operations of each kind it has begun."""

    rank: Number
    host: str
    pid: Number
    cuda_dev: Number
    status: _Status
    collective_counts: dict[str, Count]

    @property
    def state(self) -> RankState:
        """What it does; NCCL sets `destroy_flag` both when it is destroyed and when it is aborted."""
        if self.status.abort_flag:
            return RankState.ABORT
        if self.status.finalize_called or self.status.destroy_flag:
            return RankState.FINALIZE
        return RankState.INIT if self.status.init_state else RankState.RUNNING

    @property
    def gpu(self) -> tuple[str, int, int]:
        """What tells it from all others: host, process and device."""
        return self.host, self.pid, self.cuda_dev


class _MissingRank(msgspec.Struct, frozen=True):
    rank: Number
    host: str = ""
    pid: Number = -1
    cuda_dev: Number = -1


class Communicator(msgspec.Struct, frozen=True):
    """A communicator: how many ranks it has, those that have answered, and those that have not."""

    hash: str
    size: Number
    ranks: tuple[RasRank, ...]
    secondary_hash: str = ""
    missing_ranks: tuple[_MissingRank, ...] = ()

    def differing(self) -> dict[str, int]:
        """Return the operations of which not all ranks have begun as many, each with the largest count."""
        kinds = dict.fromkeys(kind for rank in self.ranks for kind in rank.collective_counts)
        counts = {kind: [rank.collective_counts.get(kind, 0) for rank in self.ranks] for kind in kinds}
        return {kind: max(found) for kind, found in counts.items() if min(found) != max(found)}


class Poll(msgspec.Struct, frozen=True):
    """One answer, and when it was read in seconds of any clock that goes forward."""

    communicators: tuple[Communicator, ...]
    nccl_version: str = ""
    time: float = 0.0

    def fingerprint(self) -> int:
        """Return what changes with each step of any rank: a number made of counts, states, and who answers."""
        found = (
            (each.hash, each.secondary_hash, rank.rank, rank.gpu, rank.state, *sorted(rank.collective_counts.items()))
            for each in self.communicators
            for rank in each.ranks
        )
        return hash(frozenset(found))

    @property
    def ranks(self) -> int:
        """How many ranks its largest communicator has."""
        return max((each.size for each in self.communicators), default=0)


def parse(content: bytes, time: float = 0.0) -> Poll:
    """Return the answer in this JSON; raises `RasError`."""
    try:
        found = _decoded(content)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:  # a text may be no UTF-8
        raise RasError(f"the answer of NCCL's RAS cannot be read: {error}") from error
    for each in found.communicators:
        if len(set().union(*(rank.collective_counts for rank in each.ranks))) > MOST_KINDS:
            raise RasError(f"the answer of NCCL's RAS counts more than {MOST_KINDS} kinds of operations")
    return msgspec.structs.replace(found, time=time)


def _decoded(content: bytes) -> Poll:
    try:
        return msgspec.json.decode(content, type=Poll)
    except msgspec.DecodeError:
        return msgspec.json.decode(FORGOTTEN_COMMA.sub(rb",\1", content), type=Poll)


class HangVerdict(msgspec.Struct, frozen=True):
    """Whether the answers show a hang, and why or why not; then who is behind, those that lag most first."""

    reason: str
    behind: tuple[LateRank, ...] = ()
    still_for: float = 0.0
    hang: bool = False


class Stillness(msgspec.Struct, frozen=True):
    """What is kept of many answers: the fingerprint of the last one, since when nothing has moved, and in how many.

    A count never goes down: between two answers with the same counts nothing has moved, whatever was not asked.
    """

    mark: int
    since: float
    polls: int = 1

    @classmethod
    def of(cls, poll: Poll) -> Stillness:
        """Return what is kept of a first answer."""
        return cls(poll.fingerprint(), poll.time)

    def then(self, poll: Poll) -> Stillness:
        """Return what is kept after one more answer."""
        mark = poll.fingerprint()
        return Stillness(mark, self.since, self.polls + 1) if mark == self.mark else Stillness(mark, poll.time)


def verdict(last: Poll, still: Stillness, least: int, seconds: float) -> HangVerdict:
    """Return whether the last answer, and what is kept of all until it, show a hang of a job.

    All of this must hold: a communicator of the whole job exists, all of its ranks answer, and at least `least` of
    them; all ranks run; in a communicator the counts of the ranks differ; and no count has moved for `seconds`, in
    FEWEST_POLLS answers or more. Equal counts are no hang: a long step looks the same.
    """
    if not last.communicators:
        return HangVerdict("NCCL's RAS knows no communicator")
    if reason := why_not_judged(last.communicators, least):
        return HangVerdict(reason)
    behind = tuple(sorted(_behind(last.communicators), key=lambda one: (one.count - one.most, one.rank)))
    if not behind:
        return HangVerdict("all ranks have begun the same operations")
    still_for = last.time - still.since
    if still_for < seconds or still.polls < FEWEST_POLLS:
        return HangVerdict(f"nothing has moved for {still_for:.0f} s only", behind, still_for)
    return HangVerdict("ranks wait for others that have not begun the same operation", behind, still_for, hang=True)


def why_not_judged(communicators: Sequence[Communicator], least: int) -> str:
    """Return why these communicators say nothing about the job as a whole; empty if they do."""
    states = {rank.state for each in communicators for rank in each.ranks}
    if others := sorted(states - {RankState.RUNNING}):
        return f"ranks are in state {', '.join(others)}"
    if missing := {(each.hash, rank.rank) for each in communicators for rank in each.missing_ranks}:
        return f"{len(missing)} ranks do not answer"
    every = {rank.gpu for each in communicators for rank in each.ranks}
    largest = max(communicators, key=lambda each: len(each.ranks))
    if {rank.gpu for rank in largest.ranks} != every or largest.size != len(largest.ranks) or largest.size < least:
        return "no communicator has all ranks of the job"
    return ""


def _behind(communicators: Iterable[Communicator]) -> Iterator[LateRank]:
    """Yield each process that is behind once, with its largest lag."""
    found: dict[tuple[str, int, int], LateRank] = {}
    for each in communicators:
        for operation, most in each.differing().items():
            for rank in each.ranks:
                count = rank.collective_counts.get(operation, 0)
                known = found.get(rank.gpu)
                if count < most and (known is None or known.most - known.count < most - count):
                    found[rank.gpu] = LateRank(rank.rank, rank.host, rank.pid, operation, count, most)
    yield from found.values()
