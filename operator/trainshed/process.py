"""The process: its clock, its logs, its signals, and the errors and tasks that its event loop is left with."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import signal
import ssl
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from trainshed.api.coerce import encodable
from trainshed.api.foreign_text import escaped, json_escaped
from trainshed.api.job import JobKey

#: Seconds since 1970, or since an arbitrary start.
TimeSource = Callable[[], float]
#: Seconds: the smallest step of the wall clock that counts (a leap second does not), how long it must last, and the
#: interval between two comparisons.
STEP, LASTING, COMPARED = 5.0, 60.0, 5.0


@contextlib.contextmanager
def modules_hidden(*names: str) -> Iterator[None]:
    """Let imports find none of these modules; not those that are imported already."""
    names = tuple(name for name in names if name not in sys.modules)
    sys.modules.update(dict.fromkeys(names))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in names:
            del sys.modules[name]


def uptime() -> float:
    """Return the seconds of the monotonic clock; CLOCK_BOOTTIME where available, which includes the time asleep."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class Clock:
    """The wall clock at the start of the process plus the time that has passed on the monotonic clock since.

    Deadlines, back-off and TTL are times that are compared with now, while the event loop's timers that wait for them
    are monotonic. If now could jump, timers would fire at once or far too late. So it never jumps, and within a process
    time never goes backwards. NTP's slewing affects both clocks alike. After a machine was suspended the clock includes
    the time asleep, so a leader that resumes does not treat its Lease as renewed just now.

    But a process that starts before NTP has set the clock would keep the wrong time and write it into statuses. So the
    process ends after the wall clock has been off for a minute (`stepped`), and the kubelet restarts it. That is safer
    than to correct the time in a running process: the Lease, the back-off, the timers and everything that the
    reconciler remembers are times of the old clock. After the clock was set back by an hour a replica would hold a lost
    Lease for that hour. A start reads everything with the new time and does only what every start does.
    """

    def __init__(self, wall: TimeSource = time.time, steady: TimeSource = uptime) -> None:
        self._wall = wall
        self._steady = steady
        self._offset = wall() - steady()

    def now(self) -> datetime:
        """The current time in UTC."""
        return datetime.fromtimestamp(self.seconds(), UTC)

    def seconds(self) -> float:
        """The current time in seconds since 1970."""
        return self._offset + self._steady()

    def skew(self) -> float:
        """Return the step of the wall clock since the start in seconds; positive is forward."""
        return self._wall() - self._steady() - self._offset

    async def stepped(self) -> float:
        """Wait until the wall clock was changed for good; return the step in seconds, positive is forward.

        A step that is reverted within the minute, or is followed by another, does not count.
        """
        found, lasted = 0.0, 0.0
        while lasted < LASTING:
            await asyncio.sleep(COMPARED)
            skew = self.skew()
            same = abs(skew) >= STEP and abs(skew - found) < STEP
            found, lasted = (found, lasted + COMPARED) if same else (skew, 0.0)
        return found


#: The attribute of a log record that holds the key of its job.
JOB = "job"


class TextFormatter(logging.Formatter):
    """Formats a record as one line; its traceback follows, indented, so that no line of it looks like another record.

    What is not printable is escaped: a message may quote what others have written.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name of the base class
        """Return the line."""
        return escaped(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802, ANN401 - the signature of the base class
        """Return the traceback."""
        return "\n".join(f"  {escaped(line)}" for line in super().formatException(ei).split("\n"))


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object per line, in which all that is not printable is escaped."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        import orjson  # noqa: PLC0415 - only operators that log JSON need it

        found: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": encodable(record.getMessage()),
        }
        key = getattr(record, JOB, None)
        if isinstance(key, JobKey):
            found["job"] = {"kind": key.kind, "namespace": key.namespace, "name": key.name}
        if record.exc_info and record.exc_info[0]:
            found["error"] = encodable(self.formatException(record.exc_info))
        return json_escaped(orjson.dumps(found).decode())


def job_fields(key: JobKey) -> dict[str, JobKey]:
    """Return the `extra` argument of a log call about this job."""
    return {JOB: key}


def configure_logging(level: str, form: str) -> None:
    """Configure logging to standard error with this level and format.

    Records have neither thread, process and task nor the line that logs: no format shows them, and they take a quarter
    of the time of a log call (Python's logging HOWTO, "Optimization").
    """
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging.logAsyncioTasks = False  # type: ignore[attr-defined] # from Python 3.12 on
    logging._srcfile = None  # noqa: SLF001 - documented there
    text = TextFormatter("%(asctime)s %(levelname)-7s %(message)s")
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if form == "json" else text)
    logging.basicConfig(level=getattr(logging, level.upper()), handlers=[handler], force=True)


#: Seconds that kopf has to stop.
GRACE_PERIOD = 0.5

log = logging.getLogger("trainshed")


def allow_open_files(number: int) -> None:
    """Let the process have so many files and connections open, as far as it may; container runtimes often set 1,024."""
    before, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before != resource.RLIM_INFINITY and before < number:
        wanted = number if most == resource.RLIM_INFINITY else min(number, most)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


async def wait_for_any(*flags: asyncio.Event) -> None:
    """Wait until one of the flags is set."""
    waiting = [asyncio.create_task(flag.wait()) for flag in flags]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()


async def cancel_remaining_tasks() -> None:
    """Cancel the tasks that kopf has left behind; its grace period is over and none of them belongs to Trainshed."""
    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in left:
        task.cancel()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.gather(*left, return_exceptions=True), GRACE_PERIOD)


def handle_loop_error(stuck: asyncio.Event, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an error that no task awaits; set `stuck` if it comes from kopf, which then hangs instead of ending.

    Two kinds of error are one warning without a traceback: a connection that breaks while uvloop writes to it
    (IndexError, RuntimeError; the request fails with an error of its own), and a connection that breaks in its TLS
    handshake after the request was cancelled, so that nothing awaits the error.
    """
    error = context.get("exception")
    frames = traceback.extract_tb(error.__traceback__) if error else ()
    unawaited = "future" in context and not isinstance(context["future"], asyncio.Task)
    if any("/kopf/" in frame.filename for frame in frames):
        log.warning("a kopf task failed: %r", error)
        stuck.set()
    elif "transport" in context or (unawaited and isinstance(error, (ssl.SSLError, ConnectionError))):
        what = "in its TLS handshake, when nothing waited for it any more" if unawaited else context.get("message")
        log.warning("connection lost: %s: %r", what, error)
    else:
        loop.default_exception_handler(context)


def handle_signals(over: asyncio.Event) -> None:
    """Set a flag on SIGTERM and SIGINT, so that the operator shuts down in its own order."""
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, over.set)
