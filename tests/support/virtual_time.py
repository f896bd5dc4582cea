"""An event loop in virtual time: its clock advances only when no callback is ready and no socket has data.

The clock counts whole microseconds. Callbacks run in the order in which they were scheduled, so a run without sockets
is reproducible. Each callback belongs to the simulated process whose context it was scheduled in (`PROCESS`), so a test
can freeze a process, or kill it between any two callbacks.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import sys
from collections import deque
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

#: Ticks of the clock per second.
MICRO = 1_000_000
#: The process that the running code belongs to; None is the test itself.
PROCESS: contextvars.ContextVar[object] = contextvars.ContextVar("process", default=None)


class Deadlock(Exception):
    """No callback is ready, no timer is set, and the result that is waited for is not there."""


class TooManySteps(Exception):
    """The loop has run more callbacks than allowed: something is busy without end."""


class ScheduledCall:
    """A callback that the loop runs once, at a time or as soon as possible."""

    __slots__ = ("args", "callback", "cancelled_", "context", "due")

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context | None, due: int
    ) -> None:
        self.callback = callback
        self.args = args
        self.context = contextvars.copy_context() if context is None else context
        self.due = due
        self.cancelled_ = False

    def cancel(self) -> None:
        self.cancelled_ = True
        self.callback, self.args = _do_nothing, ()

    def cancelled(self) -> bool:
        return self.cancelled_

    def when(self) -> float:
        """Return the time of the loop at which it is due, in seconds."""
        return self.due / MICRO


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock begins at 1,000 seconds.

    `steps` counts callbacks; beyond `max_steps` it raises `TooManySteps`. `errors` are the exceptions of callbacks and
    tasks that nothing awaits.
    """

    def __init__(self, max_steps: int = 10_000_000) -> None:
        super().__init__()
        self.steps = 0
        self.max_steps = max_steps
        self.errors: list[dict[str, Any]] = []
        self._now = 1000 * MICRO
        self._ready: deque[ScheduledCall] = deque()
        self._timers: list[tuple[int, int, ScheduledCall]] = []
        self._timer_count = 0
        self._frozen: dict[object, list[ScheduledCall]] = {}
        self._tasks: dict[object, dict[asyncio.Task[Any], None]] = {}
        self._own_sockets = len(self._selector.get_map())

    # ------------------------------------------------------------------------------------------------ asyncio's methods

    def time(self) -> float:
        return self._now / MICRO

    def call_soon(self, callback, *args, context=None) -> ScheduledCall:  # type: ignore[override]
        """Run it after the callbacks that are ready."""
        call = ScheduledCall(callback, args, context, self._now)
        self._ready.append(call)
        return call

    call_soon_threadsafe = call_soon

    def call_later(self, delay, callback, *args, context=None) -> ScheduledCall:  # type: ignore[override]
        """Run it after `delay` seconds."""
        return self._schedule(self._now + round(delay * MICRO), callback, args, context)

    def call_at(self, when, callback, *args, context=None) -> ScheduledCall:  # type: ignore[override]
        """Run it at this time."""
        return self._schedule(round(when * MICRO), callback, args, context)

    def create_task(self, coro, *, name=None, context=None, **_: Any) -> asyncio.Task[Any]:  # type: ignore[override]
        """Create a task of the process that calls."""
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        process = PROCESS.get() if context is None else context.get(PROCESS)
        tasks = self._tasks.setdefault(process, {})  # not a set: the order of a set differs from run to run
        tasks[task] = None
        task.add_done_callback(tasks.pop)
        return task

    def get_debug(self) -> bool:
        """Return False: asyncio's debug mode is off."""
        return False

    def is_running(self) -> bool:
        """Return whether a callback is running."""
        return asyncio._get_running_loop() is self

    def close(self) -> None:
        """Cancel all tasks and run no more callbacks."""
        if self.is_closed():
            return
        for process in tuple(self._tasks):
            self.kill(process)
        self._timers.clear()
        super().close()

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep an error that nothing awaits."""
        self.errors.append(context)

    def _timer_handle_cancelled(self, handle: object) -> None:
        """Ignore what asyncio's own timers would report."""

    def _add_callback(self, handle: asyncio.Handle) -> None:
        """Run what asyncio wants to do with a socket that is ready."""
        if not handle.cancelled():
            self.call_soon(handle._run)

    def _schedule(self, due: int, callback, args, context) -> ScheduledCall:  # type: ignore[no-untyped-def]
        call = ScheduledCall(callback, args, context, due)
        self._timer_count += 1
        heapq.heappush(self._timers, (due, self._timer_count, call))
        return call

    # ---------------------------------------------------------------------------------------------------------- running

    def run_until(self, done: Callable[[], object], within: float = 3600.0) -> bool:
        """Run until `done()` is true or `within` seconds have passed; return whether it is true.

        It is asked each time before the clock advances.
        """
        end = self._now + round(within * MICRO)
        with _Running(self):
            self._run_ready()
            while not done():
                if not self._advance(end):
                    self._now = max(self._now, end)
                    return bool(done())
                self._run_ready()
        return True

    def run_for(self, seconds: float) -> None:
        self.run_until(lambda: False, seconds)

    def suspend(self, seconds: float) -> None:
        """Advance the clock and run nothing, as on a machine that was suspended."""
        self._now += round(seconds * MICRO)

    def run_until_complete(self, future: Any) -> Any:
        """Return the result of a coroutine; raises `Deadlock` if it can never have one."""
        task = self.create_task(future) if asyncio.iscoroutine(future) else future
        with _Running(self):
            while not task.done():
                self._run_ready(until=task)
                if not task.done() and not self._advance(None):
                    raise Deadlock(f"{task!r} waits for an event that cannot come")
        return task.result()

    def _run_ready(self, until: asyncio.Future[Any] | None = None) -> None:
        ready = self._ready
        while ready:
            call = ready.popleft()
            if call.cancelled_ or (self._frozen and self._hold_back(call)):
                continue
            self.steps += 1
            try:
                call.context.run(call.callback, *call.args)
            except Exception as error:  # noqa: BLE001 - as asyncio does: the error is kept, and the loop continues
                self.call_exception_handler({"message": f"in {call.callback!r}", "exception": error})
            if self.steps > self.max_steps:
                raise TooManySteps(f"{self.max_steps} steps and still busy at {self.time():.3f} s")
            if until is not None and until.done():
                return

    def _advance(self, end: int | None) -> bool:
        """Read the sockets, or advance the clock to the next timer; return whether a callback is ready by `end`."""
        if len(self._selector.get_map()) > self._own_sockets and (events := self._selector.select(0)):
            self._process_events(events)
            return True
        timers = self._timers
        while timers and timers[0][2].cancelled_:
            heapq.heappop(timers)
        if not timers or (end is not None and timers[0][0] > end):
            return False
        self._now = max(self._now, timers[0][0])
        while timers and timers[0][0] <= self._now:
            self._ready.append(heapq.heappop(timers)[2])
        return True

    # -------------------------------------------------------------------------------------------------------- processes

    def freeze(self, process: object) -> None:
        """Run no callback of this process until `thaw`; time continues."""
        self._frozen.setdefault(process, [])

    def thaw(self, process: object) -> None:
        """Continue a process; what was due meanwhile runs first."""
        self._ready.extendleft(reversed(self._frozen.pop(process, [])))

    def kill(self, process: object) -> None:
        """End a process at once: its tasks are cancelled and finish while no time passes, its timers are dropped."""
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
        for call in (*self._ready, *(entry[2] for entry in self._timers)):
            if call.context.get(PROCESS) is process:
                call.cancel()

    def _run_only(self, process: object) -> None:
        """Run the ready callbacks of this process, and leave those of others in their order."""
        others: deque[ScheduledCall] = deque()
        while self._ready:
            calls = tuple(self._ready)
            self._ready.clear()
            others.extend(call for call in calls if call.context.get(PROCESS) is not process)
            self._ready.extend(call for call in calls if call.context.get(PROCESS) is process)
            self._run_ready()
        self._ready.extend(others)

    def _hold_back(self, call: ScheduledCall) -> bool:
        held = self._frozen.get(call.context.get(PROCESS))
        if held is None:
            return False
        held.append(call)
        return True


class _Running:
    """Makes the loop asyncio's running loop, which also closes the asynchronous generators that are dropped."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        self._loop = loop

    def __enter__(self) -> None:
        self._before = asyncio._get_running_loop()
        self._hooks = sys.get_asyncgen_hooks()
        asyncio._set_running_loop(self._loop)
        sys.set_asyncgen_hooks(finalizer=self._close)

    def __exit__(self, *_: object) -> None:
        asyncio._set_running_loop(self._before)
        sys.set_asyncgen_hooks(*self._hooks)

    def _close(self, generator: Any) -> None:
        if not self._loop.is_closed():
            self._loop.create_task(generator.aclose())


def _do_nothing(*_: object) -> None:
    """Take the place of a cancelled callback."""


def in_virtual_time(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of a coroutine that runs in virtual time."""
    loop = VirtualTimeLoop()
    try:
        return loop.run_until_complete(coroutine)
    finally:
        loop.close()


def clock() -> float:
    """Return the time of the running loop, in seconds."""
    return asyncio.get_running_loop().time()


def now() -> datetime:
    """Return the same time as a date, in the year 1970."""
    return datetime.fromtimestamp(clock(), UTC)
