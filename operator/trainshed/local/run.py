"""Runs jobs on this machine until they have finished."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import signal
import socket
import sys
import time
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from trainshed.api import run_history, status_codec
from trainshed.api.job import ProgressSource
from trainshed.controller.namespaces import Scope
from trainshed.coroutines import run_coroutine
from trainshed.local.node.downward import NodeFacts, allocatable
from trainshed.local.node.environment import EnvironmentResolver, Gpus, gpu_numbers
from trainshed.local.node.exec_server import ExecServer
from trainshed.local.node.kubelet import Kubelet
from trainshed.local.node.pod_worker import KubeletDependencies
from trainshed.local.node.volumes import ANY_USER, OWN_USER, Volumes, no_token
from trainshed.local.runtimes.docker_cli import ENGINES
from trainshed.local.runtimes.hosts import LOOPBACK, Hosts
from trainshed.local.runtimes.log_file import KEPT
from trainshed.local.runtimes.protocol import Runtime
from trainshed.memory.errors import StatusError
from trainshed.memory.strategies import DEFAULT_GRACE, bounded_grace
from trainshed.process import Clock

from . import summary, tasks
from .cluster import LocalCluster
from .decision_log import DecisionLog
from .direction import Direction, Director
from .failure_injection import FailureInjector
from .history import HistoryKeeper
from .last_pods import STUCK, LastPods, named
from .local_controller import LocalController
from .options import Options, Refused, ShownRun
from .output import Output
from .printer import Printer, StatusLine
from .run_folder import kill_marked, new_run
from .runtime_choice import RuntimeChoice
from .stack_report import StackReport
from .state_folder import CLAIMS, HOST_PATHS
from .stored_objects import EVENT, POD, Stored
from .training_progress import TrainingProgress

if TYPE_CHECKING:
    from trainshed.views.rank_stacks import Result

    from .run_endpoint import RunEndpoint

SUCCEEDED, FAILED, INTERRUPTED = 0, 1, 130
#: Seconds: how often the end of the jobs is checked, and how long replicas get to end which the job has left running.
CHECK, GRACE = 0.05, 5.0
#: The Ctrl-C that kills all replicas, and the one after which the run waits for nothing; seconds until it then exits.
KILLS, GIVES_UP, EXIT = 2, 3, 10.0


def run(options: Options) -> int:
    """Run the jobs; return the exit code. Raises `Refused`, `python.NoPython`, and `state_folder.Unusable`."""
    options.check()
    return run_coroutine(partial(_run, options))


async def _run(options: Options) -> int:
    local_run = LocalRun(options)
    if options.page is None:
        return await local_run.run()
    async with options.page(local_run.shown) as stay:
        if (code := await local_run.run()) != INTERRUPTED:
            await stay()
    return code


class LocalRun:
    """One run of some jobs."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._clock = Clock()
        first = options.jobs[0].job.name
        self._folder = new_run(options.state, first, self._clock.now())
        self._started = self._clock.now()
        self._printer = Printer(options.stream or sys.stdout)
        self._lines = Printer(sys.stderr) if options.json else self._printer
        self._output = Output(
            self._folder.logs,
            options.only,
            one_job=len(options.jobs) == 1,
            width=max(len(name) for name in options.labels()),
            colour=options.colour,
            write=self._lines.line,
        )
        self._choice = RuntimeChoice(options, self._folder, self._output.say)
        self._frameworks = tuple({item.framework.kind: item.framework for item in options.jobs}.values())
        self._cluster = LocalCluster(self._clock.now, self._frameworks)
        self._progress = TrainingProgress(
            options.jobs, self._output, time.monotonic, reports_all=options.page is not None
        )
        logs = options.director.listen(self._progress) if options.director else self._progress
        self._injector = FailureInjector(options.failures, logs, self._kill)
        self._kubelet: Kubelet | None = None
        self._history = HistoryKeeper([framework.kind for framework in self._frameworks], self._clock.now)
        self._decisions = DecisionLog(self._folder.path, self._output.say)
        self._report: StackReport | None = None
        self._created: set[str] = set()
        self._changed = 0.0
        self._signals = self._interrupts = 0
        self._interrupted = asyncio.Event()
        self._ending = asyncio.Event()
        self._faults = tasks.Faults(self._ending.set)
        self._stuck_at = self._given_up_at = math.inf

    @property
    def shown(self) -> ShownRun:
        """The run as others show it."""
        return ShownRun(
            self._cluster.server, self._folder.path, self._output.log, self._stacks, self._output.print_line
        )

    async def run(self) -> int:
        """Run everything; return the exit code."""
        self._faults.watch()
        try:
            return await self._run()
        except Refused as error:
            raise Refused(self._faults.sentence() or str(error)) from self._faults.first or error
        finally:
            self._decisions.close()
            self._output.close()
            if note := self._folder.close():
                self._lines.line(f"note: {note}")
            if self._signals >= GIVES_UP:
                signal.setitimer(signal.ITIMER_REAL, 0)

    async def _run(self) -> int:
        hosts = Hosts()
        for item in self._options.jobs:
            hosts.add_job(item.job)
        runtime = await self._choice.open(hosts)
        server: ExecServer | None = None
        try:
            endpoint: RunEndpoint | None = None
            if any(item.job.progress is ProgressSource.ENDPOINT for item in self._options.jobs):
                from .run_endpoint import open_endpoint  # noqa: PLC0415 - an HTTP server, which few runs need

                heard = self._options.director.hear if self._options.director else None
                endpoint = await open_endpoint(runtime, self._choice.ignored, heard)
            self._introduce(runtime)
            kubelet = self._kubelet = self._make_kubelet(runtime, hosts, endpoint)
            if folder := self._choice.mpi_folder:
                server = ExecServer(
                    folder, kubelet.container, self._choice.secret, in_containers=self._choice.in_containers
                )
                server.start()
            scope = Scope(self._frameworks, self._options.job_defaults)
            controller = LocalController(self._cluster.server, scope, self._clock, endpoint, self._decisions)
            self._progress.report = controller.report
            self._cluster.listeners += [self._on_change, self._history.on_change]
            await controller.start()
            try:
                for document in (*self._options.objects, *(item.runnable for item in self._options.jobs)):
                    self._cluster.apply(document)
            except StatusError as error:
                raise Refused(error.message) from error
            await self._until_over(runtime, kubelet, controller)
        finally:
            if server:
                await server.close()
            await self._close(runtime)
            if runtime.problem or self._interrupts >= GIVES_UP:
                kill_marked(self._folder.id)  # what a launcher that was killed could not kill
        return self._conclude()

    async def _until_over(self, runtime: Runtime, kubelet: Kubelet, controller: LocalController) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            # Not `add_signal_handler`, which does nothing while the event loop waits for a reader of the output.
            signal.signal(number, lambda *_: self._hurry(loop, kubelet))
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            # The shell and the system may both send it for one terminal: it never counts as a second Ctrl-C.
            signal.signal(signal.SIGHUP, lambda *_: None if self._signals else self._hurry(loop, kubelet))
        report = self._report = StackReport(self._options.jobs, kubelet.container, self._output)
        report.listen(loop, *controller.watched)
        status = self._status_line()
        try:
            await self._choice.get_images(self._ending)
            self._injector.start([(item.job.name, pod) for item in self._options.jobs for pod in item.pod_names])
            if self._options.director:
                await self._be_directed(self._options.director, runtime, kubelet)
            else:
                await self._wait(runtime, kubelet)
            self._say_what_was_not_created()
        finally:
            self._injector.close()
            report.close()
            await controller.close()
            if (left := kubelet.running()) and not self._ending.is_set():
                self._output.say(f"stopping what the finished job has left running: {', '.join(left)}")
            grace = self._grace() if self._interrupted.is_set() else GRACE
            self._terminate(kubelet, grace if self._interrupts < KILLS and not self._options.director else 0)
            await self._until_ended(runtime, kubelet)
            if status:
                self._output.write_line = self._lines.line
                status.stop()
        if self._faults.first:
            raise Refused
        if runtime.problem and not self._interrupted.is_set():
            raise Refused(runtime.problem)

    def _terminate(self, kubelet: Kubelet, grace: float) -> None:
        self._stuck_at = min(self._stuck_at, asyncio.get_running_loop().time() + grace + STUCK)
        kubelet.terminate(grace)

    async def _until_ended(self, runtime: Runtime, kubelet: Kubelet) -> None:
        """Wait until all replicas have ended and their output was read, but not for a runtime that does not work."""
        loop, left, taken = asyncio.get_running_loop(), len(kubelet.running()), self._output.taken
        closing, most = asyncio.create_task(kubelet.close()), taken + KEPT * left
        while not closing.done():
            began = loop.time()
            await asyncio.wait({closing}, timeout=CHECK)
            if taken != (taken := min(self._output.taken, most)):
                self._stuck_at += loop.time() - began
            if left != (left := len(kubelet.running())):
                self._stuck_at = max(self._stuck_at, loop.time() + STUCK)
            if not closing.done() and (runtime.problem or loop.time() > self._stuck_at or self._interrupts >= GIVES_UP):
                why = runtime.problem or f"not ended, although killed: {', '.join(kubelet.running())}"
                self._output.say(f"{why}; ending the runtime")
                await self._close(runtime)
                await self._wait_for(closing, STUCK)
                kubelet.abandon()
        await closing

    async def _close(self, runtime: Runtime) -> None:
        """Close the runtime, which after the third Ctrl-C goes on without this process if it takes long."""
        closing = asyncio.create_task(runtime.close())
        await self._wait_for(closing, math.inf)
        if not closing.done():
            closing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await closing

    async def _wait_for(self, task: asyncio.Task[None], seconds: float) -> None:
        """Wait some seconds for the end of a task, but not longer than the third Ctrl-C permits."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        await asyncio.wait({task}, timeout=CHECK)
        while not task.done() and loop.time() < min(until, self._given_up_at):
            await asyncio.wait({task}, timeout=CHECK)

    async def _wait(self, runtime: Runtime, kubelet: Kubelet) -> None:
        """Wait until all jobs are over, and nothing changes or ends any more, or until the user interrupts."""
        loop = asyncio.get_running_loop()
        last = LastPods(self._output.say)
        while not self._ending.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), CHECK)
            if runtime.problem:
                self._ending.set()
            if not all(status_codec.parse_status(job).over for job in self._jobs()):
                last.start_again()
                continue
            terminating = any("deletionTimestamp" in pod["metadata"] for pod in self._cluster.of(POD))
            if last.are_over(loop.time(), self._changed, kubelet.ending(), terminating=terminating):
                return

    async def _be_directed(self, director: Director, runtime: Runtime, kubelet: Kubelet) -> None:
        """Let a director do everything, until it has, or until the user interrupts."""
        volumes = (self._folder.pods, self._folder.root / CLAIMS, self._folder.root / HOST_PATHS)
        direction = Direction(self._cluster, kubelet, volumes)
        directing = tasks.start(director.direct(direction), "director")
        while not directing.done() and not self._ending.is_set():
            await asyncio.wait({directing}, timeout=CHECK)
            if runtime.problem:
                self._ending.set()
        directing.cancel()
        await asyncio.gather(directing, return_exceptions=True)

    def _say_what_was_not_created(self) -> None:
        """Name the replicas without which a job was over, such as workers whose master ended soon; their logs lack."""
        names = ((item.job.name, pod) for item in self._options.jobs for pod in item.pod_names)
        missing = [pod for job, pod in names if pod not in self._created and self._output.shows(job, pod)]
        if missing and not self._ending.is_set():
            self._output.say(f"not created, as the job was over before: {named(missing)}")

    def _hurry(self, loop: asyncio.AbstractEventLoop, kubelet: Kubelet) -> None:
        for printer in (self._printer, self._lines):
            printer.hurry()
        self._signals += 1
        if self._signals == GIVES_UP:
            signal.signal(signal.SIGALRM, lambda *_: self._exit())
            signal.setitimer(signal.ITIMER_REAL, EXIT)
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._interrupt, kubelet)

    def _exit(self) -> NoReturn:
        """Exit whatever the event loop does; launcher and reaper end the replicas then, as if the run was killed."""
        kill_marked(self._folder.id)
        os._exit(INTERRUPTED)

    def _interrupt(self, kubelet: Kubelet) -> None:
        self._interrupts += 1
        if self._interrupts == GIVES_UP:
            self._given_up_at = asyncio.get_running_loop().time() + GRACE
        if self._interrupts == 1:
            self._interrupted.set()
            self._ending.set()
            self._output.say("ending all replicas; Ctrl-C again kills them")
        else:
            self._terminate(kubelet, 0)

    def _grace(self) -> float:
        found = (bounded_grace(pod["spec"]["terminationGracePeriodSeconds"]) for pod in self._cluster.of(POD))
        return float(max(found, default=DEFAULT_GRACE))

    def _kill(self, pod: str) -> None:
        killed = self._kubelet is not None and self._kubelet.kill(pod)
        self._output.say(f"--fail: {'killed' if killed else 'cannot kill, it does not run:'} {pod}")

    async def _stacks(self, job: str) -> dict[str, Result]:
        return await self._report.found(job) if self._report else {}

    def _jobs(self) -> Iterable[Stored]:
        own = ((item.job.kind, item.job.namespace, item.job.name) for item in self._options.jobs)
        return filter(None, (self._cluster.find(*key) for key in own))

    def _introduce(self, runtime: Runtime) -> None:
        names = ", ".join(f"{item.job.kind} {item.job.namespace}/{item.job.name}" for item in self._options.jobs)
        self._output.say(f"running {names} on this machine: {runtime.description}")
        for note in self._folder.notes():
            self._output.say(f"note: {note}")
        if self._choice.ignored:
            self._output.say(f"without effect here: {'; '.join(self._choice.ignored)}")

    def _make_kubelet(self, runtime: Runtime, hosts: Hosts, endpoint: RunEndpoint | None) -> Kubelet:
        resolver = EnvironmentResolver(self._cluster.find)
        modes = ANY_USER if self._choice.name in ENGINES else OWN_USER
        token = endpoint.tokens.of if endpoint else no_token
        address = LOOPBACK if self._choice.name == "processes" else str(hosts.gateway)
        return Kubelet(
            KubeletDependencies(
                cluster=self._cluster,
                runtime=runtime,
                logs=self._injector,
                now=self._clock.now,
                pods=self._folder.pods,
                volumes=Volumes(resolver, self._folder.state.path, self._choice.rewrite, modes, token),
                resolver=resolver,
                admit=self._choice.admitted,
                gpus=Gpus(gpu_numbers()),
                node=NodeFacts(socket.gethostname(), address, allocatable(self._folder.pods)),
                images=self._choice.images,
            )
        )

    def _on_change(self, kind: str, before: Stored | None, after: Stored | None) -> None:
        self._changed = asyncio.get_running_loop().time()
        if kind == POD and before is None and after is not None:
            self._created.add(after["metadata"]["name"])
        if kind == EVENT and before is None and after is not None:
            reason, message = after["reason"], after["message"]
            several = len(self._options.jobs) > 1
            self._output.say(f"{reason}: {message}", after["involvedObject"]["name"] if several else "job")

    def _status_line(self) -> StatusLine | None:
        terminal = sys.stdout and sys.stdout.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")
        if self._options.json or not (terminal and self._options.colour):
            return None
        line = StatusLine(self._status_text, self._lines)
        self._output.write_line = line.print
        line.start()
        return line

    def _status_text(self) -> str:
        seconds = (self._clock.now() - self._started).total_seconds()
        return summary.status_text(
            ((job, self._progress.of(job)) for job in self._jobs()), self._cluster.of(POD), seconds
        )

    def _conclude(self) -> int:
        jobs, interrupted = list(self._jobs()), self._interrupted.is_set()
        self._folder.keep(run_history.FILE, run_history.encode(self._history.history(jobs, self._cluster.of(EVENT))))
        ends = [summary.JobEnd(job, summary.events_of(self._cluster, job), self._progress.of(job)) for job in jobs]
        if self._options.json:
            own = {"interrupted": interrupted, "ignored": self._choice.ignored, "logs": str(self._folder.logs)}
            self._printer.line(json.dumps({"jobs": list(map(summary.as_json, ends)), **own}, indent=2, default=str))
        else:
            run = self._started, self._clock.now()
            for line in summary.all_described(ends, run, self._folder.path, interrupted=interrupted):
                self._printer.line(line)
        if interrupted:
            return INTERRUPTED
        return SUCCEEDED if all(summary.state_of(job) == "Succeeded" for job in jobs) else FAILED
