"""The command line of docker, or of podman, which takes the same words."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import IO, Any

from trainshed.local import tasks

from . import docker_variables, log_file
from .protocol import StartFailed

#: The programs that this is for.
ENGINES = ("docker", "podman")
#: Commands that run at once: each is a process of some 30 MB.
AT_ONCE = 8
#: Seconds for which the end of a killed command is awaited; a process that it has started may keep its output open.
KILLED = 2.0
#: Commands that take no long time, whatever the job is.
QUICK = ("version", "inspect", "image", "network", "ps")
#: Commands that delete files, as many as a job has written: they are given up after some time, but prove nothing.
DELETING = ("rm", "run")
#: Seconds after which the engine does not work: for quick commands, and for all others but pulls. The start of a
#: container may give each file of a claim a label of SELinux.
ANSWER, LONGEST = 60.0, 300.0
#: How often, and with pauses of how many seconds, an engine is asked that does not fail for good when it fails once.
TRIES, PAUSE = 3, 10.0
#: How the states of containers that have ended begin.
ENDED = ("Exited", "Dead")
#: What stands before messages of the engine.
PREFIXES = ("Error response from daemon: ", "docker: ", "Error: ")
#: Commands that make what is to be removed at the end.
MAKING = ("create", "run", "network")
#: Reads from the pipe on its standard input, which also ends when the run is killed; then removes what the run has
#: left. The engine may still be at work for commands that the run has begun: unless the run says that there are none,
#: it is asked again, until nothing new was found for a minute.
REAPER = """read -r ended
for attempt in 1 2 3 4 5 6 7 8; do
  new=
  for pause in 0 0.5 1 2 4 8 15 30; do
    sleep $pause
    left=$("$0" ps --all --quiet --filter "label=$1" --filter "label=$2")
    [ -z "$left" ] || { new=1; "$0" rm --force --volumes $left; }
    "$0" network rm "$3"
    [ -z "$ended" ] || exit
  done
  [ -n "$new" ] || exit
