"""Entry point: run the command line, the operator and kopf."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import gc
import logging
import signal
import ssl
import traceback
import warnings
from functools import partial
from typing import Any

import kopf

from trainshed import runtime
from trainshed.cli import cli
from trainshed.client import ApiError
from trainshed.client.credentials import NoCredentials, find_credentials
from trainshed.client.transport import AiohttpTransport
from trainshed.config import Config
from trainshed.controller.kopf_shim import registry
from trainshed.controller.manager import Operator
from trainshed.frameworks import served
from trainshed.runtime import Clock, EventLoop

#: Seconds: the delay before kopf is restarted after an error (the operator's own informers deliver the same events
#: meanwhile), the time kopf has to stop, and how long the event loop may hang before its stack is logged.
PAUSE, GRACE, STUCK = 5.0, 0.5, 20.0
#: Seconds after the cache sync at which `gc.freeze()` is called: at once, and again after kopf has synced.
SETTLED = (0.0, 60.0)

log = logging.getLogger("trainshed")


def run(settings: Config) -> int:
    """Run the operator until a signal or an error ends it; return the exit code."""
    runtime.configure_logging(settings.log_level, settings.log_format)
    for warning in settings.passed_over:
        log.warning("%s", warning)
    # The caches hold many small objects that live long; collecting them as often as by default costs more than it
    # frees. The young generation must be collected: kopf leaves each event in a reference cycle, with the whole job.
    gc.set_threshold(10_000, 50, 50)
    # A failing kopf drops coroutines that it was about to start; the failure is logged already.
    warnings.filterwarnings("ignore", "coroutine 'worker' was never awaited", RuntimeWarning)
    with asyncio.Runner(loop_factory=EventLoop) as runner:
        return runner.run(operate(settings))


async def operate(settings: Config) -> int:
    """Run the operator with kopf beside it; return the exit code."""
    frameworks = served(settings.mpi_version, settings.kinds)
    try:
        credentials = find_credentials(settings.kubeconfig, settings.context)
        operator = Operator(settings, frameworks, AiohttpTransport(credentials), clock := Clock())
        # Start these before kopf, which treats every task that starts after it as a task of its own that hangs.
        beside = (freeze(operator.ready), keep_watch(), end_when_stepped(clock, operator))
        tasks = [asyncio.create_task(coroutine) for coroutine in beside]
        await operator.start()
    except (NoCredentials, ApiError, OSError) as error:
        log.error("%s", error)  # noqa: TRY400 - a traceback would add nothing
        return 1
    log.info("managing %s on %s", ", ".join(framework.kind for framework in frameworks), credentials.server)
    stop = asyncio.Event()
    shell = asyncio.create_task(
        supervise(registry(frameworks, credentials, operator.wake), settings, (operator.ready, operator.over, stop))
    )
    listen(operator.over)
    await operator.over.wait()
    await operator.stop()
    for task in tasks:
        task.cancel()
    stop.set()
    await asyncio.wait((shell,), timeout=GRACE)
    await clear()
    faulthandler.cancel_dump_traceback_later()
    log.info("shutdown complete")
    return 1 if operator.broken else 0


async def freeze(ready: asyncio.Event) -> None:
    """Exclude the objects that exist after the cache sync from garbage collection.

    Scanning them again and again would make the event loop lag. kopf starts only after the cache sync. A minute later
    it has dropped what it listed and keeps little of each job; so the objects are frozen a second time.
    """
    await ready.wait()
    for seconds in SETTLED:
        await asyncio.sleep(seconds)
        gc.unfreeze()
        gc.collect()
        gc.freeze()


async def first(*flags: asyncio.Event) -> None:
    """Wait until one of the flags is set."""
    waiting = [asyncio.create_task(flag.wait()) for flag in flags]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()


async def keep_watch() -> None:
    """Let a separate thread log the stack of the event loop when the loop hangs; the loop itself cannot log then."""
    while True:
        faulthandler.dump_traceback_later(STUCK)
        await asyncio.sleep(STUCK / 4)


async def end_when_stepped(clock: Clock, operator: Operator) -> None:
    """End the operator with an error when the wall clock was changed; the next start uses the new time."""
    seconds = await clock.stepped()
    log.error("the wall clock stepped by %+.0f s; exiting so that the next start uses the new time", seconds)
    operator.broken = True
    operator.over.set()


async def supervise(
    found: kopf.OperatorRegistry, settings: Config, flags: tuple[asyncio.Event, asyncio.Event, asyncio.Event]
) -> None:
    """Run kopf until it ends without an error, and restart it after an error or a hang.

    `flags` are three events: kopf starts on the first, sets the second when a signal ends it, and ends on the third.
    kopf lists all jobs at once and drops them soon. It starts after the cache sync, because otherwise the objects that
    the operator keeps would lie between those that kopf drops, and the process could not return that memory.
    """
    known, over, stop = flags
    asyncio.get_running_loop().set_exception_handler(partial(complain, asyncio.Event()))
    await first(known, stop)
    where = {"namespaces": settings.namespaces} if settings.namespaces else {"clusterwide": True}
    while not stop.is_set():
        ready, stuck = asyncio.Event(), asyncio.Event()
        asyncio.get_running_loop().set_exception_handler(partial(complain, stuck))
        up, fallen = asyncio.create_task(ready.wait()), asyncio.create_task(stuck.wait())
        shell = asyncio.create_task(
            kopf.operator(registry=found, standalone=True, ready_flag=ready, stop_flag=stop, **where)
        )
        await asyncio.wait((shell, up, fallen), return_when=asyncio.FIRST_COMPLETED)
        listen(over)  # kopf has replaced the signal handlers
        await asyncio.wait((shell, fallen), return_when=asyncio.FIRST_COMPLETED)
        for task in (shell, up, fallen):
            task.cancel()
        await asyncio.wait((shell,), timeout=GRACE)
        if shell.done() and not shell.cancelled() and shell.exception() is None:
            over.set()
            return
        log.warning("kopf %s; restarting", reason(shell))
        await asyncio.sleep(PAUSE)


def reason(shell: asyncio.Task[None]) -> str:
    """Return why kopf must be restarted; sometimes one task of kopf fails and the rest of it hangs."""
    error = shell.exception() if shell.done() and not shell.cancelled() else None
    return f"failed: {type(error).__name__}: {error}" if error else "is unresponsive"


async def clear() -> None:
    """Cancel the tasks that kopf has left behind; its grace period is over and none of them belongs to Trainshed."""
    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in left:
        task.cancel()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.gather(*left, return_exceptions=True), GRACE)


def complain(stuck: asyncio.Event, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an error that no task awaits; set `stuck` if it comes from kopf, which then hangs instead of ending.

    Two kinds of error are one warning without a traceback: a connection that breaks while uvloop writes to it
    (IndexError, RuntimeError; the request fails with an error of its own), and a connection that breaks in its TLS
    handshake after the request was cancelled, so that nothing awaits the error.
    """
    error = context.get("exception")
    frames = traceback.extract_tb(error.__traceback__) if error else ()
    unawaited = "future" in context and not isinstance(context["future"], asyncio.Task)
    if any("kopf" in frame.filename for frame in frames):
        log.warning("a kopf task failed: %r", error)
        stuck.set()
    elif "transport" in context or (unawaited and isinstance(error, (ssl.SSLError, ConnectionError))):
        log.warning("connection lost: %s: %r", context.get("message"), error)
    else:
        loop.default_exception_handler(context)


def listen(over: asyncio.Event) -> None:
    """Set a flag on SIGTERM and SIGINT, so that the operator shuts down in its own order."""
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, over.set)


def main() -> None:
    """Run the command line."""
    cli(obj=run, auto_envvar_prefix="TRAINSHED")


if __name__ == "__main__":
    main()
