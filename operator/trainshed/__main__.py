"""The key: read the settings, open the door."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import traceback
import warnings
from functools import partial
from typing import Any

import kopf
import uvloop

from trainshed.cli import cli
from trainshed.cluster import ClusterError
from trainshed.cluster.credentials import NoCredentials, find
from trainshed.frameworks import served
from trainshed.loop import journal
from trainshed.loop.handlers import registry
from trainshed.loop.operator import Operator
from trainshed.settings import Settings

#: Seconds before kopf is started again should it end with an error, and for it to end when it is told to; our own
#: informers know all that it knows.
PAUSE, GRACE = 5.0, 2.0

log = logging.getLogger("trainshed")


def run(settings: Settings) -> int:
    """Run the operator until it is told to end; the exit code."""
    journal.begin(settings.log_level, settings.log_format)
    for words in settings.passed_over:
        log.warning("%s", words)
    # The caches hold many small objects that stay; looking for garbage among them so often costs more than it frees.
    gc.set_threshold(100_000, 50, 50)
    # A kopf that falls drops what it was about to begin; that is told in a line of the log already.
    warnings.filterwarnings("ignore", "coroutine 'worker' was never awaited", RuntimeWarning)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(operate(settings))


async def operate(settings: Settings) -> int:
    """The operator, and kopf around it."""
    frameworks = served(settings.mpi_version, settings.kinds)
    try:
        credentials = find(settings.kubeconfig, settings.context)
        operator = Operator(settings, credentials, frameworks)
        # Before kopf, which takes whatever task begins after it for one of its own that hangs.
        await operator.start()
    except (NoCredentials, ClusterError, OSError) as error:
        log.error("%s", error)  # noqa: TRY400 - the words say it all
        return 1
    log.info("looking after %s at %s", ", ".join(framework.kind for framework in frameworks), credentials.server)
    stop = asyncio.Event()
    shell = asyncio.create_task(
        supervise(registry(frameworks, credentials, operator.wake), settings, (operator.over, stop))
    )
    listen(operator.over)
    await operator.over.wait()
    await operator.stop()
    stop.set()
    await asyncio.wait((shell,), timeout=GRACE)
    await clear()
    log.info("ended")
    return 1 if operator.broken else 0


async def supervise(
    found: kopf.OperatorRegistry, settings: Settings, flags: tuple[asyncio.Event, asyncio.Event]
) -> None:
    """Run kopf until the second flag is up, and put up the first on a signal; should it fall, start it again."""
    over, stop = flags
    where = {"namespaces": [settings.namespace]} if settings.namespace else {"clusterwide": True}
    while not stop.is_set():
        ready, stuck = asyncio.Event(), asyncio.Event()
        asyncio.get_running_loop().set_exception_handler(partial(complain, stuck))
        known, fallen = asyncio.create_task(ready.wait()), asyncio.create_task(stuck.wait())
        shell = asyncio.create_task(
            kopf.operator(registry=found, standalone=True, ready_flag=ready, stop_flag=stop, **where)
        )
        await asyncio.wait((shell, known, fallen), return_when=asyncio.FIRST_COMPLETED)
        listen(over)  # kopf has taken the signals for itself
        await asyncio.wait((shell, fallen), return_when=asyncio.FIRST_COMPLETED)
        for task in (shell, known, fallen):
            task.cancel()
        await asyncio.wait((shell,), timeout=GRACE)
        if shell.done() and not shell.cancelled() and shell.exception() is None:
            over.set()
            return
        log.warning("kopf has fallen over: %s; starting it again", reason(shell))
        await asyncio.sleep(PAUSE)


def reason(shell: asyncio.Task[None]) -> str:
    """Why kopf ended, if it did: now and then a part of it falls and the rest hangs."""
    error = shell.exception() if shell.done() and not shell.cancelled() else None
    return f"{type(error).__name__}: {error}" if error else "it hangs"


async def clear() -> None:
    """Break off what kopf has left, once it has had its time: it has nothing of ours, and nothing more to say."""
    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in left:
        task.cancel()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.gather(*left, return_exceptions=True), GRACE)


def complain(stuck: asyncio.Event, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Tell of an error that nobody waits for; one of kopf's makes it hang rather than end, and is told in a line."""
    error = context.get("exception")
    frames = traceback.extract_tb(error.__traceback__) if error else ()
    if any("kopf" in frame.filename for frame in frames):
        log.warning("a part of kopf has fallen over: %r", error)
        stuck.set()
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
