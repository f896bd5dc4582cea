"""An event loop in virtual time: it never waits, never touches a socket, and runs the same way for the same seed.

Its clock counts whole microseconds and moves only when nothing else is left to do. Callbacks run in the order in which
they were asked for. Each belongs to the process whose context it was asked for in (`PROCESS`), so that a process can be
frozen, or vanish between any two steps.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import sys
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from .moments import MICRO, Handle

#: The process that the running code belongs to; None is the world itself.
PROCESS: contextvars.ContextVar[object] = contextvars.ContextVar("process", default=None)


class Deadlock(Exception):
    """Nothing is ready and no timer is set, and what was waited for has not come."""


class Endless(Exception):
    """So many steps were not enough: somebody is busy without end."""


class VirtualLoop(asyncio.AbstractEventLoop):
    """See the module. `steps` counts callbacks, `most` bounds them; errors that nobody waits for are in `errors`."""

    def __init__(self, most: int = 10_000_000) -> None:
        self.steps = 0
        self.most = most
        self.errors: list[dict[str, Any]] = []
        self._now = 1000 * MICRO
        self._ready: deque[Handle] = deque()
        self._timers: list[tuple[int, int, Handle]] = []
        self._timer_count = 0
        self._frozen: dict[object, list[Handle]] = {}
        self._tasks: dict[object, dict[asyncio.Task[Any], None]] = {}
        self._closed = False

    # ------------------------------------------------------------------------------------------- what asyncio asks for

    def time(self) -> float:
        """Seconds; they begin at 1,000."""
        return self._now / MICRO

    def call_soon(self, callback, *args, context=None) -> Handle:  # type: ignore[override]
        """Run it after what is ready already."""
        handle = Handle(callback, args, context, self._now)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(self, delay, callback, *args, context=None) -> Handle:  # type: ignore[override]
        """Run it in so many seconds."""
        return self._at(self._now + round(delay * MICRO), callback, args, context)

    def call_at(self, when, callback, *args, context=None) -> Handle:  # type: ignore[override]
        """Run it at this time."""
        return self._at(round(when * MICRO), callback, args, context)

    def create_future(self) -> asyncio.Future[Any]:
        """A future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(self, coro, *, name=None, context=None, **_: Any) -> asyncio.Task[Any]:  # type: ignore[override]
        """A task of the process that asks for it."""
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        process = PROCESS.get() if context is None else context.get(PROCESS)
        tasks = self._tasks.setdefault(process, {})  # no set: its order is that of addresses, and never the same
        tasks[task] = None
        task.add_done_callback(tasks.pop)
        return task

    def get_debug(self) -> bool:
        """No."""
        return False

    def is_running(self) -> bool:
        """Whether a callback is being run."""
        return asyncio._get_running_loop() is self

    def is_closed(self) -> bool:
        """Whether it is over."""
        return self._closed

    def close(self) -> None:
        """Nothing is run any more; whatever runs yet ends at once."""
        for process in tuple(self._tasks):
            self.vanish(process)
        self._closed = True
        self._ready.clear()
        self._timers.clear()

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep an error that nobody waits for."""
        self.errors.append(context)

    def _timer_handle_cancelled(self, handle: object) -> None:
        """What asyncio's own timers would tell."""

    def _at(self, due: int, callback, args, context) -> Handle:  # type: ignore[no-untyped-def]
        handle = Handle(callback, args, context, due)
        self._timer_count += 1
        heapq.heappush(self._timers, (due, self._timer_count, handle))
        return handle

    # -------------------------------------------------------------------------------------------------- how it goes on

    def run_until(self, done: Callable[[], object], within: float = 3600.0) -> bool:
        """Go on until `done` says so, which is asked when nothing else is left to do at a time, or the time is up."""
        end = self._now + round(within * MICRO)
        with _Running(self):
            self._run_ready()
            while not done():
                if not self._leap(end):
                    self._now = max(self._now, end)
                    return bool(done())
                self._run_ready()
        return True

    def run_for(self, seconds: float) -> None:
        """Let so much time pass."""
        self.run_until(lambda: False, seconds)

    def run_until_complete(self, future: Coroutine[Any, Any, Any] | asyncio.Future[Any]) -> Any:  # type: ignore[override]
        """The result of a coroutine; raises `Deadlock` if it can never have one."""
        task = self.create_task(future) if asyncio.iscoroutine(future) else future
        with _Running(self):
            while not task.done():
                self._run_ready(until=task)
                if not task.done() and not self._leap(None):
                    raise Deadlock(f"{task!r} waits for what nobody will do")
        return task.result()

    def next_timer(self) -> float | None:
        """When the next timer is due; None if there is none."""
        self._drop_cancelled()
        return self._timers[0][0] / MICRO if self._timers else None

    def _run_ready(self, until: asyncio.Future[Any] | None = None) -> None:
        ready = self._ready
        while ready:
            handle = ready.popleft()
            if handle.cancelled_ or (self._frozen and self._held_back(handle)):
                continue
            self.steps += 1
            try:
                handle.context.run(handle.callback, *handle.args)
            except Exception as error:  # noqa: BLE001 - as asyncio does: an error is told, and the loop goes on
                self.call_exception_handler({"message": f"in {handle.callback!r}", "exception": error})
            if self.steps > self.most:
                raise Endless(f"{self.most} steps and still busy at {self.time():.3f} s")
            if until is not None and until.done():
                return

    def _leap(self, end: int | None) -> bool:
        """Put the clock forward to the next timers; whether there were any by `end`."""
        self._drop_cancelled()
        timers = self._timers
        if not timers or (end is not None and timers[0][0] > end):
            return False
        self._now = max(self._now, timers[0][0])
        while timers and timers[0][0] <= self._now:
            self._ready.append(heapq.heappop(timers)[2])
        return True

    def _drop_cancelled(self) -> None:
        timers = self._timers
        while timers and timers[0][2].cancelled_:
            heapq.heappop(timers)

    # ------------------------------------------------------------------------------------------------------- processes

    def freeze(self, process: object) -> None:
        """Run nothing of this process until it is thawed; time goes on."""
        self._frozen.setdefault(process, [])

    def thaw(self, process: object) -> None:
        """Go on with a process; what was due meanwhile is run first."""
        self._ready.extendleft(reversed(self._frozen.pop(process, [])))

    def vanish(self, process: object) -> None:
        """End a process at once. What its tasks have to say to each other about it, they say while no time passes."""
        self.thaw(process)
        with _Running(self):
            for _ in range(100):
                tasks = [task for task in self._tasks.get(process, ()) if not task.done()]
                if not tasks:
                    break
                for task in tasks:
                    task.cancel()
                self._run_only(process)
        self._tasks.pop(process, None)
        for handle in (*self._ready, *(entry[2] for entry in self._timers)):
            if handle.context.get(PROCESS) is process:
                handle.cancel()

    def _run_only(self, process: object) -> None:
        """Run what is ready of this process, and leave the others' in their order."""
        others: deque[Handle] = deque()
        while self._ready:
            handles = tuple(self._ready)
            self._ready.clear()
            others.extend(handle for handle in handles if handle.context.get(PROCESS) is not process)
            self._ready.extend(handle for handle in handles if handle.context.get(PROCESS) is process)
            self._run_ready()
        self._ready.extend(others)

    def _held_back(self, handle: Handle) -> bool:
        held = self._frozen.get(handle.context.get(PROCESS))
        if held is None:
            return False
        held.append(handle)
        return True


class _Running:
    """While it lasts, asyncio knows the loop as the one that runs, and hands it the generators that are let go."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def __enter__(self) -> None:
        self._before = asyncio._get_running_loop()
        self._hooks = sys.get_asyncgen_hooks()
        asyncio._set_running_loop(self._loop)
        sys.set_asyncgen_hooks(finalizer=self._let_go)

    def __exit__(self, *_: object) -> None:
        asyncio._set_running_loop(self._before)
        sys.set_asyncgen_hooks(*self._hooks)

    def _let_go(self, generator: Any) -> None:
        if not self._loop.is_closed():
            self._loop.create_task(generator.aclose())