done
"""


class DockerCli:
    """Runs commands of a program, `docker` or `podman`; `problem` is that its engine does not work, else empty."""

    def __init__(self, program: str) -> None:
        self.program = program
        self.problem = ""
        #: The commands for which the engine may still make something: they go on, or were given up.
        self.unfinished = 0
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def version(self) -> str:
        """Return the version of the engine; raises `StartFailed` if none answers."""
        if not shutil.which(self.program):
            raise StartFailed(f"{self.program} is not installed")
        part = "Client" if self.program == "podman" else "Server"  # podman has no server on the same machine
        return await self.run("version", "--format", f"{{{{.{part}.Version}}}}")

    async def run(self, *words: str) -> str:
        """Return the output of a command; raises `StartFailed` with the message of the engine."""
        async with self._slots:
            return await self._bounded(words[0], self.wait_for(*words))

    async def _bounded(self, verb: str, answer: Coroutine[Any, Any, str]) -> str:
        """Wait for the answer to a command, but not for an engine that hangs; raises `StartFailed`."""
        longest = ANSWER if verb in QUICK else LONGEST
        try:
            return await tasks.within(answer, longest)
        except TimeoutError:
            late = f"{self.program} has not answered `{verb}` for {longest:.0f} s"
            if verb not in DELETING:
                self.problem = self.problem or late
            raise StartFailed(late) from None

    async def check(self, label: str) -> list[str]:
        """Return the containers with a label that have ended, without waiting for others.

        Notes the problem if the engine does not say which, though it is asked again.
        """
        problem = ""
        for attempt in range(TRIES):
            await asyncio.sleep(PAUSE if attempt else 0)
            words = ("ps", "--all", "--filter", f"label={label}", "--format", "{{.Names}} {{.Status}}")
            try:
                lines = (await self._bounded("ps", self.wait_for(*words))).splitlines()
            except StartFailed as error:
                problem = str(error)
                if self.problem:
                    break
            else:
                found = (line.partition(" ") for line in lines)
                return [name for name, _, state in found if state.startswith(ENDED)]
        self.problem = self.problem or problem
        return []

    async def create(self, words: Sequence[str], variables: Mapping[str, str]) -> None:
        """Create a container with variables; raises `StartFailed` with the message of the engine.

        Its image is here: the program pulls none, with which it would start programs that know a registry's passwords
        or verify signatures, and that read variables of their own.
        """
        options, file, own = docker_variables.passed(variables, self.program)
        with file:
            async with self._slots:
                words = ("create", "--pull", "never", *options, *words)
                await self._bounded("create", self.wait_for(*words, source=file, own=own))

    async def pull(self, image: str, waiting: Callable[[float], None]) -> None:
        """Pull an image, however long that takes, as long as the engine answers; raises `StartFailed`.

        `waiting` is called now and then with the seconds since the beginning.
        """
        pulling, begun, failed = asyncio.create_task(self.wait_for("pull", "--quiet", image)), time.monotonic(), 0
        try:
            while not (await asyncio.wait({pulling}, timeout=ANSWER))[0]:
                try:
                    await self.version()
                except StartFailed:
                    failed += 1
                    if self.problem or failed >= TRIES:
                        raise
                else:
                    failed = 0
                    waiting(time.monotonic() - begun)
            await pulling
        finally:
            pulling.cancel()
            await asyncio.gather(pulling, return_exceptions=True)

    async def wait_for(self, *words: str, source: IO[bytes] | None = None, own: Mapping[str, str] | None = None) -> str:
        """Return the output of a command as `run` does, but let others run meanwhile.

        `source` is its standard input, and `own` are variables that it has besides those of this process.
        """
        self.unfinished += words[0] in MAKING
        try:
            process = await asyncio.create_subprocess_exec(
                *(self.program, *words),
                stdin=source or asyncio.subprocess.DEVNULL,
                env=os.environ | (own or {}),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,  # Ctrl-C ends it only through the run
            )
        except OSError as error:
            self.unfinished -= words[0] in MAKING
            if error.errno != errno.E2BIG:
                raise
            raise StartFailed(f"cannot run {self.program} {words[0]}: {error.strerror}") from error
        try:
            output, errors = await process.communicate()
        except asyncio.CancelledError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()  # it may pull an image for long
            with contextlib.suppress(TimeoutError):  # its pipes must be closed before the event loop is
                await asyncio.wait_for(process.communicate(), KILLED)
            raise
        self.unfinished -= words[0] in MAKING
        if process.returncode:
            raise StartFailed(message(errors.decode(errors="replace")) or f"{self.program} {words[0]} failed")
        return output.decode(errors="replace").strip()

    async def follow(self, *words: str) -> asyncio.subprocess.Process:
        """Start a command that runs for long, and return it with a pipe from its output and its errors."""
        return await asyncio.create_subprocess_exec(
            *(self.program, *words),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )

    def log_words(self) -> list[str]:
        """Return the options that limit the engine's own log of a container, which otherwise grows without end.

        docker has no such options for every driver that may be configured. podman keeps one file, if not the journal.
        """
        size = ["--log-opt", f"max-size={log_file.LARGEST}"]
        if self.program == "podman":
            return size
        return ["--log-driver", "json-file", *size, "--log-opt", f"max-file={log_file.FILES}"]

    async def attach(self, words: Sequence[str], streams: tuple[int, int, int]) -> asyncio.subprocess.Process:
        """Start a command with these standard streams."""
        source, output, errors = streams
        return await asyncio.create_subprocess_exec(
            *(self.program, *words), stdin=source, stdout=output, stderr=errors, start_new_session=True
        )

    async def start_reaper(self, labels: tuple[str, str], network: str) -> asyncio.subprocess.Process:
        """Start the process that removes the containers with both labels, and a network, when its input ends.

        It is quick if it gets a line before.
        """
        return await asyncio.create_subprocess_exec(
            *("sh", "-c", REAPER, self.program, *labels, network),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
            cwd=os.sep,
        )


def message(errors: str) -> str:
    """Return the message of the engine among the lines that a command has written to standard error."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    for prefix in PREFIXES:
        if found := next((line for line in lines if line.startswith(prefix)), ""):
            return found.removeprefix(prefix).removeprefix(PREFIXES[0])
    return lines[-1] if lines else ""
