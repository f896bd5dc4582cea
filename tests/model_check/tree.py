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

from .progress import Progress
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
    seconds: float = 0.0
    late: bool = False
    wrong: list[str] = field(default_factory=list)
    outcomes: list[int] = field(default_factory=list)


class Search:
    """One search, by `processes` at a time and for so many seconds at the most.

    With `every_order` also those orders are tried that nobody can tell apart. What was broken off for want of time is
    gone on with by the next search with the same `home`, where progress is kept; moves and ends are then those of all
    of them, some of which were seen twice.
    """

    def __init__(
        self,
        scenario: Scenario,
        processes: int = 1,
        seconds: float = 3600.0,
        *,
        every_order: bool = False,
        home: Path | None = None,
    ) -> None:
        self._scenario = scenario
        self._every_order = every_order
        self._home = home
        self._seen, self._graves = Seen(), Seen()
        self._end = time.monotonic() + seconds
        self._spare, self._back = os.pipe()
        os.set_blocking(self._spare, False)
        os.write(self._back, b"." * (processes - 1))

    def run(self) -> Found:
        """Search everything there is, or what is left of it."""
        began = time.monotonic()
        gc.collect()
        gc.freeze()  # what children share they had better not touch
        with TemporaryDirectory() as folder:
            progress = Progress(self._scenario, self._home or Path(folder))
            self._finished, self._diary = progress.finished, progress.diary
            self._seen.copy(self._finished)
            whole = self._wait(self._fork(self._explore_all))
            self._write(Notes(seconds=time.monotonic() - began))
            told = [Notes(**orjson.loads(line)) for line in self._diary.read_bytes().splitlines()]
            if whole:
                progress.forget()
        gc.unfreeze()
        return Found(
            scenario=self._scenario.name,
            states=len(self._seen),
            moves=sum(notes.moves for notes in told),
            ends=sum(notes.ends for notes in told),
            longest=max(notes.longest for notes in told),
            whole=whole,
            seconds=round(sum(notes.seconds for notes in told), 1),
            wrong=tuple(words for notes in told for words in notes.wrong),
            outcomes=frozenset(outcome for notes in told for outcome in notes.outcomes),
        )

    def _explore_all(self, notes: Notes) -> None:
        self._explore(SmallWorld(self._scenario, every_order=self._every_order), notes)

    def _explore(self, world: SmallWorld, notes: Notes) -> None:
        """Go on from here in every direction: children take all but the first, and this process that."""
        children: list[int] = []
        states: list[int] = []
        while (state := self._new(world, notes)) is not None:
            states.append(state)
            moves = [move for move in world.moves().items() if move[0] != DIES or self._graves.add(world.grave())]
            if world.over or not moves:
                children += self._branch(notes, lambda notes: _finish(world, notes))
            if not moves:
                break
            for move in moves[1:]:
                children += self._branch(notes, lambda notes, move=move: self._go(world, move, notes))
            _take(world, moves[0], notes)
        for child in children:
            notes.late |= not self._wait(child)
        for state in states if not notes.late else ():
            self._finished.add(state)

    def _new(self, world: SmallWorld, notes: Notes) -> int | None:
        """The state if nobody has seen it yet, and there is time."""
        notes.longest = max(notes.longest, len(world.path))
        notes.late |= time.monotonic() > self._end
        if world.violations:
            notes.wrong.append(f"{world.violations[0]}: {' / '.join(world.path)}")
        if world.violations or notes.late:
            return None
        state = world.fingerprint()
        return state if self._seen.add(state) else None

    def _go(self, world: SmallWorld, move: tuple[str, Callable[[], None]], notes: Notes) -> None:
        _take(world, move, notes)
        self._explore(world, notes)

    def _branch(self, notes: Notes, work: Callable[[Notes], None]) -> list[int]:
        """Let a child do it: beside us if there is a processor to spare, otherwise before we go on."""
        try:
            os.read(self._spare, 1)
        except BlockingIOError:
            notes.late |= not self._wait(self._fork(work))
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
            notes.late = True
            notes.wrong.append(traceback.format_exc())
        self._write(notes)
        if lent:
            os.write(self._back, b".")
        os._exit(notes.late)

    def _write(self, notes: Notes) -> None:
        with self._diary.open("ab") as diary:
            diary.write(orjson.dumps({name: getattr(notes, name) for name in Notes.__slots__}) + b"\n")

    @staticmethod
    def _wait(child: int) -> bool:
        """Whether it has done all that it was to do."""
        return os.waitpid(child, 0)[1] == 0


def _take(world: SmallWorld, move: tuple[str, Callable[[], None]], notes: Notes) -> None:
    notes.moves += 1
    world.take(*move)


def _finish(world: SmallWorld, notes: Notes) -> None:
    notes.ends += 1
    wrong = world.finish()
    notes.outcomes.append(world.outcome())
    if wrong:
        notes.wrong.append(f"{wrong[0]}: {' / '.join(world.path)}")
