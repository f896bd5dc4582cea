"""The search: where several things may happen next the process forks, so that no step is ever taken twice."""

from __future__ import annotations

import gc
import os
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson

from .scenarios import Scenario
from .seen import Seen
from .small import DIES, SmallWorld


@dataclass(frozen=True, slots=True)
class Found:
    """What a search has found: how many states, moves and ends there are, and the paths to what is wrong.

    It is `whole` if nothing was left out for want of time. `outcomes` are what was left in the end, each as a number.
    """

    scenario: str
    states: int
    moves: int
    ends: int
    longest: int
    whole: bool
    seconds: float
    wrong: tuple[str, ...]
    outcomes: frozenset[int] = frozenset()


@dataclass(slots=True)
class Notes:
    """What one process has seen."""

    moves: int = 0
    ends: int = 0
    longest: int = 0
    late: bool = False
    wrong: list[str] = field(default_factory=list)
    outcomes: list[int] = field(default_factory=list)


class Search:
    """One search, by `processes` at a time and for so many seconds at the most.

    With `every_order` also those orders are tried that nobody can tell apart.
    """

    def __init__(
        self, scenario: Scenario, processes: int = 1, seconds: float = 3600.0, *, every_order: bool = False
    ) -> None:
        self._scenario = scenario
        self._every_order = every_order
        self._seen, self._graves = Seen(), Seen()
        self._end = time.monotonic() + seconds
        self._spare, self._back = os.pipe()
        os.set_blocking(self._spare, False)
        os.write(self._back, b"." * (processes - 1))

    def run(self) -> Found:
        """Search everything there is."""
        began = time.monotonic()
        gc.collect()
        gc.freeze()  # what children share they had better not touch
        with TemporaryDirectory() as folder:
            self._diary = Path(folder, "diary")
            self._wait(self._fork(lambda notes: self._explore(self._world(), notes)))
            told = [Notes(**orjson.loads(line)) for line in self._diary.read_bytes().splitlines()]
        gc.unfreeze()
        return Found(
            scenario=self._scenario.name,
            states=len(self._seen),
            moves=sum(notes.moves for notes in told),
            ends=sum(notes.ends for notes in told),
            longest=max(notes.longest for notes in told),
            whole=not any(notes.late for notes in told),
            seconds=round(time.monotonic() - began, 1),
            wrong=tuple(words for notes in told for words in notes.wrong),
            outcomes=frozenset(outcome for notes in told for outcome in notes.outcomes),
        )

    def _world(self) -> SmallWorld:
        return SmallWorld(self._scenario, every_order=self._every_order)

    def _explore(self, world: SmallWorld, notes: Notes) -> None:
        """Go on from here in every direction: children take all but the first, and this process that."""
        children: list[int] = []
        while self._is_new(world, notes):
            moves = [move for move in world.moves().items() if move[0] != DIES or self._graves.add(world.grave())]
            if world.over or not moves:
                children += self._branch(lambda notes: _finish(world, notes))
            if not moves:
                break
            for move in moves[1:]:
                children += self._branch(lambda notes, move=move: self._go(world, move, notes))
            _take(world, moves[0], notes)
        for child in children:
            self._wait(child)

    def _is_new(self, world: SmallWorld, notes: Notes) -> bool:
        notes.longest = max(notes.longest, len(world.path))
        notes.late |= time.monotonic() > self._end
        if world.violations:
            notes.wrong.append(f"{world.violations[0]}: {' / '.join(world.path)}")
        return not (world.violations or notes.late) and self._seen.add(world.fingerprint())

    def _go(self, world: SmallWorld, move: tuple[str, Callable[[], None]], notes: Notes) -> None:
        _take(world, move, notes)
        self._explore(world, notes)

    def _branch(self, work: Callable[[Notes], None]) -> list[int]:
        """Let a child do it: beside us if there is a processor to spare, otherwise before we go on."""
        try:
            os.read(self._spare, 1)
        except BlockingIOError:
            self._wait(self._fork(work))
            return []
        return [self._fork(work, lent=True)]

    def _fork(self, work: Callable[[Notes], None], *, lent: bool = False) -> int:
        child = os.fork()
        if child:
            return child
        notes = Notes()
        try:
            work(notes)
        except BaseException:  # noqa: BLE001 - nothing may get past: above is the code of another process
            notes.wrong.append(traceback.format_exc())
        with self._diary.open("ab") as diary:
            diary.write(orjson.dumps({name: getattr(notes, name) for name in Notes.__slots__}) + b"\n")
        if lent:
            os.write(self._back, b".")
        os._exit(0)

    @staticmethod
    def _wait(child: int) -> None:
        os.waitpid(child, 0)


def _take(world: SmallWorld, move: tuple[str, Callable[[], None]], notes: Notes) -> None:
    notes.moves += 1
    world.take(*move)


def _finish(world: SmallWorld, notes: Notes) -> None:
    notes.ends += 1
    wrong = world.finish()
    notes.outcomes.append(world.outcome())
    if wrong:
        notes.wrong.append(f"{wrong[0]}: {' / '.join(world.path)}")
