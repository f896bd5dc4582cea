"""The simulation's loop with its messages on the table: what is on its way arrives when somebody says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from simulation.feed import Feed
from simulation.loop import PROCESS, VirtualLoop
from simulation.moments import MICRO, Handle
from simulation.transport import Flight
from trainshed.controller.workqueue import BASE_DELAY

#: What the world does within so many seconds is a message, or the like; what takes longer is a timer as any.
SOON = 0.6
#: Seconds that count as none: the pause after a look, which would put all times a little apart.
BRIEF = BASE_DELAY


class Deck(VirtualLoop):
    """`messages` have been sent and may arrive at any time; those of one watch only in their order."""

    def __init__(self, most: int = 100_000) -> None:
        super().__init__(most)
        self.messages: list[Handle] = []

    def channels(self) -> Iterator[list[Handle]]:
        """What may arrive next: one message, or all those of a watch."""
        self.messages = [message for message in self.messages if not message.cancelled()]
        by_watch: dict[int, list[Handle]] = {}
        for message in self.messages:
            sender = getattr(message.callback, "__self__", None)
            by_watch.setdefault(id(sender) if isinstance(sender, Feed) else id(message), []).append(message)
        yield from by_watch.values()

    def deliver(self, messages: list[Handle]) -> None:
        """Let these arrive, and everybody do what there is to do at once."""
        for message in messages:
            self.messages.remove(message)
            self._ready.append(message)
        self.settle()

    def settle(self) -> None:
        """Run what is ready, while no time passes."""
        self.run_until(lambda: True)

    def wait(self, until: float) -> bool:
        """Let time pass to the next timer; whether there was one before `until`."""
        due = self.next_timer()
        if due is None or due > until:
            return False
        self.run_until(lambda: self.time() >= due)
        return True

    def _at(self, due: int, callback: Callable[..., Any], args: tuple[Any, ...], context: Any) -> Handle:
        process = PROCESS.get() if context is None else context.get(PROCESS)
        handle = Handle(callback, args, context, due)
        if process is not None and due - self._now == BRIEF * MICRO:
            self._ready.append(handle)
            return handle
        if process is not None or due - self._now > SOON * MICRO:
            return super()._at(due, callback, args, context)
        at_once = isinstance(getattr(callback, "__self__", None), Flight | Feed) and due <= self._now
        (self._ready if at_once else self.messages).append(handle)
        return handle
