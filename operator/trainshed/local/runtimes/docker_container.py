"""A container of docker or podman: its output, its end, and the signals to it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from trainshed.api.coerce import parse_time
from trainshed.local import tasks

from . import log_file
from .docker_cli import PAUSE, TRIES, DockerCli
from .protocol import KILLED, Ends, StartFailed

#: How often, and with pauses of how many seconds, the engine is asked whether a killed container had no memory left.
OOM_CHECKS, OOM_PAUSE = 6, 0.2
#: The first of the exit codes that mean a signal.
SIGNALLED = 128
#: Seconds for which more of the log of a container that has ended is awaited: in a row, and all in all.
DRAIN, ALL_IN_ALL = 5.0, 60.0
#: Seconds after which a log that has ended before its container is followed again, at first and at most, and between
#: tries to kill.
AGAIN, LONGEST, KILL_PAUSE = 0.5, 60.0, 1.0
#: Commands in place of `kill` for signals to all processes of a container.
WHOLE: Mapping[int, tuple[str, ...]] = {signal.SIGSTOP: ("pause",), signal.SIGCONT: ("unpause",)}
#: What docker and podman say about a container that does not exist.
GONE = "no such"
#: Characters of an odd answer that are shown.
SHOWN = 100


@dataclass(frozen=True, slots=True)
class Engine:
    """What containers need of their runtime.

    `labels` are the options with those of the run, `say` prints a line, `keep` keeps a task until it is done.
    """

    cli: DockerCli
    labels: tuple[str, ...]
    now: Callable[[], datetime]
    ends: Ends
    say: Callable[[str], None]
    keep: Callable[[asyncio.Task[None]], None]


@dataclass(frozen=True, slots=True)
class EngineState:
    """The state of a container, as the engine tells it."""

    running: bool
    code: int
    out_of_memory: bool
    ended_at: datetime | None


def state_of(text: str) -> EngineState:
    """Return the state that an engine has written as JSON, in its last line; raises ValueError.

    A missing time is the year 1, which `parse_time` does not accept.
    """
    try:
        found = json.loads(text.rpartition("\n")[2])
        ended = parse_time(found["FinishedAt"])
        return EngineState(bool(found["Running"]), int(found["ExitCode"]), bool(found.get("OOMKilled")), ended)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(text) from error


@dataclass(frozen=True, slots=True)
class ExecProcess:
    """Implements `protocol.Process`: the program of docker that waits for another one's end."""

    process: asyncio.subprocess.Process

    async def wait(self) -> int:
        """Wait for the end; return the exit code."""
        code = await self.process.wait()
        return code if code >= 0 else SIGNALLED - code

    def signal(self, number: int) -> None:
        """Send a signal to the program of docker, which passes none on."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)


class ContainerLog:
    """The output of a container, which the engine may stop to print before it is complete, or not end after it."""

    def __init__(self, process: asyncio.subprocess.Process, now: Callable[[], datetime]) -> None:
        self._process = process
        self._now = now
        self._read_at = now()
        self._stopped_at: datetime | None = None
        self._changed = asyncio.Event()
        self._closed = False
        self.count = 0

    async def read(self, size: int) -> bytes:
        """Return some output, nothing at its end."""
        while True:
            process = self._process
            if process.stdout and (chunk := await process.stdout.read(size)):
                self._read_at = self._now()
                self.count += len(chunk)
                return chunk
            if self._closed:
                return b""
            if process is self._process:
                await self._changed.wait()

    async def ended(self) -> None:
        """Wait until the engine prints no more of it."""
        await self._process.wait()

    def stop(self) -> None:
        """Read no more than what the engine has printed up to now."""
        self._stopped_at = self._now()
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def follow_again(self, cli: DockerCli, name: str) -> None:
        """Let the engine print what has come since the last output that it printed, which was read some time later."""
        since = min(self._read_at, self._stopped_at or self._read_at)
        self._process = await cli.follow("logs", "--follow", "--since", since.isoformat(), name)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def close(self) -> None:
        """Note that nothing comes any more."""
        self._closed = True
        self._changed.set()


class DockerContainer:
    """Implements `protocol.RuntimeContainer`; `limited` is whether it has a limit of memory."""

    def __init__(self, engine: Engine, name: str, log: asyncio.subprocess.Process, *, limited: bool) -> None:
        self._engine = engine
        self._name = name
        self._limited = limited
        self._over = asyncio.Event()
        self.reason = ""
        self.ended_at: datetime | None = None
        self.output = ContainerLog(log, engine.now)
        self._ended = asyncio.create_task(self._wait())

    async def wait(self) -> int:
        """Wait for the end; return the exit code."""
        return await asyncio.shield(self._ended)

    def signal(self, number: int) -> None:
        """Send a signal; nothing if the container has ended."""
        self._limited = self._limited and number != signal.SIGKILL
        if not self._ended.done():
            self._engine.keep(asyncio.create_task(self._signal(number, TRIES if number == signal.SIGKILL else 1)))

    async def exec(self, command: Sequence[str], streams: tuple[int, int, int]) -> ExecProcess:
        """Run another program in the container; raises `StartFailed`."""
        return ExecProcess(await self._engine.cli.attach(("exec", "--interactive", self._name, *command), streams))

    async def stacks(self) -> str:
        """Return what `trainshed.stack_dump` prints in a container beside this one; raises `StartFailed`."""
        from trainshed.stack_dump import IMAGE  # noqa: PLC0415 - few runs need it

        beside = ("--pid", f"container:{self._name}", "--cap-add", "SYS_PTRACE", "--user", "0", "--network", "none")
        words = ("run", "--rm", *self._engine.labels, *beside, "--entrypoint", "python")
        image = os.environ.get("TRAINSHED_IMAGE") or IMAGE
        return await self._engine.cli.run(*words, image, "-m", "trainshed.stack_dump")

    @property
    def over(self) -> bool:
        """Whether its end is known."""
        return self._ended.done()

    def note_end(self) -> None:
        """Note that the engine lists it as one that has ended, whatever its log does."""
        self._over.set()

    async def _signal(self, number: int, tries: int) -> None:
        for _ in range(tries):
            with contextlib.suppress(StartFailed):
                await self._engine.cli.run(*WHOLE.get(number, ("kill", "--signal", str(int(number)))), self._name)
                return
            await asyncio.sleep(KILL_PAUSE)
            if self.over:
                return

    async def _wait(self) -> int:
        """Wait for the end; follow the log again if it ends before the container."""
        pause = AGAIN
        try:
            while True:
                await self._until_log_ends()
                state = await self._state()
                if state is None:
                    return KILLED
                if not state.running:
                    return await self._read_end(state)
                await asyncio.sleep(pause)  # the engine may learn of the end a little later
                if pause == AGAIN and (state := await self._state()) and state.running:
                    cut = f"{self._engine.cli.program} has stopped to print the output of {self._name}"
                    self._engine.say(f"{cut}; it is asked for the rest, of which lines may be missing")
                pause = min(pause * 2, LONGEST)
                await self.output.follow_again(self._engine.cli, self._name)
        finally:
            self.output.close()

    async def _until_log_ends(self) -> None:
        """Wait until the log ends, or the container has ended and nothing more comes, though it could be read."""
        ended, over = asyncio.create_task(self.output.ended()), asyncio.create_task(self._over.wait())
        try:
            await asyncio.wait({ended, over}, return_when=asyncio.FIRST_COMPLETED)
            most = self.output.count + log_file.KEPT  # what the engine keeps
            await tasks.until_silent(ended, lambda: min(self.output.count, most), DRAIN, ALL_IN_ALL)
        finally:
            self._over.clear()
            self.output.stop()
            for task in (ended, over):
                task.cancel()

    async def _state(self) -> EngineState | None:
        """Return the state, None if the container was removed, or if the engine does not tell it: it does not work."""
        cli, problem = self._engine.cli, ""
        for attempt in range(TRIES):
            if attempt:
                await asyncio.sleep(PAUSE)
            text = ""
            try:
                text = await cli.run("inspect", "--format", "{{json .State}}", self._name)
                return state_of(text)
            except StartFailed as error:
                problem = str(error)
                if GONE in problem.lower():
                    return None
            except ValueError:
                problem = f"its answer to `inspect` is no state of a container: {text[:SHOWN]}"
            if cli.problem:
                return None
        cli.problem = cli.problem or problem
        return None

    async def _read_end(self, state: EngineState) -> int:
        """Read when the container ended, and whether memory was the reason, which the engine may learn later.

        The time is the engine's, as far as that is accurate: answers of the command line arrive in another order than
        containers end.
        """
        self.ended_at = self._engine.ends.at_once(state.ended_at)
        for _ in range(OOM_CHECKS):
            if state.code != KILLED or not self._limited:
                break
            if state.out_of_memory:
                self.reason = "OOMKilled"
                break
            await asyncio.sleep(OOM_PAUSE)
            state = await self._state() or state
        return state.code
