"""The key: read the settings, open the door."""

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

from trainshed.cli import cli
from trainshed.cluster import ClusterError
from trainshed.cluster.credentials import NoCredentials, find
from trainshed.cluster.event_loop import EventLoop
from trainshed.cluster.transport import Sockets
from trainshed.frameworks import served
from trainshed.loop import journal
from trainshed.loop.clock import Clock
from trainshed.loop.handlers import registry
from trainshed.loop.operator import Operator
from trainshed.settings import Settings

#: Seconds before kopf is started again should it end with an error, and for it to end when it is told to; our own
#: informers know all that it knows. And how long the loop may be stuck until the log says where it is.
PAUSE, GRACE, STUCK = 5.0, 0.5, 20.0
#: Seconds after which all is known that there is at the beginning: to us, and then to kopf.
SETTLED = (0.0, 60.0)

log = logging.getLogger("trainshed")


def run(settings: Settings) -> int:
    """Run the operator until it is told to end; the exit code."""
    journal.begin(settings.log_level, settings.log_format)
    for words in settings.passed_over:
        log.warning("%s", words)
    # The caches hold many small objects that stay; looking for garbage among them so often costs more than it frees.
    # Among the young it has to be looked for: kopf leaves each event that it has seen in a circle, with the whole job.
    gc.set_threshold(10_000, 50, 50)
    # A kopf that falls drops what it was about to begin; that is told in a line of the log already.
    warnings.filterwarnings("ignore", "coroutine 'worker' was never awaited", RuntimeWarning)
    with asyncio.Runner(loop_factory=EventLoop) as runner:
        return runner.run(operate(settings))


async def operate(settings: Settings) -> int:
    """The operator, and kopf around it."""
    frameworks = served(settings.mpi_version, settings.kinds)
    try:
        credentials = find(settings.kubeconfig, settings.context)
        operator = Operator(settings, frameworks, Sockets(credentials), clock := Clock())
        # Before kopf, which takes whatever task begins after it for one of its own that hangs.
        beside = (freeze(operator.ready), keep_watch(), end_when_stepped(clock, operator))
        tasks = [asyncio.create_task(coroutine) for coroutine in beside]
        await operator.start()
    except (NoCredentials, ClusterError, OSError) as error:
        log.error("%s", error)  # noqa: TRY400 - the words say it all
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
    """What is known by then stays: looking through it for garbage again and again would make the loop late.

    kopf begins only then. A minute later it has let go of what it listed, and keeps a little of each job: so again.
    """
    await ready.wait()
    for seconds in SETTLED:
        await asyncio.sleep(seconds)
        gc.unfreeze()
        gc.collect()
        gc.freeze()


async def first(*flags: asyncio.Event) -> None:
    """Wait until one of them is up."""
    waiting = [asyncio.create_task(flag.wait()) for flag in flags]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()


async def keep_watch() -> None:
    """Let a thread of its own write to the log where we are, should the loop be stuck; nobody else could say it."""
    while True:
        faulthandler.dump_traceback_later(STUCK)
        await asyncio.sleep(STUCK / 4)


async def end_when_stepped(clock: Clock, operator: Operator) -> None:
    """End the operator with an error when the machine's clock was set: the next start goes by the new time."""
    seconds = await clock.stepped()
    log.error("the wall clock stepped by %+.0f s; exiting so that the next start uses the new time", seconds)
    operator.broken = True
    operator.over.set()


async def supervise(
    found: kopf.OperatorRegistry, settings: Settings, flags: tuple[asyncio.Event, asyncio.Event, asyncio.Event]
) -> None:
    """Run kopf from the first flag to the third, and put up the second on a signal; should it fall, start it again.

    It reads all jobs at once, and lets go of them soon. Were it to do so while we learn of them, what we keep would lie
    in between, and all of that memory would stay ours.
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
        listen(over)  # kopf has taken the signals for itself
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
    """Why kopf ended, if it did: now and then a part of it falls and the rest hangs."""
    error = shell.exception() if shell.done() and not shell.cancelled() else None
    return f"failed: {type(error).__name__}: {error}" if error else "is unresponsive"


async def clear() -> None:
    """Break off what kopf has left, once it has had its time: it has nothing of ours, and nothing more to say."""
    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in left:
        task.cancel()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.gather(*left, return_exceptions=True), GRACE)


def complain(stuck: asyncio.Event, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Tell of an error that nobody waits for; one of kopf's makes it hang rather than end, and is told in a line.

    So is a connection that breaks while uvloop writes to it (an IndexError, a RuntimeError): who uses it hears of it.
    And one that breaks in its TLS handshake when whoever wanted it has been broken off: nobody is left to hear of it.
    """
    error = context.get("exception")
    frames = traceback.extract_tb(error.__traceback__) if error else ()
    unheard = "future" in context and not isinstance(context["future"], asyncio.Task)
    if any("kopf" in frame.filename for frame in frames):
        log.warning("a kopf task failed: %r", error)
        stuck.set()
    elif "transport" in context or (unheard and isinstance(error, (ssl.SSLError, ConnectionError))):
        log.warning("connection lost: %s: %r", context.get("message"), error)
    else:
        loop.default_exception_handler(context)


def listen(over: asyncio.Event) -> None:
    """Let the signals that ask us to end put up a flag, so that we end in our own order."""
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, over.set)


def main() -> None:
    """Run the command line."""
    cli(obj=run, auto_envvar_prefix="TRAINSHED")


if __name__ == "__main__":
    main()
